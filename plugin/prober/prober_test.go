package prober

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/arp"
	"github.com/ringlet/ringlet/plugin/calls"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/hostnet"
	"github.com/ringlet/ringlet/plugin/plugintest"
	"github.com/ringlet/ringlet/plugin/privilege"
)

// device is something on the LAN that is none of ours.
var device = arp.MAC{0x0a, 0, 0, 0, 0, 0x50}

// fakeLAN is what a probe meets: devices, by address, and what keeps it from
// asking. What asks the real one is tested in package arp.
type fakeLAN struct {
	mu      sync.Mutex
	devices map[netip.Addr]bool
	all     bool // there is a device at each address
	err     error
	// hold, if not nil, is called while a probe is under way.
	hold  func(ctx context.Context)
	asked []netip.Addr
}

func (l *fakeLAN) ask(ctx context.Context, a netip.Addr) (arp.MAC, error) {
	l.mu.Lock()
	hold := l.hold
	l.asked = append(l.asked, a)
	l.mu.Unlock()
	if hold != nil {
		hold(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return arp.MAC{}, l.err
	case l.all || l.devices[a]:
		return device, nil
	}
	return arp.MAC{}, ctx.Err()
}

// set changes the LAN.
func (l *fakeLAN) set(change func(l *fakeLAN)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// take returns what was asked about since the last take.
func (l *fakeLAN) take() (asked []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.asked {
		asked = append(asked, a.String())
	}
	l.asked = nil
	return asked
}

// onLAN is the plugin on a LAN, without an engine: disk, core, driver and
// prober, on a real socket.
type onLAN struct {
	t      *testing.T
	lan    *fakeLAN
	node   *node.Node
	prober *Prober
	http   *http.Client

	mu     sync.Mutex
	counts map[string]int
}

// startOnLAN runs the plugin, in which requests have that time, with devices at
// those addresses.
func startOnLAN(t *testing.T, timeout time.Duration, devices ...string) *onLAN {
	t.Helper()
	dir, logger := t.TempDir(), slog.New(slog.DiscardHandler)
	store, err := persist.Open(persist.Config{Path: filepath.Join(dir, plugintest.Database), Schema: ipam.SchemaVersion, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(node.Config{Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}, Store: store, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	watcher, err := dockerd.New(dockerd.Config{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	e := &onLAN{t: t, lan: &fakeLAN{devices: map[netip.Addr]bool{}}, node: n, counts: map[string]int{}}
	for _, d := range devices {
		e.lan.devices[netip.MustParseAddr(d)] = true
	}
	e.prober = New(Config{Node: n, Ask: e.lan.ask, Logger: logger, Count: func(result string) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.counts[result]++
	}})
	none := func() ([]netip.Prefix, error) { return nil, nil } // whatever this machine has
	host := hostnet.New(hostnet.Config{Node: n, Logger: logger, Addresses: none})
	drv, err := driver.New(driver.Config{Backend: calls.Calls{Node: n, Watcher: watcher, Prober: e.prober, Host: host}, Logger: logger, Timeout: timeout})
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "ringlet.sock")
	l, err := driver.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	parts.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	parts.Go(func() {
		if err := drv.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	e.http = plugintest.Client(socket)
	t.Cleanup(func() {
		e.http.CloseIdleConnections()
		cancel()
		parts.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// call makes one call as an engine does, and returns the answer's field and
// its error.
func (e *onLAN) call(ctx context.Context, method, field string, body any) (answer, refused string) {
	text, err := json.Marshal(body)
	if err != nil {
		e.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin/IpamDriver."+method, strings.NewReader(string(text)))
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := e.http.Do(req)
	if err != nil {
		return "", "no answer: " + err.Error()
	}
	defer resp.Body.Close()
	var out map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&out); err != nil {
		return "", "no answer: " + err.Error()
	}
	answer, _ = out[field].(string)
	refused, _ = out["Error"].(string)
	return answer, refused
}

// network makes a network on the subnet, and returns its pool ID.
func (e *onLAN) network(subnet string, options map[string]string) string {
	e.t.Helper()
	id, refused := e.call(e.t.Context(), "RequestPool", "PoolID", map[string]any{
		"AddressSpace": "local", "Pool": subnet, "Options": options, "V6": strings.Contains(subnet, ":"),
	})
	if refused != "" {
		e.t.Fatal(refused)
	}
	return id
}

// run starts a container, at an address if that is not empty.
func (e *onLAN) run(ctx context.Context, pool, name, address string) (got, refused string) {
	return e.call(ctx, "RequestAddress", "Address", map[string]any{
		"PoolID": pool, "Address": address,
		"Options": map[string]string{"com.docker.network.endpoint.name": name, "com.docker.network.endpoint.macaddress": "02:42:00:00:00:01"},
	})
}

// gets fails the test unless a container is given that address, after the
// wire was asked about those.
func (e *onLAN) gets(pool, name, address, want string, asked ...string) {
	e.t.Helper()
	got, refused := e.run(e.t.Context(), pool, name, address)
	if got != want || refused != "" {
		e.t.Errorf("%s gets %q, %q; want %s", name, got, refused, want)
	}
	if was := e.lan.take(); !slices.Equal(was, asked) {
		e.t.Errorf("%s: asked about %v, want %v", name, was, asked)
	}
}

// refused fails the test unless a container is refused with all those parts.
func (e *onLAN) refused(pool, name, address string, parts ...string) {
	e.t.Helper()
	got, refused := e.run(e.t.Context(), pool, name, address)
	if got != "" || refused == "" {
		e.t.Errorf("%s gets %q", name, got)
	}
	for _, part := range parts {
		if !strings.Contains(refused, part) {
			e.t.Errorf("%s is told %q, without %q", name, refused, part)
		}
	}
}

// counted fails the test unless so many probes ended so.
func (e *onLAN) counted(quiet, answered, failed int) {
	e.t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	want := map[string]int{"quiet": quiet, "answered": answered, "failed": failed}
	for result, n := range want {
		if e.counts[result] != n {
			e.t.Errorf("counted %v, want %v", e.counts, want)
			return
		}
	}
}

var withARP = map[string]string{"probe": "arp"}

// A container gets the first address that nothing else has; what something
// else has cannot be claimed, and is not asked about again.
func TestProbesBeforeHandingOut(t *testing.T) {
	e := startOnLAN(t, 20*time.Second, "10.50.0.1", "10.50.0.2", "10.50.0.50")
	lan := e.network("10.50.0.0/24", withARP)
	if lan != "ringlet1/local/10.50.0.0/24;probe=arp" {
		t.Errorf("pool ID %s", lan)
	}
	e.gets(lan, "web", "", "10.50.0.3/24", "10.50.0.1", "10.50.0.2", "10.50.0.3")
	e.counted(1, 2, 0)
	e.gets(lan, "web", "", "10.50.0.3/24") // it has it
	e.refused(lan, "db", "10.50.0.1", "10.50.0.1 in 10.50.0.0/24", "MAC 0a:00:00:00:00:50", "ringlet release 10.50.0.1")
	e.refused(lan, "db", "10.50.0.50", "10.50.0.50 in 10.50.0.0/24", "MAC 0a:00:00:00:00:50", "ringlet release 10.50.0.50")
	if asked := e.lan.take(); !slices.Equal(asked, []string{"10.50.0.50"}) {
		t.Errorf("asked about %v", asked)
	}
	e.gets(lan, "db", "10.50.0.51", "10.50.0.51/24", "10.50.0.51")
	e.counted(2, 3, 0)

	e.lan.set(func(l *fakeLAN) { clear(l.devices) })
	if _, err := e.node.Free(t.Context(), ipam.FreeRequest{Address: netip.MustParseAddr("10.50.0.50")}); err != nil {
		t.Fatal(err)
	}
	e.gets(lan, "back", "10.50.0.50", "10.50.0.50/24", "10.50.0.50")
	s, err := e.node.Who(t.Context(), netip.MustParseAddr("10.50.0.2"))
	if err != nil || s.State != "stranger" || s.MAC != "0a:00:00:00:00:50" || time.Since(s.Since) > time.Minute {
		t.Errorf("%+v, %v", s, err)
	}
}

// Nobody is asked where the network does not want it, about IPv6, about what
// is reserved, and about endpoints that the engine replays.
func TestProbesOnlyWhereWanted(t *testing.T) {
	e := startOnLAN(t, 20*time.Second)
	e.lan.all = true
	e.gets(e.network("10.50.0.0/24", nil), "a", "", "10.50.0.1/24")
	e.gets(e.network("10.51.0.0/24", map[string]string{"probe": "none"}), "b", "", "10.51.0.1/24")
	e.gets(e.network("fd00:52::/64", withARP), "c", "", "fd00:52::1/64")
	lan := e.network("10.53.0.0/24", map[string]string{"probe": "arp", "gateway": "first"})
	for what, options := range map[string]map[string]string{
		"the router":           {"RequestAddressType": "com.docker.network.gateway"},
		"an auxiliary address": nil,
	} {
		address := map[string]string{"the router": "10.53.0.254", "an auxiliary address": "10.53.0.9"}[what]
		got, refused := e.call(t.Context(), "RequestAddress", "Address", map[string]any{"PoolID": lan, "Address": address, "Options": options})
		if got != address+"/24" {
			t.Errorf("%s: got %q, %q", what, got, refused)
		}
	}
	if err := e.node.Greet(t.Context()); err != nil { // the engine starts
		t.Fatal(err)
	}
	e.network("10.53.0.0/24", map[string]string{"probe": "arp", "gateway": "first"})
	if got, refused := e.call(t.Context(), "RequestAddress", "Address", map[string]any{"PoolID": lan, "Address": "10.53.0.77"}); got != "10.53.0.77/24" {
		t.Errorf("the replay of an endpoint: got %q, %q", got, refused)
	}
	if s, err := e.node.Who(t.Context(), netip.MustParseAddr("10.53.0.77")); err != nil || s.Kind != "unmarked" {
		t.Errorf("the replayed endpoint is %+v, %v", s, err)
	}
	if asked := e.lan.take(); len(asked) > 0 {
		t.Errorf("asked about %v", asked)
	}
	e.counted(0, 0, 0)
}

// The address that becomes this host's gateway is asked about, too.
func TestProbesTheChosenGateway(t *testing.T) {
	e := startOnLAN(t, 20*time.Second, "10.50.0.1")
	lan := e.network("10.50.0.0/24", withARP)
	for range 2 {
		got, refused := e.call(t.Context(), "RequestAddress", "Address", map[string]any{
			"PoolID": lan, "Options": map[string]string{"RequestAddressType": "com.docker.network.gateway"},
		})
		if got != "10.50.0.2/24" {
			t.Errorf("got %q, %q", got, refused)
		}
	}
	if asked := e.lan.take(); !slices.Equal(asked, []string{"10.50.0.1", "10.50.0.2"}) {
		t.Errorf("asked about %v", asked)
	}
}

// Containers that start at a time are asked for beside one another.
func TestProbesAtATime(t *testing.T) {
	const containers = 8
	e := startOnLAN(t, 20*time.Second, "10.50.0.2", "10.50.0.5", "10.50.0.9")
	lan := e.network("10.50.0.0/24", withARP)
	// The first probe of each ends only when all have begun.
	var all sync.WaitGroup
	all.Add(containers)
	var begun atomic.Int64
	e.lan.hold = func(context.Context) {
		if begun.Add(1) <= containers {
			all.Done()
			all.Wait()
		}
	}
	got := make(chan string, containers)
	var wg sync.WaitGroup
	for i := range containers {
		wg.Go(func() {
			a, refused := e.run(t.Context(), lan, fmt.Sprint("c", i), "")
			if refused != "" {
				t.Error(refused)
			}
			got <- a
		})
	}
	wg.Wait()
	close(got)
	seen := map[string]bool{"10.50.0.2/24": true, "10.50.0.5/24": true, "10.50.0.9/24": true}
	for a := range got {
		if seen[a] {
			t.Errorf("%s is handed out, and somebody has it", a)
		}
		seen[a] = true
	}
	e.counted(containers, 3, 0)
}

// The same container asks again, since its engine was restarted, while the
// probe is under way: what it is answered it has, whatever the probe hears.
func TestProbeOfAnAddressThatIsConfirmed(t *testing.T) {
	e := startOnLAN(t, 20*time.Second, "10.50.0.1")
	lan := e.network("10.50.0.0/24", withARP)
	var again string
	e.lan.hold = func(context.Context) { again, _ = e.run(context.Background(), lan, "web", "") }
	e.gets(lan, "web", "", "10.50.0.1/24", "10.50.0.1")
	if again != "10.50.0.1/24" {
		t.Errorf("the second request was answered with %q", again)
	}
	if s, err := e.node.Who(t.Context(), netip.MustParseAddr("10.50.0.1")); err != nil || s.State != "held" || s.Name != "web" {
		t.Errorf("%+v, %v", s, err)
	}
}

// An engine that goes away during the probe leaves nothing behind; what the
// probe hears is remembered.
func TestEngineGoesDuringTheProbe(t *testing.T) {
	for device, want := range map[string]string{"10.50.0.1": "stranger", "10.50.0.99": "ready"} {
		e := startOnLAN(t, 20*time.Second, device)
		lan := e.network("10.50.0.0/24", withARP)
		ctx, cancel := context.WithCancel(t.Context())
		e.lan.hold = func(asking context.Context) {
			cancel()
			<-asking.Done()
		}
		if got, refused := e.run(ctx, lan, "web", ""); got != "" || !strings.Contains(refused, "no answer") {
			t.Errorf("got %q, %q", got, refused)
		}
		plugintest.Eventually(t, "the address is "+want, func() bool {
			s, err := e.node.Who(t.Context(), netip.MustParseAddr("10.50.0.1"))
			return err == nil && s.State == want
		})
		if p, wrong := e.prober.fault.Problem(); wrong {
			t.Errorf("that the engine has gone became the problem %q", p.Text)
		}
	}
}

// Addresses are handed out where the LAN cannot be asked, and status says so
// for as long as that matters.
func TestLANThatCannotBeAsked(t *testing.T) {
	e := startOnLAN(t, 20*time.Second)
	lan := e.network("10.50.0.0/24", withARP)
	problem := func() (ipam.Problem, bool) {
		st, err := e.node.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return plugintest.Find(e.prober.Problems(st.Networks), "probe-failed")
	}
	e.lan.set(func(l *fakeLAN) { l.err = errors.New("open a packet socket: operation not permitted") })
	e.gets(lan, "one", "", "10.50.0.1/24", "10.50.0.1")
	p, wrong := problem()
	if !wrong || p.Level != string(ipam.Degraded) || !strings.Contains(p.Text, "operation not permitted") || !strings.Contains(p.Next, "CAP_NET_RAW") {
		t.Errorf("the problem is %+v, %v", p, wrong)
	}
	e.lan.set(func(l *fakeLAN) { l.err = nil })
	e.gets(lan, "two", "", "10.50.0.2/24", "10.50.0.2")
	if p, wrong := problem(); wrong {
		t.Errorf("the LAN answers, and the problem is %+v", p)
	}
	e.lan.set(func(l *fakeLAN) { l.err = errors.New("down") })
	e.gets(lan, "three", "", "10.50.0.3/24", "10.50.0.3")
	e.counted(1, 0, 2)
	for _, a := range []string{"10.50.0.1", "10.50.0.2", "10.50.0.3"} { // without lists a network is gone once no container has an address there
		if _, refused := e.call(t.Context(), "ReleaseAddress", "", map[string]any{"PoolID": lan, "Address": a}); refused != "" {
			t.Fatal(refused)
		}
	}
	if _, refused := e.call(t.Context(), "ReleasePool", "", map[string]any{"PoolID": lan}); refused != "" {
		t.Fatal(refused)
	}
	if p, wrong := problem(); wrong {
		t.Errorf("no network wants to ask, and the problem is %+v", p)
	}
}

// A process that gave up the right to ask says so as long as a network wants to, from the moment that one does, and
// never asks.
func TestProbesAfterTheRightWasGivenUp(t *testing.T) {
	for _, tt := range []struct {
		name                    string
		announces, before, asks bool
	}{
		{"no network wants it", false, false, false},
		{"a network wants it", false, true, true},
		{"containers are announced", true, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startOnLAN(t, 20*time.Second, "10.50.0.1")
			if tt.before {
				e.network("10.49.0.0/24", withARP)
			}
			var kept []bool
			drop := func(keepNetRaw bool) error { kept = append(kept, keepNetRaw); return nil }
			if _, err := e.prober.Confine(t.Context(), privilege.Early(drop), tt.announces); err != nil {
				t.Fatal(err)
			}
			want := []bool{true}
			if !tt.asks {
				want = append(want, false)
			}
			if !slices.Equal(kept, want) {
				t.Errorf("the right to ask was kept: %v, want %v", kept, want)
			}
			problem := func() (ipam.Problem, bool) {
				st, err := e.node.Status(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return plugintest.Find(e.prober.Problems(st.Networks), "probe-needs-restart")
			}
			if p, wrong := problem(); wrong {
				t.Errorf("no other network wants to ask, and the problem is %+v", p)
			}
			lan := e.network("10.50.0.0/24", withARP)
			if p, wrong := problem(); wrong == tt.asks || wrong && !strings.Contains(p.Text, "CAP_NET_RAW") {
				t.Errorf("the problem is %+v, %v", p, wrong)
			}
			if tt.asks {
				e.gets(lan, "web", "", "10.50.0.2/24", "10.50.0.1", "10.50.0.2")
				return
			}
			e.gets(lan, "web", "", "10.50.0.1/24")
			e.counted(0, 0, 1)
			web := map[string]any{"PoolID": lan, "Address": "10.50.0.1"}
			if _, refused := e.call(t.Context(), "ReleaseAddress", "", web); refused != "" {
				t.Fatal(refused) // without lists a network is gone once no container has an address there
			}
			if _, refused := e.call(t.Context(), "ReleasePool", "", map[string]any{"PoolID": lan}); refused != "" {
				t.Fatal(refused)
			}
			if p, wrong := problem(); wrong {
				t.Errorf("no network wants to ask, and the problem is %+v", p)
			}
		})
	}
}

// A process that cannot give up its rights goes on with them, asks, and says so.
func TestRightsThatStay(t *testing.T) {
	e := startOnLAN(t, 20*time.Second)
	drop := privilege.Early(func(bool) error { return errors.New("not permitted") })
	f, err := e.prober.Confine(t.Context(), drop, false)
	if err != nil {
		t.Fatal(err)
	}
	if p, wrong := f.Problem(); !wrong || p.Code != "rights-kept" || !strings.Contains(p.Text, "not permitted") {
		t.Errorf("the problem is %+v, %v", p, wrong)
	}
	e.gets(e.network("10.50.0.0/24", withARP), "web", "", "10.50.0.1/24", "10.50.0.1")
}

// A request that has no time for a probe is granted what it can be.
func TestNoTimeForAProbe(t *testing.T) {
	e := startOnLAN(t, probeTime-time.Millisecond, "10.50.0.1")
	lan := e.network("10.50.0.0/24", withARP)
	e.gets(lan, "web", "", "10.50.0.1/24")
	e.counted(0, 0, 1)
}

// On a LAN where devices have all that is tried, a request ends with what to do, in bounded time: whether one answers for
// everything is found out once.
func TestManyAnswer(t *testing.T) {
	var devices []string
	for a := netip.MustParseAddr("10.48.0.1"); len(devices) < 40; a = a.Next() {
		devices = append(devices, a.String())
	}
	e := startOnLAN(t, 20*time.Second, devices...)
	lan := e.network("10.48.0.0/14", withARP)
	e.refused(lan, "web", "", "each of the 32 addresses of 10.48.0.0/14", "MAC 0a:00:00:00:00:50", "probe=arp")
	e.counted(0, maxStrangers, 0)
	if asked := e.lan.take(); len(asked) > maxStrangers+samples {
		t.Errorf("asked about %d addresses", len(asked))
	}
}

// A device answers every probe, as with proxy ARP. The third in a row shows it: containers get addresses, nothing stays set
// aside, and the status names the device. With probe=strict they are refused. Once nobody answers, all is as it was.
func TestProbesBehindProxyARP(t *testing.T) {
	e := startOnLAN(t, 20*time.Second)
	e.lan.all = true
	lan := e.network("10.50.0.0/24", withARP)
	for i, want := range []string{"10.50.0.3/24", "10.50.0.4/24"} {
		if got, refused := e.run(t.Context(), lan, fmt.Sprintf("web%d", i), ""); got != want || refused != "" {
			t.Errorf("a container gets %q, %q; want %s", got, refused, want)
		}
	}
	if got, refused := e.run(t.Context(), lan, "claimed", "10.50.0.77"); got != "10.50.0.77/24" {
		t.Errorf("--ip: %q, %q", got, refused)
	}
	for _, a := range []string{"10.50.0.1", "10.50.0.2"} {
		if s, err := e.node.Who(t.Context(), netip.MustParseAddr(a)); err != nil || s.State == "stranger" {
			t.Errorf("%s is set aside: %+v, %v", a, s, err)
		}
	}
	st, err := e.node.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got := e.prober.Problems(st.Networks); len(got) != 1 || got[0].Code != "proxy-arp" || !strings.Contains(got[0].Text, "0a:00:00:00:00:50") {
		t.Errorf("the status has %+v", got)
	}
	strict := e.network("10.51.0.0/24", map[string]string{"probe": "strict"})
	if strict != "ringlet1/local/10.51.0.0/24;probe=strict" {
		t.Errorf("pool ID %s", strict)
	}
	e.refused(strict, "db", "", "0a:00:00:00:00:50", "proxy ARP", "probe=strict")
	st, err = e.node.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range st.Pools {
		if p.Pool.String() == "10.51.0.0/24" && p.Held != 0 {
			t.Errorf("%d addresses of the refused network are held", p.Held)
		}
	}
	e.lan.set(func(l *fakeLAN) { l.all = false })
	if got, refused := e.run(t.Context(), strict, "db", ""); got != "10.51.0.1/24" {
		t.Errorf("db gets %q, %q", got, refused)
	}
	if got := e.prober.Problems(st.Networks); len(got) != 0 {
		t.Errorf("the status still has %+v", got)
	}
}

// A device with three addresses side by side answers for all that is asked about in a row. It has no others, so these are set
// aside.
func TestProbesMeetADeviceWithSeveralAddresses(t *testing.T) {
	e := startOnLAN(t, 20*time.Second, "10.50.0.1", "10.50.0.2", "10.50.0.3", "10.50.0.4")
	lan := e.network("10.50.0.0/24", withARP)
	if got, refused := e.run(t.Context(), lan, "web", ""); got != "10.50.0.5/24" {
		t.Errorf("web gets %q, %q", got, refused)
	}
	if s, err := e.node.Who(t.Context(), netip.MustParseAddr("10.50.0.3")); err != nil || s.State != "stranger" {
		t.Errorf("%+v, %v", s, err)
	}
}
