package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/lastwords"
	"github.com/ringlet/ringlet/plugin/logging"
)

// daemon is what the API can say of the process around the node.
type daemon struct {
	cfg      config.Config
	started  time.Time
	database string // path
	watcher  *dockerd.Watcher
	network  *peers
	sink     *logging.Sink

	changing sync.Mutex // the key file
}

// About implements [admin.Process].
func (p *daemon) About(context.Context) (admin.About, error) {
	out := admin.About{
		Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Started: p.started.UTC(),
		Settings: map[string]string{}, Engine: p.engine(), Network: p.net(),
		Database: admin.AboutDatabase{Path: p.database},
	}
	for _, a := range p.cfg.LogValue().Group() { // which has no secrets
		out.Settings[a.Key] = a.Value.String()
	}
	if info, err := os.Stat(p.database); err == nil {
		out.Database.Bytes = info.Size()
	}
	return out, nil
}

func (p *daemon) engine() admin.AboutEngine {
	if p.watcher == nil {
		return admin.AboutEngine{Names: []string{}}
	}
	st := p.watcher.State()
	out := admin.AboutEngine{Socket: st.Socket, Connected: st.Connected, Version: st.EngineVersion, API: st.APIVersion, Names: append([]string{}, st.Names...), LastError: st.LastError}
	if !st.LastLook.IsZero() {
		out.LastLook = new(st.LastLook.UTC())
	}
	return out
}

func (p *daemon) net() admin.AboutNetwork {
	out := admin.AboutNetwork{Problems: []string{}}
	if p.network == nil {
		return out
	}
	st := p.network.Status()
	out.Open, out.Alive, out.Known, out.Keys = true, st.Alive, st.Known, st.Keys
	if out.Keys == 0 { // the network is not open yet
		out.Keys = len(p.cfg.Keys)
	}
	if st.Self.IsValid() {
		out.Advertise = st.Self.String()
	}
	for _, problem := range st.Problems {
		out.Problems = append(out.Problems, problem.Text)
	}
	return out
}

// Crash implements [admin.Process].
func (p *daemon) Crash() []byte {
	crash, err := lastwords.ReadCrash(filepath.Dir(p.database))
	if err != nil {
		return nil // there was none, or nobody can tell
	}
	return []byte(crash.String())
}

// Log implements [admin.Process].
func (p *daemon) Log() []byte { return p.sink.Recent() }
