package ipam_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// Engines give endpoints no MAC, so that before 29 a container's request with an address looks like one
// for an auxiliary address, and like one for what the engine has already. It is refused.

const bareNet = "10.50.0.0/24"

// withoutMAC is a peer beside such an engine, which has listed that it has no network.
func withoutMAC(t testing.TB) *machinetest.Host {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true, NoMAC: true})
	look(h)
	return h
}

// plainly is a request without options for the address.
func plainly(n ipam.Network, a string) *ipam.AddressRequest {
	return &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address(a)}
}

// answeredBy has a list come, and returns what the request is answered that waited for it.
func answeredBy(t testing.TB, h *machinetest.Host, networks ...ipam.InventoryNetwork) ipam.Reply {
	t.Helper()
	h.Now = h.Now.Add(200 * time.Millisecond)
	r, answers := listAnswers(h, networks...)
	if !answers {
		t.Fatal("the list answers nothing")
	}
	return r
}

// listAnswers has a list come, and returns what a request is answered by it that waited, if one is.
func listAnswers(h *machinetest.Host, networks ...ipam.InventoryNetwork) (ipam.Reply, bool) {
	const list = 1 << 40
	fx := h.Machine().Step(h.Now, &ipam.Call{ID: list, Deadline: h.Now.Add(time.Second), Request: &ipam.Inventory{After: h.Mark(), Networks: networks}})
	h.Disk.Commit(fx.Save)
	h.Check()
	for _, r := range fx.Reply {
		if r.Call != list {
			return r, true
		}
	}
	return ipam.Reply{}, false
}

// waits fails the test if the request is answered at once, or if no list is asked for.
func waits(t testing.TB, h *machinetest.Host, q ipam.Request) {
	t.Helper()
	if r, ok := h.Try(q); ok {
		t.Fatalf("answered before a list has told: %+v, %v", r.Address, r.Err)
	}
	if !slices.ContainsFunc(h.Notes, func(n ipam.Note) bool { return n.Kind == ipam.NoteUnclear }) {
		t.Fatal("no list is asked for")
	}
}

// stateOf says what an address is.
func stateOf(t testing.TB, h *machinetest.Host, a string) ipam.AddressStatus {
	t.Helper()
	s, err := h.Machine().Who(h.Now, address(a))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// made is a network that lists show.
func made(t testing.TB, h *machinetest.Host, endpoints ...ipam.InventoryEndpoint) ipam.Network {
	t.Helper()
	n := network(t, h, bareNet)
	look(h, on(bareNet, endpoints...))
	return n
}

// A container without name, MAC and --ip gets an address that nobody has, is named by the lists, and
// what it had is free when it is gone.
func TestBareContainer(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	first := mustAsk(t, h, n, "", 0, "").Address.Addr()
	if second := mustAsk(t, h, n, "", 0, "").Address.Addr(); second == first {
		t.Fatalf("two containers have %v", first)
	}
	look(h, on(bareNet, listed(first.String(), "web", 9)))
	if s := stateOf(t, h, first.String()); s.Name != "web" || s.Container == "" {
		t.Errorf("%+v", s)
	}
	release(h, n, first)
	if s := stateOf(t, h, first.String()); s.State == "held" {
		t.Errorf("after the release: %+v", s)
	}
	again := mustAsk(t, h, n, "", 0, "").Address.Addr()
	for range 4 {
		h.Now = h.Now.Add(30 * time.Second)
		look(h, on(bareNet))
	}
	if s := stateOf(t, h, again.String()); s.State == "held" {
		t.Errorf("no list has shown it for long: %+v", s)
	}
}

// The engine starts under its containers and answers nothing: it has what it asks for.
func TestBareReplay(t *testing.T) {
	h := withoutMAC(t)
	n := keepsAuxiliary(t, h)
	lives := on(bareNet, listed("10.50.0.9", "web", 9), listed("10.50.0.10", "db", 10))
	lives.Auxiliary = []netip.Addr{address("10.50.0.5")}
	mustAsk(t, h, n, "", 0, "10.50.0.9")
	look(h, lives)
	h.Now = h.Now.Add(time.Hour)

	h.Call(&ipam.Greeting{})
	network(t, h, bareNet)
	if r, ok := h.Try(plainly(n, "10.50.0.5")); ok {
		t.Fatalf("answered before it is known that the engine starts: %+v, %v", r.Address, r.Err)
	}
	h.Call(&ipam.Blindness{})
	for _, a := range []string{"10.50.0.5", "10.50.0.9", "10.50.0.10"} {
		if r := h.Call(plainly(n, a)); r.Err != nil {
			t.Errorf("%s is refused, which the engine has: %v", a, r.Err)
		}
	}
	// A container with web's --ip is started with the engine, all the same.
	wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrAddressInUse, "container web")
	h.CheckDisk()
	look(h, lives) // it runs
	wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrBadRequest, "engine 29")
}

