package ipam_test

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// device is something on the LAN that is none of ours.
var device = ipam.MAC{0x0a, 0, 0, 0, 0, 0x50}

// answered tells a peer that the device answers for an address that was
// granted.
func answered(h *machinetest.Host, g ipam.AddressGrant) {
	h.Call(&ipam.Stranger{Ticket: g.Ticket, MAC: device})
}

// gets fails the test unless a container that asks for any address is granted
// that one.
func gets(t testing.TB, h *machinetest.Host, n ipam.Network, name string, mac byte, want string) ipam.AddressGrant {
	t.Helper()
	g := mustAsk(t, h, n, name, mac, "")
	if g.Address.Addr() != address(want) {
		t.Fatalf("%s gets %v, want %s", name, g.Address, want)
	}
	return g
}

// wantState fails the test unless the address is in that state, and returns
// what is known of it.
func wantState(t testing.TB, h *machinetest.Host, a, state string) ipam.AddressStatus {
	t.Helper()
	s, err := h.Machine().Who(h.Now, address(a))
	if err != nil || s.State != state {
		t.Fatalf("%s is %q, %v; want %q", a, s.State, err, state)
	}
	return s
}

// hasProblem returns the problem with that code.
func hasProblem(h *machinetest.Host, code string) (ipam.Problem, bool) {
	for _, p := range h.Machine().Status(h.Now).Problems {
		if p.Code == code {
			return p, true
		}
	}
	return ipam.Problem{}, false
}

// An address that something answers for is kept back with its MAC and time,
// the same container gets another, and all is as it was after an hour.
func TestStrangerIsKeptBackForAnHour(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	first := ask(h, n, "web", 1, "")
	answered(h, first.Address)
	if len(h.Notes) != 1 || h.Notes[0].Kind != ipam.NoteStranger || !strings.Contains(h.Notes[0].Holder, device.String()) {
		t.Errorf("notes %+v", h.Notes)
	}
	s := wantState(t, h, "10.50.0.1", "stranger")
	if s.Kind != "stranger" || s.MAC != device.String() || !s.Since.Equal(h.Now) || s.Name != "" {
		t.Errorf("shown as %+v", s)
	}
	gets(t, h, n, "web", 1, "10.50.0.2")
	wantErr(t, claim(h, n, "10.50.0.1", "db"), ipam.ErrAddressInUse, device.String(), "ringlet release 10.50.0.1")
	r := h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/29", ID: "vm", Address: address("10.50.0.1")})
	wantErr(t, r.Err, ipam.ErrAddressInUse, device.String())
	p, ok := hasProblem(h, "stranger")
	if !ok || p.Level != string(ipam.Degraded) || !strings.Contains(p.Text, "1 address of pool 10.50.0.0/29 is used") || !strings.Contains(p.Text, "10.50.0.1 (MAC "+device.String()) {
		t.Errorf("problem %+v", p)
	}

	h.Now = h.Now.Add(30 * time.Minute)
	h.Restart()
	h.CheckDisk()
	wantState(t, h, "10.50.0.1", "stranger")
	h.Now = h.Now.Add(30*time.Minute - time.Nanosecond)
	h.Tick()
	wantState(t, h, "10.50.0.1", "stranger")
	h.Now = h.Now.Add(time.Nanosecond)
	h.Tick()
	if len(h.Notes) != 1 || h.Notes[0].Kind != ipam.NoteStrangerEnd {
		t.Errorf("notes %+v", h.Notes)
	}
	wantState(t, h, "10.50.0.1", "resting")
	if p, ok := hasProblem(h, "stranger"); ok {
		t.Errorf("the problem stays: %+v", p)
	}
	h.CheckDisk()
	for i, want := range []string{"10.50.0.3", "10.50.0.4", "10.50.0.5", "10.50.0.6", "10.50.0.1"} {
		gets(t, h, n, fmt.Sprint("c", i), byte(10+i), want) // it rests, and comes last
	}
}

