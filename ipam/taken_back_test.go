package ipam_test

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

func TestReplayWhileCutOffAndFull(t *testing.T) {
	for _, again := range []bool{false, true} {
		c := newLockstep(t, 3)
		c.run(time.Minute, c.agreed)
		cidr := prefix("10.50.0.0/28")
		first := 0
		if again {
			first = 2
		}
		if r := c.ask(first, creation(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.run(time.Minute, c.agreed)
		c.wait(5 * time.Second)
		c.die(2)
		c.part(2, 0, 1)
		c.wait(10 * time.Second)
		if again {
			c.ask(2, &ipam.PoolRelease{Network: local(cidr)})
		}
		if r := c.ask(2, creation(cidr)); r.Err != nil {
			t.Fatal(r.Err)
		}
		for c.ask(2, docker(cidr)).Err == nil {
		}
		c.ask(2, &ipam.Greeting{})
		at := c.now
		if r := c.ask(2, creation(cidr)); r.Err != nil || c.now.Sub(at) > time.Second {
			t.Errorf("made again: %t: answered after %v: %v", again, c.now.Sub(at), r.Err)
		}
	}
}

// A host is forgotten, and its pool makes room for a wider one. It comes back with its containers,
// and its engine asks for its network again.
func TestReplayOfAPoolThatMadeRoom(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.60.0.0/24")
	n := c.network(2, cidr)
	if r := c.ask(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.wait(5 * time.Second)
	c.die(2)
	c.giveUp(0, 2)
	c.network(0, prefix("10.60.0.0/16"))
	c.learnsLoss(0)
	c.ask(2, &ipam.Greeting{})
	if r := c.ask(2, &ipam.PoolRequest{Space: n.Space, Pool: cidr, Gateway: n.Gateway}); r.Err != nil {
		t.Errorf("what it has is refused: %v", r.Err)
	}
}

// A host is forgotten, and another one has given an address of it to a container. It comes back, where
// the container that had the address has gone meanwhile. Nobody can claim it there, also not that one.
func TestClaimOfWhatWasGivenUp(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr, at := prefix("10.60.0.0/24"), address("10.60.0.99")
	back := c.order()[2]
	other := (back + 1) % 3
	look := func(endpoints ...ipam.InventoryEndpoint) {
		c.listed(back, cidr, endpoints...)
		c.wait(2 * time.Second)
	}
	look()
	look()
	c.network(back, cidr)
	if err := c.ipAs(back, cidr, at, "web", 7); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		look(listed(at.String(), "web", 7))
		c.wait(time.Minute)
	}
	c.die(back)
	c.giveUp(other, back)
	c.network(other, cidr)
	if err := c.ipAs(other, cidr, at, "other", 8); err != nil {
		t.Fatal(err)
	}
	c.comeBack(other)
	look()
	wantErr(t, c.ipAs(back, cidr, at, "web", 7), ipam.ErrAddressInUse)
	wantErr(t, c.ipAs(back, cidr, at, "db", 9), ipam.ErrAddressInUse)
}

// A container is stopped while the plugin is away: its engine tries for 15 seconds to release the address. The
// plugin is back, a list lacks the container, and another one takes the address over. Then the release comes.
func TestLateRelease(t *testing.T) {
	for _, same := range []bool{false, true} {
		h, n, other, networks := onTwoNetworks(t)
		if same {
			h.Call(creation(prefix("10.50.0.0/24")))
			h.Now = h.Now.Add(2 * time.Minute)
			networks = append(networks, on("10.50.0.0/24"))
			other = n
		}
		mustAsk(t, h, n, "web", 7, "10.50.0.9")
		with := append([]ipam.InventoryNetwork{on("10.50.0.0/24", listed("10.50.0.9", "web", 7))}, networks[1:]...)
		for range 3 {
			h.Now = h.Now.Add(time.Minute)
			look(h, with...)
		}
		h.Restart()
		look(h, networks...)
		mustAsk(t, h, other, "db", 9, "10.50.0.9")
		release(h, n, address("10.50.0.9"))
		wantErr(t, ask(h, n, "third", 10, "10.50.0.9").Err, ipam.ErrAddressInUse, "db")

		h.Now = h.Now.Add(30 * time.Second)
		shown := slices.Clone(networks)
		shown[len(shown)-1].Endpoints = []ipam.InventoryEndpoint{listed("10.50.0.9", "db", 9)}
		look(h, shown...)
		release(h, other, address("10.50.0.9"))
		h.Now = h.Now.Add(time.Second)
		look(h, networks...)
		mustAsk(t, h, n, "third", 10, "10.50.0.9")
	}
}

// A peer knows a network by lists alone, and has just started anew: before a list has come nothing wider takes
// the place of its pool.
func TestPoolOfAnUnaskedNetworkMakesNoRoom(t *testing.T) {
	for what, q := range map[string]ipam.Request{
		"network": creation(prefix("10.60.0.0/16")),
		"pool":    &ipam.PoolCreation{CIDR: prefix("10.60.0.0/16")},
	} {
		h := withSocket(t)
		look(h, keeping("10.60.0.0/24", "10.60.0.9"))
		look(h, keeping("10.60.0.0/24", "10.60.0.9"))
		h.Restart()
		if r, answered := h.Try(q); answered {
			t.Errorf("%s: %v", what, r.Err)
		}
		look(h, keeping("10.60.0.0/24", "10.60.0.9"))
		if s := h.Machine().Status(h.Now); len(s.Pools) != 1 || s.Pools[0].Pool != prefix("10.60.0.0/24") {
			t.Errorf("%s: the pools are %+v", what, s.Pools)
		}
	}
}

// A peer with a new database knows a network by lists alone. The host boots, its engine asks for the network
// again, answers no question yet, and gives the pool back, as another subnet of the network is refused. The
// network lives, and has its gateway.
func TestReplayThatIsTakenBack(t *testing.T) {
	h := withSocket(t)
	own := &ipam.HostAddresses{Addresses: []netip.Prefix{prefix("10.50.0.1/24")}}
	h.Call(own)
	look(h, on("10.50.0.0/24"))
	look(h, on("10.50.0.0/24"))
	h.Reboot(time.Minute)
	n := h.Call(creation(prefix("10.50.0.0/24"))).Pool.Network
	h.Call(&ipam.Blindness{})
	gateway := address("10.50.0.1")
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: gateway}); r.Err != nil {
		t.Fatal(r.Err)
	}
	release(h, n, gateway)
	h.Call(&ipam.PoolRelease{Network: n})
	mustAsk(t, h, n, "web", 7, "")
	wantErr(t, ask(h, n, "db", 8, "10.50.0.1").Err, ipam.ErrAddressInUse, "gateway")
}

