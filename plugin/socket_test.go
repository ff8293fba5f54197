package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/internal/together"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// process is the plugin without an engine: disk, core and driver, on a real
// socket.
type process struct {
	t      testing.TB
	socket string
	node   *node.Node
	stop   func()
}

// noEngine is a watcher's part for a process without an engine.
type noEngine struct{ *node.Node }

func (e noEngine) Greeted(ctx context.Context) { _ = e.Greet(ctx) }
func (e noEngine) Recheck()                    {}

// start runs the plugin on a database and a socket in dir.
func start(t testing.TB, dir string) *process {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	store, err := persist.Open(persist.Config{Path: filepath.Join(dir, databaseName), Schema: ipam.SchemaVersion, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(node.Config{
		Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1)), Grace: time.Millisecond, Rest: time.Second},
		Store:   store, Logger: logger, Timeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	drv, err := driver.New(driver.Config{Backend: noEngine{n}, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "ringlet.sock")
	l, err := driver.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := together.Run(ctx, n.Run, func(ctx context.Context) error { return drv.Serve(ctx, l) }); err != nil {
			t.Error(err)
		}
	})
	return &process{t, socket, n, sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})}
}

// engine is one of several clients that behave as dockerd does, and worse.
type engine struct {
	t      *testing.T
	number int
	rnd    *rand.Rand
	http   *http.Client
	socket string
	mine   map[netip.Addr]string // pool ID, by address
	book   *book
	calls  int
}

// book is what all containers together believe.
type book struct {
	mu   sync.Mutex
	held map[netip.Addr]int // by which engine
}

func (b *book) take(t *testing.T, a netip.Addr, engine int) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if other, taken := b.held[a]; taken {
		t.Errorf("%v is held by a container of engine %d and was handed out to engine %d", a, other, engine)
	}
	b.held[a] = engine
}

func (b *book) drop(a netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.held, a)
}

// post sends one call, and reports false if there was no answer.
func (e *engine) post(ctx context.Context, method string, body any) (map[string]any, bool) {
	e.calls++
	text, ok := body.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			e.t.Error(err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin/IpamDriver."+method, bytes.NewReader(text))
	if err != nil {
		e.t.Error(err)
		return nil, false
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return nil, false
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return nil, false
	}
	return out, true
}

var subnets = []string{"10.50.0.0/24", "10.51.0.0/27", "fd00:5::/121"}

// act makes one random call.
func (e *engine) act() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	subnet := subnets[e.rnd.IntN(len(subnets))]
	id := "ringlet1/local/" + subnet
	switch e.rnd.IntN(12) {
	default: // a container starts
		q := map[string]any{"PoolID": id, "Address": "", "Options": map[string]string{
			"com.docker.network.endpoint.name": fmt.Sprintf("e%d-c%d", e.number, e.calls), "com.docker.network.endpoint.macaddress": randomMAC(e.rnd),
		}}
		if e.rnd.IntN(5) == 0 {
			delete(q["Options"].(map[string]string), "com.docker.network.endpoint.name")
		}
		e.started(ctx, id, q)
	case 4, 5, 6: // a container stops
		for a, id := range e.mine {
			e.book.drop(a)
			if out, ok := e.post(ctx, "ReleaseAddress", map[string]any{"PoolID": id, "Address": a.String()}); !ok || out["Error"] != nil {
				e.t.Errorf("release of %v: %v", a, out)
			}
			delete(e.mine, a)
			break
		}
	case 7: // a claim, of anything
		a := addrIn(e.rnd, netip.MustParsePrefix(subnet))
		e.started(ctx, id, map[string]any{"PoolID": id, "Address": a.String(), "Options": map[string]string{
			"com.docker.network.endpoint.name": fmt.Sprintf("e%d-c%d", e.number, e.calls), "com.docker.network.endpoint.macaddress": randomMAC(e.rnd),
		}})
	case 8, 9: // the connection is cut, at some point
		cut, cancel := context.WithTimeout(ctx, time.Duration(e.rnd.IntN(1500))*time.Microsecond)
		defer cancel()
		q := map[string]any{"PoolID": id, "Options": map[string]string{"com.docker.network.endpoint.macaddress": randomMAC(e.rnd)}}
		if out, ok := e.post(cut, "RequestAddress", q); ok && out["Error"] == nil {
			e.got(id, out)
		}
	case 10: // garbage, and a request that is repeated without its body
		for _, body := range [][]byte{nil, []byte("{"), []byte(`{"PoolID":7}`), []byte(`{"PoolID":"x","Address":"y"}`), bytes.Repeat([]byte("["), 1<<17), []byte("\x00\xff")} {
			method := []string{"RequestAddress", "RequestPool", "ReleaseAddress", "ReleasePool", "Nonsense"}[e.rnd.IntN(5)]
			e.post(ctx, method, body)
		}
	case 11: // networks come and go
		out, ok := e.post(ctx, "RequestPool", map[string]any{"AddressSpace": "local", "Pool": subnet, "SubPool": "", "Options": nil, "V6": false})
		if !ok || out["PoolID"] != id {
			e.t.Errorf("pool %s: %v", subnet, out)
		}
		if e.rnd.IntN(2) == 0 {
			e.post(ctx, "ReleasePool", map[string]any{"PoolID": id})
		}
	}
}

// replay asks again for all that the engine has, as it does when it starts.
func (e *engine) replay() {
	ctx := context.Background()
	e.post(ctx, "GetCapabilities", []byte(nil))
	for _, subnet := range subnets {
		if out, ok := e.post(ctx, "RequestPool", map[string]any{"AddressSpace": "local", "Pool": subnet}); !ok || out["Error"] != nil {
			e.t.Errorf("replay of %s: %v", subnet, out)
		}
	}
	for a, id := range e.mine {
		if out, ok := e.post(ctx, "RequestAddress", map[string]any{"PoolID": id, "Address": a.String(), "Options": nil}); !ok || out["Error"] != nil {
			e.t.Errorf("replay of %v: %v", a, out)
		}
	}
}