// The machine asks to be woken when an address is to be freed.
func TestStrangerWakesThePeer(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	g := ask(h, n, "web", 1, "").Address
	kept := h.Now.Add(time.Hour)
	h.Now = h.Now.Add(26 * time.Second)
	h.Tick() // the engine has its answer
	if wake := h.Machine().Step(h.Now, ipam.Tick{}).WakeAt; !wake.IsZero() {
		t.Fatalf("a lone peer at rest wants to be woken at %v", wake)
	}
	answered(h, g)
	if wake := h.Machine().Step(h.Now, ipam.Tick{}).WakeAt; !wake.Equal(kept) {
		t.Errorf("to be woken at %v, want %v", wake, kept)
	}
	h.Call(&ipam.FreeRequest{Address: address("10.50.0.1")})
	h.Now = kept
	if fx := h.Machine().Step(h.Now, ipam.Tick{}); !fx.WakeAt.IsZero() || len(fx.Save) > 0 {
		t.Errorf("after it was freed by hand: to be woken at %v, saved %d records", fx.WakeAt, len(fx.Save))
	}
}

// A clock that was years ahead when the address was kept back, and was put
// right since, keeps it no longer than one that is right.
func TestStrangerFromAClockThatWasAhead(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	right := h.Now
	h.Now = right.AddDate(10, 0, 0)
	answered(h, ask(h, n, "web", 1, "").Address)
	h.Now = right.Add(time.Second)
	h.Tick()
	wantState(t, h, "10.50.0.1", "resting")

	answered(h, ask(h, n, "db", 2, "").Address)
	h.Now = h.Now.Add(-time.Minute) // a small step back changes little
	h.Tick()
	wantState(t, h, "10.50.0.2", "stranger")
	h.Now = h.Now.Add(61 * time.Minute)
	h.Tick()
	wantState(t, h, "10.50.0.2", "resting")
}

// What was released, confirmed or listed since its grant is no stranger's.
func TestStrangerAfterTheGrant(t *testing.T) {
	for _, c := range []struct {
		what  string
		since func(h *machinetest.Host, n ipam.Network, g ipam.AddressGrant)
		want  string
	}{
		{"released", func(h *machinetest.Host, n ipam.Network, g ipam.AddressGrant) { release(h, n, g.Address.Addr()) }, "resting"},
		{"withdrawn", func(h *machinetest.Host, _ ipam.Network, g ipam.AddressGrant) {
			h.Call(&ipam.Withdrawal{Ticket: g.Ticket})
		}, "ready"},
		{"asked for again", func(h *machinetest.Host, n ipam.Network, _ ipam.AddressGrant) { ask(h, n, "web", 1, "") }, "held"},
		{"listed", func(h *machinetest.Host, n ipam.Network, _ ipam.AddressGrant) {
			h.Now = h.Now.Add(time.Second)
			h.Call(inventory(h, n, listed("10.50.0.1", "web", 1)))
		}, "held"},
		{"granted to another", func(h *machinetest.Host, n ipam.Network, g ipam.AddressGrant) {
			release(h, n, g.Address.Addr())
			if err := claim(h, n, "10.50.0.1", "db"); err != nil {
				t.Fatal(err)
			}
		}, "held"},
		{"of a pool that is gone", func(h *machinetest.Host, n ipam.Network, g ipam.AddressGrant) {
			release(h, n, g.Address.Addr())
			h.Call(&ipam.PoolRelease{Network: n})
			if err := h.Call(&ipam.PoolRemoval{Pool: "10.50.0.0/29"}).Err; err != nil {
				t.Fatal(err)
			}
			network(t, h, "10.50.0.0/29")
		}, "ready"},
	} {
		h := machinetest.NewHost(t, ipam.Config{})
		n := network(t, h, "10.50.0.0/29")
		g := ask(h, n, "web", 1, "").Address
		c.since(h, n, g)
		answered(h, g)
		if len(h.Notes) > 0 {
			t.Errorf("%s: notes %+v", c.what, h.Notes)
		}
		wantState(t, h, "10.50.0.1", c.want)
		h.CheckDisk()
	}
	h := machinetest.NewHost(t, ipam.Config{})
	answered(h, ipam.AddressGrant{}) // no grant at all
}

