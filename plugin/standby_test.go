package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ringlet/ringlet/internal/lastwords"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/cli"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/logging"
	"github.com/ringlet/ringlet/plugin/plugintest"
	"github.com/ringlet/ringlet/plugin/standby"
)

// wholeProcess is all of the plugin process but for its settings and its log.
type wholeProcess struct {
	t             *testing.T
	opts          cli.ServeOptions
	log           plugintest.Log
	engine, local *http.Client
	end           func() error
}

// startWhole starts one with its data in a directory, and settings.
func startWhole(t *testing.T, data string, settings ...string) *wholeProcess {
	t.Helper()
	cfg, err := config.Load(append([]string{"RINGLET_HTTP=off", "RINGLET_TIMEOUT=1s"}, settings...), func() (string, error) { return "host-a", nil })
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	p := &wholeProcess{t: t, opts: cli.ServeOptions{Data: data, Socket: filepath.Join(dir, "ringlet.sock"), AdminSocket: filepath.Join(dir, "admin.sock"), DriverNames: []string{"ringlet"}}}
	p.engine, p.local = plugintest.Client(p.opts.Socket), plugintest.Client(p.opts.AdminSocket)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, p.opts, cfg, p.log.Logger(), &logging.Sink{}) }()
	p.end = sync.OnceValue(func() error {
		cancel()
		p.engine.CloseIdleConnections()
		p.local.CloseIdleConnections()
		return <-ended
	})
	t.Cleanup(func() {
		if err := p.end(); err != nil && !errors.Is(err, context.Canceled) { // which it is when it is told to end while it starts
			t.Errorf("the process ended with %v", err)
		}
	})
	plugintest.Eventually(t, "its sockets are there", func() bool { return dockerd.HasSocket(p.opts.Socket) && dockerd.HasSocket(p.opts.AdminSocket) })
	return p
}

// call makes one call of an engine, which must be answered.
func (p *wholeProcess) call(method string, body any) map[string]any {
	p.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	resp, err := p.engine.Post("http://plugin/IpamDriver."+method, "", bytes.NewReader(text))
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		p.t.Fatal(err)
	}
	return out
}

func (p *wholeProcess) network() map[string]any {
	return p.call("RequestPool", map[string]any{"AddressSpace": "local", "Pool": "10.50.0.0/24"})
}

func (p *wholeProcess) address() map[string]any {
	return p.call("RequestAddress", map[string]any{"PoolID": "ringlet1/local/10.50.0.0/24", "Options": map[string]string{"com.docker.network.endpoint.macaddress": "02:42:0a:00:00:01"}})
}

func (p *wholeProcess) status() (st ipam.Status) {
	answers(p.t, p.local, "http://ringlet/v1/status", &st)
	return st
}

func (p *wholeProcess) serves() bool {
	st := p.status()
	return st.Verdict == ipam.Fine || st.Verdict == ipam.Degraded
}

// waits reports whether the process says that it cannot use its database, for a reason that has these words.
func (p *wholeProcess) waits(words string) bool {
	problem, found := plugintest.Find(p.status().Problems, standby.Code)
	return found && problem.Level == string(ipam.Failed) && strings.Contains(problem.Text, words)
}

