package dockerd

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/go-connections/nat"
)

// fakeEngine answers the few calls that the watcher makes, and goes wrong on
// request. Any other call fails the test: above all one for a container that starts,
// which in a real engine may block for as long as a request of ours is pending.
type fakeEngine struct {
	t testing.TB

	mu        sync.Mutex
	info      system.Info
	networks  map[string]network.Inspect
	plugins   []*types.Plugin
	labels    map[string]map[string]string // of containers, by ID
	exposed   map[string][]nat.Port        // of containers that have started, by ID
	services  []swarm.Service
	fault     func(w http.ResponseWriter, r *http.Request) bool // true: answered
	asked     map[string]int
	listeners map[chan string]bool
	server    *http.Server
	accept    chan net.Conn // of the running server; nil when it is stopped
}

func newFakeEngine(t testing.TB) *fakeEngine {
	t.Helper()
	return &fakeEngine{
		t:         t,
		info:      system.Info{ID: "ENGINE", ServerVersion: "28.5.2"},
		networks:  map[string]network.Inspect{"none": {ID: "none", Name: "none", Driver: "null", IPAM: network.IPAM{Driver: "default"}}},
		asked:     map[string]int{},
		listeners: map[chan string]bool{},
	}
}

// start serves l until stop.
func (f *fakeEngine) start(l net.Listener) {
	srv := &http.Server{Handler: f, ErrorLog: log.New(io.Discard, "", 0)}
	f.mu.Lock()
	f.server = srv
	f.mu.Unlock()
	go func() { _ = srv.Serve(l) }() // ends with stop
}

// startPipes serves connections made by dial.
func (f *fakeEngine) startPipes() {
	l := &pipeListener{accept: make(chan net.Conn), closed: make(chan struct{})}
	f.mu.Lock()
	f.accept = l.accept
	f.mu.Unlock()
	f.start(l)
}

// stop ends the engine like a crash: listener and connections are gone.
func (f *fakeEngine) stop() {
	f.mu.Lock()
	srv := f.server
	f.server, f.accept = nil, nil
	f.mu.Unlock()
	if srv != nil {
		_ = srv.Close()
	}
}

func (f *fakeEngine) dial(ctx context.Context) (net.Conn, error) {
	f.mu.Lock()
	accept := f.accept
	f.mu.Unlock()
	if accept == nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: syscall.ENOENT}
	}
	ours, theirs := net.Pipe()
	select {
	case accept <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// set adds or replaces a network of the driver "ringlet".
func (f *fakeEngine) set(id string, containers map[string]network.EndpointResource) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.networks[id] = network.Inspect{
		ID: id, Name: "net-" + id, Driver: "bridge", Scope: "local",
		IPAM:       network.IPAM{Driver: "ringlet", Config: []network.IPAMConfig{{Subnet: "10.1.0.0/24"}}},
		Containers: containers,
	}
}

func (f *fakeEngine) install(p *types.Plugin) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plugins = append(f.plugins, p)
}

func (f *fakeEngine) remove(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.networks, id)
}