// A stranger has no claim on the name or MAC of the container whose grant it
// spoiled, and none of ours takes the address over.
func TestStrangerIsNobodysFormerSelf(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{Rest: -1})
	n := network(t, h, "10.50.0.0/29")
	first := gets(t, h, n, "web", 1, "10.50.0.1")
	release(h, n, first.Address.Addr())
	g := gets(t, h, n, "web", 1, "10.50.0.1") // its former one
	answered(h, g)
	gets(t, h, n, "web", 1, "10.50.0.2")
	release(h, n, address("10.50.0.1")) // the engine gives up what it never got
	wantState(t, h, "10.50.0.1", "stranger")
	h.Call(inventory(h, n))
	h.Now = h.Now.Add(time.Minute)
	h.Call(inventory(h, n)) // nor is it a leak
	wantState(t, h, "10.50.0.1", "stranger")
	freed := h.Call(&ipam.FreeRequest{Address: address("10.50.0.1")})
	if freed.Err != nil || len(freed.Addresses) != 1 || freed.Addresses[0].MAC != device.String() {
		t.Errorf("ringlet release answers %+v, %v", freed.Addresses, freed.Err)
	}
	wantState(t, h, "10.50.0.1", "ready")
	h.CheckDisk()
}

// The address that was to be this host's gateway is another, and the host has
// just one.
func TestStrangerHasTheGateway(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	gateway := func() ipam.AddressGrant {
		return h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address
	}
	answered(h, gateway())
	if g := gateway(); g.Address != prefix("10.50.0.2/29") || g.Ticket.IsZero() {
		t.Errorf("then granted %+v", g)
	}
	if g := gateway(); g.Address != prefix("10.50.0.2/29") || !g.Ticket.IsZero() {
		t.Errorf("and again %+v", g)
	}
	wantState(t, h, "10.50.0.1", "stranger")
	wantState(t, h, "10.50.0.2", "gateway")
	h.CheckDisk()
}

// Whoever names the stranger's address says what it is: the router, a device
// that is kept out, an endpoint of this host that answered itself, or an
// address that the host has meanwhile.
func TestStrangerIsKnownAfterAll(t *testing.T) {
	for _, c := range []struct {
		what string
		said func(h *machinetest.Host, n ipam.Network)
		want string
	}{
		{"the router of another network", func(h *machinetest.Host, n ipam.Network) {
			r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.1")})
			if r.Err != nil || r.Address.Address != prefix("10.50.0.1/29") {
				t.Errorf("--gateway 10.50.0.1: %+v, %v", r.Address, r.Err)
			}
		}, "reserved"},
		{"an auxiliary address of another network", func(h *machinetest.Host, n ipam.Network) {
			other := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool, Range: prefix("10.50.0.4/30")}).Pool.Network
			if r := h.Call(&ipam.AddressRequest{Network: other, Purpose: ipam.ForUnmarked, Address: address("10.50.0.1")}); r.Err != nil {
				t.Errorf("--aux-address printer=10.50.0.1: %v", r.Err)
			}
		}, "reserved"},
		{"a replayed endpoint", func(h *machinetest.Host, n ipam.Network) {
			h.Restart()
			h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool})
			if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.1")}); r.Err != nil {
				t.Errorf("replay: %v", r.Err)
			}
		}, "held"},
		{"a listed endpoint with that MAC", func(h *machinetest.Host, n ipam.Network) {
			h.Now = h.Now.Add(time.Second)
			e := listed("10.50.0.1", "lost", 1)
			e.MAC = device
			h.Call(inventory(h, n, e))
		}, "held"},
		{"the router of a listed network", func(h *machinetest.Host, n ipam.Network) {
			inv := inventory(h, n)
			inv.Networks[0].Gateways = []netip.Addr{address("10.50.0.1")}
			h.Call(inv)
		}, "reserved"},
		{"an interface of the host", func(h *machinetest.Host, _ ipam.Network) {
			h.Call(&ipam.HostAddresses{Addresses: []netip.Prefix{prefix("10.50.0.1/29")}})
		}, "host"},
	} {
		h := machinetest.NewHost(t, ipam.Config{})
		n := network(t, h, "10.50.0.0/29")
		answered(h, ask(h, n, "web", 1, "").Address)
		c.said(h, n)
		wantState(t, h, "10.50.0.1", c.want)
		if p, ok := hasProblem(h, "stranger"); ok {
			t.Errorf("%s: %+v", c.what, p)
		}
		h.Now = h.Now.Add(2 * time.Hour)
		h.Tick()
		wantState(t, h, "10.50.0.1", c.want)
		h.CheckDisk()
	}
}

