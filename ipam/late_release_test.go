package ipam_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// endOf has a container that was there for long end on a host: its engine lists it no more, and has yet to
// bring its release.
func endOf(t *testing.T, name string) (*machinetest.Host, ipam.Network) {
	t.Helper()
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	h.Now = h.Now.Add(2 * time.Minute)
	look(h, on("10.50.0.0/24"))
	mustAsk(t, h, n, name, 7, "10.50.0.9")
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 7)))
	}
	look(h, on("10.50.0.0/24"))
	return h, n
}

// keeps fails the test if the address is not that of the container with the MAC, or another gets it,
// before and after the engine has listed it.
func keeps(t *testing.T, h *machinetest.Host, n ipam.Network, mac byte) {
	t.Helper()
	q := asking(n, "", 99, "10.50.0.9")
	for range 2 {
		if r, answered := h.Try(q); answered && r.Err == nil {
			t.Fatal("an address is granted that a container has")
		}
		if s, err := h.Machine().Who(h.Now, q.Address); err != nil || s.MAC != (ipam.MAC{2, 0, 0, 0, 0, mac}).String() {
			t.Fatalf("the address is %+v, %v", s, err)
		}
		look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", mac)))
	}
}

// As it, and it was the release of a container that starts again and is to have its address: it waits for a list.
func TestRestartAboveANewDatabase(t *testing.T) {
	for _, name := range []string{"", "web"} {
		for _, minutes := range []time.Duration{11, 3} {
			t.Run(name+" "+(minutes*time.Minute).String(), func(t *testing.T) {
				h := withSocket(t)
				n := plain("10.50.0.0/24")
				look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 9)))
				h.Now = h.Now.Add(minutes * time.Minute)
				look(h, on("10.50.0.0/24", listed("10.50.0.9", "web", 9)))
				release(h, n, address("10.50.0.9"))
				h.Now = h.Now.Add(100 * time.Millisecond)
				isGranted(t, h, asking(n, name, 10, "10.50.0.9"), on("10.50.0.0/24"))
			})
		}
	}
}

// isGranted fails the test if a container gets no address by its deadline, while its engine lists every second what lives.
func isGranted(t *testing.T, h *machinetest.Host, q *ipam.AddressRequest, lives ...ipam.InventoryNetwork) {
	t.Helper()
	from := h.Now
	r, answered := h.Try(q)
	for !answered {
		if h.Now.Sub(from) > time.Minute {
			t.Fatal("never answered")
		}
		h.Now = h.Now.Add(time.Second)
		r, answered = listAnswers(h, lives...)
	}
	if r.Err != nil {
		t.Fatalf("refused after %v: %v", h.Now.Sub(from), r.Err)
	}
}

// A release may come late, and the next process knows of no engine that lists: no release is doubted that no list
// would settle.
func TestLateReleaseWithoutLists(t *testing.T) {
	h, n := endOf(t, "")
	mustAsk(t, h, n, "", 9, "10.50.0.9")
	look(h, on("10.50.0.0/24", listed("10.50.0.9", "db", 9)))
	m, err := ipam.Restore(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(9, 9)), HostBoot: ipam.HostBoot{At: machinetest.Start.Add(-time.Hour)}}, h.Disk.Load)
	if err != nil {
		t.Fatal(err)
	}
	call := func(r ipam.Request) ipam.Reply {
		fx := m.Step(h.Now, &ipam.Call{ID: 1, Deadline: h.Now.Add(20 * time.Second), Request: r})
		return fx.Reply[0]
	}
	call(&ipam.Greeting{})
	call(&ipam.AddressRelease{Network: n, Address: address("10.50.0.9")}) // its own
	h.Now = h.Now.Add(24 * time.Hour)
	if r := call(asking(n, "", 11, "10.50.0.9")); r.Err != nil {
		t.Errorf("a day later: %v", r.Err)
	}
}

// An engine gives back late what it asked for when there was another database, for a network that was not made,
// while it makes one with the same options: that one's gateway stays its own (seed 2001812 of TestSimBare).
func TestLateReleaseOfAPool(t *testing.T) {
	for _, lives := range []bool{true, false} {
		h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
		look(h)
		n := network(t, h, bareNet)
		r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		h.Now = h.Now.Add(time.Minute)
		h.Call(&ipam.PoolRelease{Network: n})
		if !slices.ContainsFunc(h.Notes, func(n ipam.Note) bool { return n.Kind == ipam.NoteParted }) {
			t.Error("no list is asked for")
		}
		gateway, want := r.Address.Address.Addr().String(), "gateway"
		if s := stateOf(t, h, gateway); s.State != want {
			t.Errorf("before a list has told, the gateway is %s", s.State)
		}
		if _, answered := h.Try(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/16")}); answered {
			t.Error("a wider network does not wait for the list")
		}
		if lives {
			wantErr(t, answeredBy(t, h, on(bareNet)).Err, ipam.ErrPoolOverlap)
			if s := stateOf(t, h, gateway); s.State != want {
				t.Errorf("the network is listed, and its gateway is %s", s.State)
			}
		} else if r := answeredBy(t, h); r.Err != nil {
			t.Error(r.Err)
		}
	}
}