// As TestReplayThatIsTakenBack, and this process ends in between: the engine, which had the pool, is refused the rest.
func TestReplayThatIsTakenBackAfterARestart(t *testing.T) {
	for _, lives := range []bool{true, false} {
		h := withSocket(t)
		look(h)
		n := h.Call(creation(prefix("10.50.0.0/24"))).Pool.Network
		g := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
		h.Now = h.Now.Add(2 * time.Minute)
		look(h, on("10.50.0.0/24"))
		h.Reboot(time.Minute)
		h.Call(creation(prefix("10.50.0.0/24")))
		h.Now = h.Now.Add(time.Second)
		h.Restart()
		h.Call(&ipam.Blindness{}) // it answers nobody yet
		h.Call(&ipam.PoolRelease{Network: n})
		if s, err := h.Machine().Who(h.Now, g); err != nil || s.State != "gateway" {
			t.Errorf("its gateway is %+v, %v", s, err)
		}
		for range 4 {
			h.Now = h.Now.Add(time.Minute)
			if lives {
				look(h, on("10.50.0.0/24"))
			} else {
				look(h)
			}
		}
		if s, err := h.Machine().Who(h.Now, g); err != nil || (s.State == "gateway") != lives {
			t.Errorf("it lives %t, and its gateway is %+v, %v", lives, s, err)
		}
	}
}

