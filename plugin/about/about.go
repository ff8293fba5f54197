// Package about says what the API shows of the process around the node: its version, settings, engine, network and database, the
// last lines of its log, how it crashed last, and the keys of the cluster. None of it has a secret.
//
// It refuses to know the node, and what is handed out.
package about

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/keyring"
	"github.com/ringlet/ringlet/plugin/logging"
)

// Config is what a process shows.
type Config struct {
	Version  string
	Settings config.Config
	Started  time.Time
	Database string           // path
	Watcher  *dockerd.Watcher // nil: the engine is not watched
	Network  *gossip.Gossip   // nil: there is none
	Sink     *logging.Sink
}

// Process is what the API can say of the process around the node.
type Process struct {
	*keyring.Ring
	cfg Config
}

// New returns what shows a process.
func New(cfg Config) *Process { return &Process{keyring.New(cfg.Settings), cfg} }

// About implements [admin.Process].
func (p *Process) About(context.Context) (admin.About, error) {
	out := admin.About{
		Version: p.cfg.Version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Started: p.cfg.Started.UTC(),
		Settings: map[string]string{}, Engine: p.engine(), Network: p.net(),
		Database: admin.AboutDatabase{Path: p.cfg.Database},
	}
	for _, a := range p.cfg.Settings.LogValue().Group() { // which has no secrets
		out.Settings[a.Key] = a.Value.String()
	}
	if info, err := os.Stat(p.cfg.Database); err == nil {
		out.Database.Bytes = info.Size()
	}
	return out, nil
}

func (p *Process) engine() admin.AboutEngine {
	if p.cfg.Watcher == nil {
		return admin.AboutEngine{Names: []string{}}
	}
	st := p.cfg.Watcher.State()
	out := admin.AboutEngine{
		Socket: st.Socket, Connected: st.Connected, Version: st.EngineVersion, API: st.APIVersion,
		Names: append([]string{}, st.Names...), LastError: st.LastError,
	}
	if !st.LastLook.IsZero() {
		out.LastLook = new(st.LastLook.UTC())
	}
	return out
}

func (p *Process) net() admin.AboutNetwork {
	out := admin.AboutNetwork{Problems: []string{}}
	if p.cfg.Network == nil {
		return out
	}
	st := p.cfg.Network.Status()
	out.Open, out.Alive, out.Known, out.Keys = true, st.Alive, st.Known, st.Keys
	if out.Keys == 0 { // the network is not open yet
		out.Keys = len(p.cfg.Settings.Keys)
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
func (p *Process) Crash() []byte {
	crash, err := lastwords.ReadCrash(filepath.Dir(p.cfg.Database))
	if err != nil {
		return nil // there was none, or nobody can tell
	}
	return []byte(crash.String())
}

// Log implements [admin.Process].
func (p *Process) Log() []byte { return p.cfg.Sink.Recent() }