// An engine that starts is held up for replayWait at most, whatever is known of it.
func TestBareReplayIsNotHeldUp(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h, listed("10.50.0.9", "web", 9), listed("10.50.0.10", "db", 10))
	h.Now = h.Now.Add(time.Hour)
	h.Call(&ipam.Greeting{})
	network(t, h, bareNet)
	waits(t, h, plainly(n, "10.50.0.9"))
	h.Now = h.Now.Add(9 * time.Second)
	if r, ok := h.Tick(); ok {
		t.Fatalf("%+v, %v", r.Address, r.Err)
	}
	h.Now = h.Now.Add(time.Second)
	if r, ok := h.Tick(); !ok || r.Err != nil {
		t.Fatalf("answered %t, %v", ok, r.Err)
	}
	if r := h.Call(plainly(n, "10.50.0.10")); r.Err != nil {
		t.Error(r.Err)
	}
}

// Two containers wait for one list, on a network beside one in the making, for an address whose holder is gone:
// only one gets it (seed 1216).
func TestBareTwoClaimsOfOneList(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	network(t, h, bareNet)
	waits(t, h, plainly(n, "10.50.0.9"))
	if r := answeredBy(t, h, on(bareNet)); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.Now = h.Now.Add(time.Minute)
	look(h, on(bareNet))
	network(t, h, bareNet)
	waits(t, h, plainly(n, "10.50.0.9"))
	waits(t, h, plainly(n, "10.50.0.9"))
	h.Now = h.Now.Add(time.Second)
	granted := 0
	for _, r := range h.Machine().Step(h.Now, &ipam.Call{ID: 1 << 40, Deadline: h.Now.Add(time.Second), Request: &ipam.Inventory{After: h.Mark(), Networks: []ipam.InventoryNetwork{on(bareNet)}}}).Reply {
		if r.Call != 1<<40 && r.Err == nil {
			granted++
		}
	}
	if granted > 1 {
		t.Errorf("%d containers have the address", granted)
	}
}

// Without a cluster nothing is handed out: a container's --ip waits, and an engine that starts is told at once that it has
// what it has.
func TestBareWhileNothingIsHandedOut(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.NoMAC, p.cfg.HostBoot.ID = true, true, "first"
		}
	})
	c.found()
	n := plain(bareNet)
	for i := range c.peers {
		c.call(i, &ipam.Inventory{})
	}
	c.wait(time.Second)
	r := c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	a := r.Address.Address.Addr().String()
	c.wait(2 * time.Minute)
	c.lose = func(flight) bool { return true }
	c.peers[1].cfg.HostBoot.ID = "another"
	c.start(1)
	c.call(1, &ipam.Greeting{})
	id := c.call(1, plainly(n, a))
	if r, ok := c.peers[1].replies[id]; ok {
		t.Errorf("a container is answered: %+v, %v", r.Address, r.Err)
	}
	c.wait(time.Minute)
	if err := c.peers[1].replies[id].Err; err == nil {
		t.Error("a container gets an address")
	}
	c.call(1, &ipam.Greeting{})
	c.call(1, &ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool})
	c.call(1, &ipam.Blindness{})
	begun := c.now
	if err := c.ask(1, plainly(n, a)).Err; err != nil || c.now != begun {
		t.Errorf("after %v: %v", c.now.Sub(begun), err)
	}
}