// As TestReplayOfAPoolThatMadeRoom, and the engine goes on: it asks for the gateway, is refused, and gives the pool back, as
// engines do when the replay of a network fails. It starts anew, below the same containers, and asks again.
func TestReplayTwiceOfAPoolThatMadeRoom(t *testing.T) {
	for _, ready := range []bool{true, false} {
		c := newLockstep(t, 3)
		c.found()
		cidr := prefix("10.60.0.0/24")
		n0 := c.network(2, cidr)
		gw := c.ask(2, &ipam.AddressRequest{Network: n0, Purpose: ipam.ForGateway})
		if gw.Err != nil {
			t.Fatal(gw.Err)
		}
		if r := c.ask(2, &ipam.AddressRequest{Network: n0, Purpose: ipam.ForContainer, Name: "web"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.wait(5 * time.Second)
		c.die(2)
		c.giveUp(0, 2)
		c.network(0, prefix("10.60.0.0/16"))
		c.learnsLoss(0)
		if !ready {
			c.start(2)
		}
		for n := range 3 {
			c.ask(2, &ipam.Greeting{})
			r := c.ask(2, &ipam.PoolRequest{Space: n0.Space, Pool: cidr, Gateway: n0.Gateway})
			if r.Err != nil {
				t.Errorf("ready %t, replay %d: what it has is refused: %v", ready, n, r.Err)
				break
			}
			g := c.ask(2, &ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForGateway, Address: gw.Address.Address.Addr()})
			if g.Err != nil {
				c.ask(2, &ipam.PoolRelease{Network: r.Pool.Network})
			}
			c.wait(10 * time.Second)
		}
	}
}

// A host has a new database and is in no cluster. Its engine starts, answers no question before it is done, and
// does not survive that a network which it has is refused: the network is granted, and all that it asks for again. A container
// gets nothing yet.
func TestReplayToANewDatabaseWithoutCluster(t *testing.T) {
	for name, cfg := range map[string]ipam.Config{"joins": {Join: true}, "hesitates": {Hesitate: true}} {
		cfg.AwaitInventory = true
		h := machinetest.NewHost(t, cfg)
		h.Call(&ipam.Greeting{})
		r, answered := h.Try(creation(prefix("10.50.0.0/24")))
		if answered {
			t.Fatalf("%s: %v", name, r.Err)
		}
		h.Call(&ipam.Blindness{})
		h.Now = h.Now.Add(11 * time.Second)
		r = h.Call(creation(prefix("10.50.0.0/24")))
		if r.Err != nil || r.Pool.Network.Pool != prefix("10.50.0.0/24") {
			t.Fatalf("%s: got %+v, %v", name, r.Pool, r.Err)
		}
		n := r.Pool.Network
		for _, q := range []*ipam.AddressRequest{
			{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.1")}, {Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.7")},
		} {
			if r := h.Call(q); r.Err != nil || r.Address.Address.Addr() != q.Address || !r.Address.Ticket.IsZero() {
				t.Errorf("%s: got %+v, %v", name, r.Address, r.Err)
			}
		}
		h.Call(&ipam.PoolRelease{Network: n})
		wrong := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.60.0.0/24")}
		if r, answered := h.Try(wrong); answered && r.Err == nil {
			t.Errorf("%s: a network was granted that cannot be", name)
		}
		if r, answered := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}); answered && r.Err == nil {
			t.Errorf("%s: %v was handed out", name, r.Address.Address)
		}
	}
}

// A database is put back from before a network was made, and is found out. The engine starts, and asks for the network.
func TestReplayToAnOldDatabase(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		c.call(i, &ipam.Inventory{})
	}
	c.wait(20 * time.Second)
	old := maps.Clone(c.peers[2].disk)
	c.start(2)
	c.wait(5 * time.Second)
	cidr := prefix("10.60.0.0/24")
	c.call(2, &ipam.Inventory{})
	n := c.network(2, cidr)
	c.wait(5 * time.Second)
	c.peers[2].disk, c.forked = old, true
	c.start(2)
	c.ask(2, &ipam.Greeting{})
	call := c.call(2, &ipam.PoolRequest{Space: n.Space, Pool: cidr, Gateway: n.Gateway}) // at once, as engines do
	c.wait(9 * time.Second)
	c.ask(2, &ipam.Blindness{})
	c.wait(3 * time.Second)
	r, answered := c.peers[2].replies[call]
	if got := c.status(2).State; got != ipam.Suspended || !answered || r.Err != nil {
		t.Errorf("it is %v, answered %t, %v", got, answered, r.Err)
	}
}