// started asks for a container's address, again if there was no answer.
func (e *engine) started(ctx context.Context, id string, q map[string]any) {
	out, ok := e.post(ctx, "RequestAddress", q)
	if !ok {
		e.t.Errorf("no answer to %v", q)
		return
	}
	if out["Error"] == nil {
		e.got(id, out)
	}
}

func (e *engine) got(id string, out map[string]any) {
	text, _ := out["Address"].(string)
	p, err := netip.ParsePrefix(text)
	if err != nil {
		e.t.Errorf("answered with %v", out)
		return
	}
	e.book.take(e.t, p.Addr(), e.number)
	e.mine[p.Addr()] = id
}

func randomMAC(rnd *rand.Rand) string {
	n := rnd.Uint64()
	return fmt.Sprintf("02:42:%02x:%02x:%02x:%02x", byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
}

func addrIn(rnd *rand.Rand, p netip.Prefix) netip.Addr {
	a := p.Addr()
	for range rnd.IntN(1 << (a.BitLen() - p.Bits())) {
		a = a.Next()
	}
	return a
}

// Ten thousand random calls over the real socket, from several clients at
// once, with repetitions, garbage and cut connections, and the process
// restarted in between: no address is held twice, and none is lost.
func TestRandomCallsOverTheSocket(t *testing.T) {
	const total, clients, phases = 10_000, 4, 3
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	b := &book{held: map[netip.Addr]int{}}
	var engines []*engine
	for i := range clients {
		engines = append(engines, &engine{t: t, number: i, rnd: rand.New(rand.NewPCG(seed, uint64(i))), mine: map[netip.Addr]string{}, book: b})
	}
	for phase := range phases {
		p := start(t, dir)
		var wg sync.WaitGroup
		for _, e := range engines {
			e.socket, e.http = p.socket, plugintest.Client(p.socket)
			if phase > 0 {
				e.replay()
			}
		}
		for _, e := range engines {
			quota := e.calls + total/clients/phases + 1
			wg.Go(func() {
				for e.calls < quota && !t.Failed() {
					e.act()
				}
			})
		}
		wg.Wait()
		p.settle(b)
		for _, e := range engines {
			e.http.CloseIdleConnections()
		}
		p.stop()
	}
	calls := 0
	for _, e := range engines {
		calls += e.calls
	}
	if calls < total {
		t.Errorf("%d calls were made, want %d", calls, total)
	}
	t.Logf("%d calls, %d addresses held in the end", calls, len(b.held))
}

// settle brings the engine's inventory twice, as it comes after every cut
// connection, and checks that just what the containers have is held.
func (p *process) settle(b *book) {
	p.t.Helper()
	for range 3 {
		inv := ipam.Inventory{}
		for _, s := range subnets {
			net := ipam.InventoryNetwork{ID: s, Subnets: []netip.Prefix{netip.MustParsePrefix(s)}}
			for a := range b.held {
				if net.Subnets[0].Contains(a) {
					net.Endpoints = append(net.Endpoints, ipam.InventoryEndpoint{Address: a})
				}
			}
			inv.Networks = append(inv.Networks, net)
		}
		time.Sleep(5 * time.Millisecond) // the grace passes
		var err error
		if inv.After, err = p.node.Mark(p.t.Context()); err != nil {
			p.t.Fatal(err)
		}
		if _, err := p.node.Inventory(p.t.Context(), inv); err != nil {
			p.t.Fatal(err)
		}
	}
	list, err := p.node.Addresses(p.t.Context(), "")
	if err != nil {
		p.t.Fatal(err)
	}
	held := map[netip.Addr]bool{}
	for _, a := range list {
		if a.State == "held" {
			held[a.Address] = true
			if _, known := b.held[a.Address]; !known {
				p.t.Errorf("%v is held, and no container has it: %+v", a.Address, a)
			}
		}
	}
	for a := range b.held {
		if !held[a] {
			p.t.Errorf("a container has %v, and it is not held", a)
		}
	}
	if broken, err := p.node.Check(p.t.Context()); err != nil || len(broken.Broken)+len(broken.Database) > 0 {
		p.t.Errorf("check: %v, %v", broken, err)
	}
}

// BenchmarkAllocateOverTheSocket is one durable allocation and its release,
// by one client that keeps its connection, as dockerd does.
func BenchmarkAllocateOverTheSocket(b *testing.B) {
	p := start(b, b.TempDir())
	defer p.stop()
	c := plugintest.Client(p.socket)
	post := func(method, body string) []byte {
		resp, err := c.Post("http://plugin/IpamDriver."+method, "", bytes.NewReader([]byte(body)))
		if err != nil {
			b.Fatal(err)
		}
		defer resp.Body.Close()
		out, err := io.ReadAll(resp.Body)
		if err != nil {
			b.Fatal(err)
		}
		return out
	}
	for b.Loop() {
		var got struct{ Address string }
		if err := json.Unmarshal(post("RequestAddress", `{"PoolID":"ringlet1/local/10.50.0.0/16","Options":{"com.docker.network.endpoint.macaddress":"02:42:0a:00:00:01"}}`), &got); err != nil || got.Address == "" {
			b.Fatal(err, got)
		}
		a, _, _ := bytes.Cut([]byte(got.Address), []byte("/"))
		post("ReleaseAddress", `{"PoolID":"ringlet1/local/10.50.0.0/16","Address":"`+string(a)+`"}`)
	}
}