// A listed endpoint with another MAC than the stranger's is a conflict on the
// LAN, and is told as one.
func TestStrangerBesideAContainer(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	answered(h, ask(h, n, "web", 1, "").Address)
	h.Now = h.Now.Add(time.Second)
	h.Call(inventory(h, n, listed("10.50.0.1", "lost", 1)))
	if p, ok := hasProblem(h, "conflict"); !ok || !strings.Contains(p.Text, "lost") || !strings.Contains(p.Text, device.String()) {
		t.Errorf("problem %+v", p)
	}
	h.Now = h.Now.Add(time.Hour)
	h.Call(inventory(h, n, listed("10.50.0.1", "lost", 1)))
	wantState(t, h, "10.50.0.1", "held")
}

// Strangers keep no pool from going, and no peer from leaving.
func TestStrangersKeepNoPool(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	chosen := h.Call(&ipam.PoolRequest{Space: ipam.Local, Probe: ipam.ProbeARP}).Pool.Network
	if chosen.Probe != ipam.ProbeARP {
		t.Errorf("the network is %+v", chosen)
	}
	g := ask(h, chosen, "web", 1, "").Address
	answered(h, g)
	h.Call(&ipam.PoolRelease{Network: chosen})
	if s := h.Machine().Status(h.Now); len(s.Pools) != 0 {
		t.Errorf("the chosen pool stays: %+v", s.Pools)
	}
	n := network(t, h, "10.50.0.0/29")
	answered(h, ask(h, n, "web", 1, "").Address)
	h.Call(&ipam.PoolRelease{Network: n})
	if err := h.Call(&ipam.PoolRemoval{Pool: "10.50.0.0/29"}).Err; err != nil {
		t.Error(err)
	}
	h.Now = h.Now.Add(2 * time.Hour)
	h.Tick()
	h.CheckDisk()
}

// A pool in which something answers for every address is full, says how many
// problems there are without naming each, and is whole again after an hour.
func TestStrangersEverywhere(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{Rest: -1})
	n := network(t, h, "10.50.0.0/28")
	for range 14 {
		answered(h, ask(h, n, "web", 1, "").Address)
	}
	wantErr(t, ask(h, n, "web", 1, "").Err, ipam.ErrNoAddress, "14 are in use")
	if p, _ := hasProblem(h, "stranger"); !strings.Contains(p.Text, "14 addresses of pool") || !strings.Contains(p.Text, "and 10 more") || strings.Count(p.Text, "MAC") != 4 {
		t.Errorf("problem %+v", p)
	}
	h.Now = h.Now.Add(time.Hour)
	h.Tick()
	seen := map[netip.Addr]bool{}
	for i := range 14 {
		seen[run(t, h, n, fmt.Sprint("c", i))] = true
	}
	if len(seen) != 14 {
		t.Errorf("%d addresses can be had after an hour, want 14", len(seen))
	}
	h.CheckDisk()
}

// TestSimStrangers runs clusters on a LAN on which something answers for one
// address in ten that is granted. See TestSim.
func TestSimStrangers(t *testing.T) {
	schedules := uint64(100)
	if testing.Short() {
		schedules = 20
	}
	found := 0
	var mu sync.Mutex
	var wg sync.WaitGroup
	for part := range uint64(2) {
		wg.Go(func() {
			for seed := 1 + part; seed <= schedules && !t.Failed(); seed += 2 {
				o := schedule(seed)
				o.Steps = min(o.Steps, 5000)
				o.Weather = func(w *ipamtest.Weather) { w.Stranger = 1000 }
				r, err := ipamtest.Simulate(o)
				if err != nil {
					t.Errorf("seed %d, after %d steps: %v", seed, r.Steps, err)
				}
				mu.Lock()
				found += r.Counts["stranger"]
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if !t.Failed() && found < int(schedules) {
		t.Errorf("%d schedules met %d strangers", schedules, found)
	}
	t.Logf("%d schedules, %d strangers", schedules, found)
}