// ready returns the status of /readyz.
func (p *wholeProcess) ready() int {
	p.t.Helper()
	resp, err := p.local.Get("http://ringlet/readyz")
	if err != nil {
		p.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// A process whose database another one has open stays, says so, and serves as soon as that one has ended.
func TestStandbyWhileTheDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	other, err := persist.Open(plugintest.Config(filepath.Join(data, databaseName)))
	if err != nil {
		t.Fatal(err)
	}
	p := startWhole(t, data)
	plugintest.Eventually(t, "status says why nothing is handed out", func() bool { return p.waits("in use by this process itself") })
	if got := p.ready(); got != http.StatusServiceUnavailable {
		t.Errorf("/readyz answers %d, want 503", got)
	}
	if got := p.call("GetCapabilities", nil); got["RequiresRequestReplay"] != true {
		t.Errorf("an engine that greets gets %v", got)
	}
	if got := fmt.Sprint(p.address()["Error"]); !strings.Contains(got, "in use") || !strings.Contains(got, "tries again by itself") {
		t.Errorf("a request for an address is answered with %q", got)
	}
	if got := p.call("ReleaseAddress", map[string]any{"PoolID": "ringlet1/local/10.50.0.0/24", "Address": "10.50.0.7"}); got["Error"] != nil {
		t.Errorf("a release is answered with %v", got)
	}
	for _, path := range []string{"peers", "pools", "addresses", "about", "ring"} {
		resp, err := p.local.Get("http://ringlet/v1/" + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusInternalServerError {
			t.Errorf("%s is answered with %d", path, resp.StatusCode)
		}
	}
	if words, err := lastwords.Read(data); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the other process has its database, and this one left %q, %v", words.Text, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	plugintest.Eventually(t, "it serves", p.serves)
	if got := p.ready(); got != http.StatusOK {
		t.Errorf("/readyz answers %d, want 200", got)
	}
	if out := p.network(); out["PoolID"] == nil {
		t.Errorf("a network gets %v", out)
	}
	if out := p.address(); out["Address"] == nil {
		t.Errorf("a container gets %v", out)
	}
}

// An engine that starts is not ended by a process that has no database: up to 28.5.2 one ends where a pool that it
// replays is refused. A network that is new is refused at its gateway.
func TestStandbyAnswersAReplay(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	other, err := persist.Open(plugintest.Config(filepath.Join(data, databaseName)))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	p := startWhole(t, data)
	if got := p.network(); got["Error"] == nil {
		t.Errorf("no engine starts, and a network is granted %v", got)
	}
	p.call("GetCapabilities", nil)
	for options, want := range map[string]string{"": "ringlet1/local/10.50.0.0/24", "first": "ringlet1/local/10.50.0.0/24;gateway=first"} {
		q := map[string]any{"AddressSpace": "local", "Pool": "10.50.0.0/24"}
		if options != "" {
			q["Options"] = map[string]string{"gateway": options}
		}
		got := p.call("RequestPool", q)
		if got["PoolID"] != want || fmt.Sprint(got["Data"]) != "map[]" {
			t.Errorf("a replay gets %v, want the pool ID %s and no gateway", got, want)
		}
		gateway := p.call("RequestAddress", map[string]any{"PoolID": want, "Options": map[string]string{"RequestAddressType": "com.docker.network.gateway"}})
		if gateway["Error"] == nil {
			t.Errorf("a gateway is granted: %v", gateway)
		}
	}
	if got := p.call("RequestPool", map[string]any{"AddressSpace": "local", "Pool": ""}); got["Error"] == nil {
		t.Errorf("a subnet is chosen: %v", got)
	}
}

// A process whose database does not fit its settings, or was written by a newer release, stays, says so, answers an engine
// that starts, and serves as soon as that is seen to.
func TestStandbyWithADatabaseOfNoUse(t *testing.T) {
	t.Parallel()
	for what, spoil := range map[string]struct {
		with  func(t *testing.T, database string)
		words string
	}{
		"of a newer release": {func(t *testing.T, database string) {
			t.Helper()
			cfg := plugintest.Config(database)
			cfg.Schema = 99
			s, err := persist.Open(cfg)
			if err := errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
		}, "schema 99"},
		"of something else": {func(t *testing.T, database string) {
			t.Helper()
			s, err := persist.Open(plugintest.Config(database))
			if err == nil {
				err = s.Commit(func(put func(bucket string, key, value []byte) error) error {
					return put("holding", []byte("x"), []byte("y"))
				})
			}
			if err := errors.Join(err, s.Close()); err != nil {
				t.Fatal(err)
			}
		}, "record of the address"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			data := t.TempDir()
			database := filepath.Join(data, databaseName)
			spoil.with(t, database)
			p := startWhole(t, data)
			plugintest.Eventually(t, "status says what is wrong", func() bool { return p.waits(spoil.words) })
			if problem, _ := plugintest.Find(p.status().Problems, standby.Code); !strings.Contains(problem.Next, "move the file away") {
				t.Errorf("next is %q", problem.Next)
			}
			p.call("GetCapabilities", nil)
			if got := p.network(); got["PoolID"] == nil {
				t.Errorf("an engine that starts gets %v", got)
			}
			if got := fmt.Sprint(p.address()["Error"]); !strings.Contains(got, spoil.words) {
				t.Errorf("a request for an address is answered with %q", got)
			}
			var problem map[string]any
			if code := p.post("/v1/self/rejoin", setAside, &problem); code != http.StatusServiceUnavailable {
				t.Errorf("to start over is answered with %d %v", code, problem)
			}
			if err := os.Rename(database, database+".moved"); err != nil {
				t.Fatal(err)
			}
			plugintest.Eventually(t, "it serves", p.serves)
		})
	}
}

// smallDisk mounts a file system of some MB, or skips the test.
func smallDisk(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=24m"); err != nil {
		t.Skipf("needs the right to mount a file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk takes all the room on a disk, until free is called.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for piece := make([]byte, 64<<10); len(piece) > 0; {
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// A process that starts on a full disk waits for room, and then serves, with the journal and all.
func TestStandbyWhileTheDiskIsFull(t *testing.T) {
	t.Parallel()
	data := smallDisk(t)
	free := fillDisk(t, data)
	p := startWhole(t, data)
	plugintest.Eventually(t, "status says why", func() bool { return p.waits("no space left") })
	if got := fmt.Sprint(p.address()["Error"]); !strings.Contains(got, "make room") {
		t.Errorf("a request for an address is answered with %q", got)
	}
	free()
	plugintest.Eventually(t, "it serves", p.serves)
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// A commit that fails has the database opened again in place: requests wait meanwhile, nothing that was acknowledged
// is lost, and nothing of the former node stays behind.
func TestReopenedAfterAFailedCommit(t *testing.T) {
	// Alone: it counts the goroutines of this process.
	p := startWhole(t, t.TempDir(), "RINGLET_TIMEOUT=20s")
	plugintest.Eventually(t, "it serves", p.serves)
	p.network()
	held := map[any]bool{p.address()["Address"]: true}
	goroutines := runtime.NumGoroutine()
	for range 5 {
		breakDatabase(t, filepath.Join(p.opts.Data, databaseName))
		got := p.address()
		if got["Address"] == nil || held[got["Address"]] {
			t.Errorf("a container gets %v, others have %v", got, held)
		}
		held[got["Address"]] = true
	}
	if n := p.log.Count("the database is opened again", "no space left"); n != 5 {
		t.Errorf("%d commits have failed, want 5", n)
	}
	plugintest.Eventually(t, "it serves", p.serves)
	plugintest.Eventually(t, "nothing of the former nodes runs", func() bool { return runtime.NumGoroutine() < goroutines+20 })
	var list []ipam.AddressStatus
	answers(t, p.local, "http://ringlet/v1/addresses", &list)
	for a := range held {
		if !slices.ContainsFunc(list, func(st ipam.AddressStatus) bool { return st.State == "held" && fmt.Sprint(st.Address, "/24") == a }) {
			t.Errorf("%v was granted, and is not held", a)
		}
	}
}

// breakDatabase has the next commit of this process fail, as its file cannot be written any more: its descriptors lead
// to a full device.
func breakDatabase(t *testing.T, path string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	broken := 0
	for _, e := range all {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil {
			continue
		}
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && (to == path || to == path+".wal") {
			if err := syscall.Dup3(int(full.Fd()), fd, syscall.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
			broken++
		}
	}
	if broken == 0 {
		t.Fatal("the database is not open")
	}
}