// The database is lost with the engine up. A container asks for its address, on a network that was there before, and another
// network like that one is made, of which the list does not tell yet: it has no more networks than were asked for. The release
// of who had the address before comes all the same (seed 8665062976995703963 of TestSim).
func TestLateReleaseBesideANewNetwork(t *testing.T) {
	h := withSocket(t)
	n := plain("10.50.0.0/24")
	if r, answered := h.Try(asking(n, "", 9, "10.50.0.9")); answered {
		t.Fatalf("it does not wait for a list: %v", r.Err)
	}
	network(t, h, "10.50.0.0/24")
	if r, answered := listAnswers(h, on("10.50.0.0/24")); !answered || r.Err != nil {
		t.Fatalf("it gets no address, answered %t: %v", answered, r.Err)
	}
	release(h, n, address("10.50.0.9"))
	keeps(t, h, n, 9)
}

// A host loses its database under a container, and its engine lists it before the host has taken over what it had before: it is
// held when that is decided, and not when a list comes. The release that comes later may be that of who had the address before
// (seed 15852230399374591906 of TestSim).
func TestLateReleaseBehindATakeover(t *testing.T) {
	c := rebuildable(t)
	cidr, web := prefix("10.50.0.0/24"), listed("10.50.0.9", "web", 7)
	c.network(2, cidr)
	if err := c.ip(2, cidr, web.Address); err != nil {
		t.Fatal(err)
	}
	c.rebuild(2)
	machine := c.peers[2].machine
	holder := func() string {
		s, err := machine.Who(c.now, web.Address)
		if err != nil {
			return err.Error()
		}
		return s.Container
	}
	var begun time.Time // of the last list
	c.run(2*time.Minute, func() bool {
		if holder() == web.Container {
			return true
		}
		if len(machine.State().Pools) > 0 && c.now.Sub(begun) >= 10*time.Second {
			begun = c.now
			c.listed(2, cidr, web)
		}
		return false
	})
	if holder() != web.Container || c.now.Equal(begun) {
		t.Fatalf("it is %q that has the address, at a list %t", holder(), c.now.Equal(begun))
	}
	c.listed(2, cidr, web)
	c.ask(2, &ipam.AddressRelease{Network: local(cidr), Address: web.Address})
	for i := range c.peers {
		if err := c.ip(i, cidr, web.Address); err == nil {
			t.Errorf("host %d gets an address that a container has", i)
		}
	}
}

// A process is frozen for minutes before an answer leaves, and its engine is not. What it was asked for is yet to come when it
// goes on, however old the grant is by then: lists that lack it say nothing.
func TestFrozenBeforeTheAnswer(t *testing.T) {
	const freeze = 2 * time.Minute
	t.Run("a container, with a stranger on the network", func(t *testing.T) {
		h := withSocket(t)
		n := network(t, h, "10.50.0.0/24")
		look(h, on("10.50.0.0/24"))
		answered(h, mustAsk(t, h, n, "other", 6, "")) // which is kept back for an hour, when the next alarm goes off
		mustAsk(t, h, n, "web", 7, "10.50.0.9")
		h.Freeze(freeze)
		look(h, on("10.50.0.0/24"))
		if r, answered := h.Try(asking(n, "db", 8, "10.50.0.9")); answered && r.Err == nil {
			t.Error("web starts with the address that db gets")
		}
	})
	t.Run("a network", func(t *testing.T) {
		h := withSocket(t)
		look(h)
		n := network(t, h, "10.50.0.0/24")
		h.Now = h.Now.Add(1500 * time.Millisecond)
		h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
		h.Freeze(freeze)
		for range 2 {
			look(h)
			h.Now = h.Now.Add(25 * time.Second)
		}
		if pools := h.Machine().Status(h.Now).Pools; len(pools) != 1 || pools[0].Networks != 1 {
			t.Errorf("with a network in the making the pools are %+v", pools)
		}
	})
	t.Run("a network that is replayed", func(t *testing.T) {
		h := withSocket(t)
		look(h)
		n := network(t, h, "10.50.0.0/24")
		gateway := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
		look(h, on("10.50.0.0/24"))
		h.Now = h.Now.Add(time.Hour)
		look(h, on("10.50.0.0/24"))
		h.Call(&ipam.Greeting{})
		h.Call(&ipam.Blindness{}) // its engine starts, and answers nothing
		network(t, h, "10.50.0.0/24")
		h.Freeze(freeze)
		h.Call(&ipam.PoolRelease{Network: n}) // another subnet of it was refused
		if r, answered := h.Try(asking(n, "db", 8, gateway.String())); answered && r.Err == nil {
			t.Error("a container gets the gateway of a network that lives")
		}
	})
}