// breakWith makes every call go through fault first; nil mends the engine.
func (f *fakeEngine) breakWith(fault func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// emit sends one event, or anything else, to every event stream.
func (f *fakeEngine) emit(line string) {
	f.mu.Lock()
	listeners := slices.Collect(maps.Keys(f.listeners))
	f.mu.Unlock()
	for _, c := range listeners {
		c <- line
	}
}

func (f *fakeEngine) emitEvent(kind events.Type, action events.Action) {
	line, err := json.Marshal(events.Message{Type: kind, Action: action})
	if err != nil {
		f.t.Fatal(err)
	}
	f.emit(string(line))
}

// count returns how often a path, without its API version, was asked for.
func (f *fakeEngine) count(path string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[path]
}

func (f *fakeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if rest, ok := strings.CutPrefix(path, "/v1."); ok {
		_, rest, _ = strings.Cut(rest, "/")
		path = "/" + rest
	}
	r.URL.Path = path
	f.mu.Lock()
	f.asked[path]++
	fault, plugins := f.fault, slices.Clone(f.plugins)
	f.mu.Unlock()
	if fault != nil && fault(w, r) {
		return
	}
	id, isNetwork := strings.CutPrefix(path, "/networks/")
	plugin, isPlugin := strings.CutPrefix(path, "/plugins/")
	switch {
	case path == "/_ping":
		w.Header().Set("Api-Version", "1.41")
	case path == "/info":
		f.reply(w, http.StatusOK, f.info)
	case path == "/networks":
		f.mu.Lock()
		all := slices.Collect(maps.Values(f.networks))
		f.mu.Unlock()
		for i := range all {
			all[i].Containers = nil // as the real list
			if all[i].Scope == "swarm" {
				all[i].IPAM = network.IPAM{} // as the list of a manager, of what nodes make from a configuration
			}
		}
		f.reply(w, http.StatusOK, all)
	case isNetwork:
		f.mu.Lock()
		n, ok := f.networks[id]
		f.mu.Unlock()
		if !ok {
			f.reply(w, http.StatusNotFound, types.ErrorResponse{Message: "network " + id + " not found"})
			return
		}
		f.reply(w, http.StatusOK, n)
	case path == "/plugins":
		f.reply(w, http.StatusOK, plugins)
	case isPlugin:
		for _, p := range plugins {
			if p.ID+"/json" == plugin {
				f.reply(w, http.StatusOK, p)
				return
			}
		}
		f.reply(w, http.StatusNotFound, types.ErrorResponse{Message: "plugin not found"})
	case path == "/containers/json": // its entry in a list holds up nobody
		which, err := filters.FromJSON(r.URL.Query().Get("filters"))
		if err != nil {
			f.t.Error(err)
		}
		list := []container.Summary{}
		for _, id := range which.Get("id") {
			if labels, ok := f.labels[id]; ok {
				state := container.StateCreated
				if _, runs := f.exposed[id]; runs {
					state = container.StateRunning
				}
				list = append(list, container.Summary{ID: id, Labels: labels, State: state})
			}
		}
		f.reply(w, http.StatusOK, list)
	case path == "/services":
		f.reply(w, http.StatusOK, f.services)
	case strings.HasPrefix(path, "/containers/"):
		ports, runs := f.exposed[strings.TrimSuffix(strings.TrimPrefix(path, "/containers/"), "/json")]
		if !runs {
			f.t.Error("the watcher looked at a container that is starting, for which the engine may have it wait")
		}
		answer := container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{HostConfig: &container.HostConfig{PortBindings: nat.PortMap{}}}, Config: &container.Config{ExposedPorts: nat.PortSet{}}}
		for i, p := range ports {
			if i%2 == 0 {
				answer.Config.ExposedPorts[p] = struct{}{}
			} else {
				answer.HostConfig.PortBindings[p] = nil
			}
		}
		f.reply(w, http.StatusOK, answer)
	case path == "/events":
		if r.URL.Query().Get("since") == "" {
			f.t.Error("the event stream was not opened as of the past: a change may fall into the gap")
		}
		f.stream(w, r)
	default:
		f.t.Errorf("the watcher asked for %s", path)
	}
}

func (f *fakeEngine) reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func (f *fakeEngine) stream(w http.ResponseWriter, r *http.Request) {
	lines := make(chan string, 10_000)
	f.mu.Lock()
	f.listeners[lines] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.listeners, lines)
		f.mu.Unlock()
	}()
	flush := http.NewResponseController(w)
	_ = flush.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case line := <-lines:
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return
			}
			_ = flush.Flush()
		}
	}
}

// pipeListener is a listener whose connections never leave the process, so
// that it works in a bubble.
type pipeListener struct {
	accept chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// hang is a fault that never answers calls of the given paths.
func hang(paths ...string) func(http.ResponseWriter, *http.Request) bool {
	return func(_ http.ResponseWriter, r *http.Request) bool {
		if !slices.Contains(paths, r.URL.Path) {
			return false
		}
		<-r.Context().Done()
		return true
	}
}

// say is a fault that answers calls of path with status and body.
func say(path string, status int, body string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != path {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
}
