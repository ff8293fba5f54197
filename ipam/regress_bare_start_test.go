package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// RINGLET_MAC=false: an engine before 29 that starts asks for what its networks and endpoints have, network by network,
// and then starts containers, whose requests look the same; it answers no question before it is done.

// started has the engine start above the host's peer, in a process that it has started, too, with the networks that it has.
func started(h *ipamtest.Host, requests ...ipam.PoolRequest) {
	h.Restart()
	h.Call(&ipam.Greeting{})
	for _, q := range requests {
		h.Call(&q)
	}
	h.Call(&ipam.Blindness{})
}

func plainPool() ipam.PoolRequest { return ipam.PoolRequest{Space: ipam.Local, Pool: prefix(bareNet)} }

// upperHalf asks for the same pool for a network with other options.
func upperHalf() ipam.PoolRequest {
	q := plainPool()
	q.Range = prefix("10.50.0.128/25")
	return q
}

// keepsAuxiliary is a network that keeps 10.50.0.5 back as auxiliary.
func keepsAuxiliary(t *testing.T, h *ipamtest.Host) ipam.Network {
	t.Helper()
	n := network(t, h, bareNet)
	waits(t, h, plainly(n, "10.50.0.5"))
	if r := answeredBy(t, h); r.Err != nil {
		t.Fatal(r.Err)
	}
	return n
}

// What an operator excluded no container gets that starts with its engine.
func TestBareStartOnWhatIsExcluded(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	if r := h.Call(exclude("10.50.0.9", "10.50.0.9")); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.Now = h.Now.Add(time.Hour)
	started(h, plainPool())
	for range 2 {
		wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrAddressReserved)
	}
}

// Nor what the host has itself.
func TestBareStartOnTheHostsOwn(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	own := &ipam.HostAddresses{Addresses: []netip.Prefix{netip.MustParsePrefix("10.50.0.9/24")}}
	h.Call(own)
	h.Now = h.Now.Add(time.Hour)
	h.Restart()
	h.Call(&ipam.HostAddresses{Addresses: own.Addresses})
	h.Call(&ipam.Greeting{})
	q := plainPool()
	h.Call(&q)
	h.Call(&ipam.Blindness{})
	for range 2 {
		wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrAddressInUse)
	}
}

// Also where the process starts anew while other hosts, new as this one, have yet to list what they have
// (seed 8730718930668074842 of TestSim).
func TestBareStartBesideUnlistedOthers(t *testing.T) {
	c := newLockstepWith(t, 2, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.NoMAC = true, true
		}
	})
	c.run(time.Minute, c.agreed)
	pool := plainPool()
	r := c.ask(1, &pool)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	own := func() *ipam.HostAddresses {
		return &ipam.HostAddresses{Addresses: []netip.Prefix{netip.MustParsePrefix("10.50.0.9/24")}}
	}
	c.ask(1, own())
	c.ask(1, &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(bareNet)}})
	c.start(1)
	c.ask(1, own())
	c.ask(1, &ipam.Greeting{})
	c.ask(1, &pool)
	c.ask(1, &ipam.Blindness{})
	for range 2 {
		wantErr(t, c.ask(1, plainly(r.Pool.Network, "10.50.0.9")).Err, ipam.ErrAddressInUse)
	}
}

// Nor what is kept for a name, which it may not have.
func TestBareStartOnWhatIsKeptForAName(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	h.Call(keep("10.50.0.9", "web"))
	h.Now = h.Now.Add(time.Hour)
	started(h, plainPool())
	wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrAddressReserved)
}

// Nor what was given up with its host, and a container of another host has by now: the engine of the host that is back has lost
// the release of who had it (seed 11514389931655453154 of TestSimLaden).
func TestBareStartOnWhatWasGivenUp(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.AwaitInventory, p.cfg.NoMAC = true, true
		}
	})
	c.found()
	c.wait(time.Minute)
	c.lists(0)
	c.wait(time.Second)
	order := c.order()
	other, back := order[0], order[2]
	pool := plainPool()
	n := c.makes(back, prefix(bareNet), pool)
	had := c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer}).Address.Address.Addr()
	c.wait(time.Minute)
	c.die(back)
	c.giveUp(other, back)
	_ = c.full(other, prefix(bareNet))
	c.learnsLoss(other)
	pools := func() {
		c.ask(back, &ipam.Greeting{})
		if err := c.ask(back, &pool).Err; err != nil {
			t.Errorf("what its engine has is refused: %v", err)
		}
		c.call(back, &ipam.Blindness{})
	}
	for range 2 {
		pools()
		wantErr(t, c.ask(back, plainly(n, had.String())).Err, ipam.ErrSuspended, "ringlet forget")
		c.start(back)
	}
}

// Nor what something else on the LAN answers for.
func TestBareStartOnWhatAStrangerHas(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	r := mustAsk(t, h, n, "", 0, "10.50.0.9")
	h.Call(&ipam.Stranger{Ticket: r.Ticket, MAC: ipam.MAC{2, 3}})
	if s := stateOf(t, h, "10.50.0.9"); s.Kind != "stranger" {
		t.Fatalf("%+v", s)
	}
	h.Now = h.Now.Add(time.Second)
	started(h, plainPool())
	wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrAddressInUse)
}

// Two networks on a pool, and an endpoint of the first that no list has shown: a container on the second that starts
// with the engine does not get its address.
func TestBareStartOfTwoNetworks(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	second := upperHalf()
	other := h.Call(&second).Pool.Network
	waits(t, h, plainly(n, "10.50.0.9"))
	if r := answeredBy(t, h, on(bareNet)); r.Err != nil {
		t.Fatal(r.Err)
	}
	look(h, on(bareNet), on(bareNet))
	h.Now = h.Now.Add(time.Second)
	started(h, plainPool())
	h.Call(plainly(n, "10.50.0.9")) // goes on with it, whatever it is answered
	h.Call(&second)
	wantErr(t, h.Call(plainly(other, "10.50.0.9")).Err, ipam.ErrAddressInUse)
}

// The same above a new database.
func TestBareStartOfTwoNetworksAboveANewDatabase(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{AwaitInventory: true, NoMAC: true})
	n := network(t, h, bareNet)
	h.Call(&ipam.Blindness{})
	if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil {
		t.Fatal(r.Err)
	}
	second := upperHalf()
	other := h.Call(&second).Pool.Network
	wantErr(t, h.Call(plainly(other, "10.50.0.9")).Err, ipam.ErrAddressInUse)
}

// Nor does it get what another network of its host keeps back as auxiliary.
func TestBareStartOnTheAuxiliaryOfAnotherNetwork(t *testing.T) {
	h := withoutMAC(t)
	n := keepsAuxiliary(t, h)
	first := on(bareNet)
	first.Auxiliary = []netip.Addr{address("10.50.0.5")}
	look(h, first)
	second := upperHalf()
	other := h.Call(&second).Pool.Network
	look(h, first, on(bareNet))
	h.Now = h.Now.Add(time.Hour)
	for _, anew := range []bool{false, true} {
		if anew {
			h.Restart()
		}
		h.Call(&ipam.Greeting{})
		q := plainPool()
		h.Call(&q)
		h.Call(&ipam.Blindness{})
		if r := h.Call(plainly(n, "10.50.0.5")); r.Err != nil {
			t.Fatal(r.Err)
		}
		h.Call(&second)
		if r := h.Call(plainly(other, "10.50.0.5")); r.Err == nil {
			t.Errorf("process anew %t: a container has what a network keeps back", anew)
		}
	}
}

// Who allocates outside Docker while an engine starts does not end what that asks for again.
func TestClientWhileAnEngineStarts(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h, listed("10.50.0.9", "web", 9))
	h.Now = h.Now.Add(time.Hour)
	h.Restart()
	h.Call(&ipam.Greeting{})
	h.Call(&ipam.Blindness{})
	if r := h.Call(&ipam.ClientRequest{Pool: bareNet, ID: "printer"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	q := plainPool()
	h.Call(&q)
	if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil {
		t.Errorf("the engine is refused what it has: %v", r.Err)
	}
}

// A network that a script makes right behind the start, before a list, does not get as its gateway what a container
// has just been given; nor as one that all engines share.
func TestBareStartAndGatewayOfANewNetwork(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	h.Now = h.Now.Add(time.Hour)
	started(h, plainPool())
	if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil { // a container that starts with the engine
		t.Fatal(r.Err)
	}
	second := plainPool()
	second.Range, second.Gateway = prefix("10.50.0.128/25"), ipam.GatewayNone
	other := h.Call(&second).Pool.Network
	if r := h.Call(&ipam.AddressRequest{Network: other, Purpose: ipam.ForGateway, Address: address("10.50.0.9")}); r.Err == nil {
		t.Errorf("a network has as its gateway what a container has: %+v", stateOf(t, h, "10.50.0.9"))
	}
}

func TestBareStartAndSharedGatewayOfANewNetwork(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	h.Now = h.Now.Add(time.Hour)
	started(h, plainPool())
	if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil { // a container that starts with the engine
		t.Fatal(r.Err)
	}
	second := plainPool()
	second.Gateway, second.GatewayAddr = ipam.GatewayAddr, address("10.50.0.9")
	r, ok := h.Try(&second)
	if !ok { // it may be one that the engine has, which starts
		r = answeredBy(t, h, on(bareNet, listed("10.50.0.9", "web", 9)))
	}
	if r.Err == nil {
		t.Errorf("a network has as its gateway what a container has: %+v", stateOf(t, h, "10.50.0.9"))
	}
}

// The process starts anew while its engine does, between two networks with equal options: nobody gets what is on the
// first, which was asked for again before.
func TestBareStartOfEqualNetworksAndAProcessThatStartsAnewMeanwhile(t *testing.T) {
	h := withoutMAC(t)
	n := network(t, h, bareNet)
	network(t, h, bareNet)
	lives := []ipam.InventoryNetwork{on(bareNet, listed("10.50.0.9", "web", 9)), on(bareNet)}
	look(h, lives...)
	h.Now = h.Now.Add(time.Hour)
	look(h, lives...)
	started(h, plainPool())
	if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.Now = h.Now.Add(time.Second)
	started(h, plainPool()) // its second network
	wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrAddressInUse)
}

// A container that starts with its engine does not get the gateway of its network.
func TestBareStartOnTheGateway(t *testing.T) {
	for _, typed := range []bool{true, false} {
		h := withoutMAC(t)
		q := plainPool()
		if q.Gateway = ipam.GatewayNone; !typed {
			q.Gateway = ipam.GatewayFirst
		}
		gateway := func(n ipam.Network) {
			if !typed {
				return
			}
			if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address("10.50.0.1")}); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		n := h.Call(&q).Pool.Network
		gateway(n)
		first := on(bareNet)
		first.Gateways = []netip.Addr{address("10.50.0.1")}
		look(h, first)
		h.Now = h.Now.Add(time.Hour)
		started(h, q)
		gateway(n)
		if r := h.Call(plainly(n, "10.50.0.1")); r.Err == nil {
			t.Errorf("typed %t: a container gets the gateway", typed)
		}
	}
}

// A call of the engine that was, which waits still, does not end what the engine that starts asks for again.
func TestCallOfAnEngineThatWas(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{AwaitInventory: true, NoMAC: true})
	look(h)
	first, second := network(t, h, bareNet), network(t, h, "10.51.0.0/24")
	h.Now = h.Now.Add(time.Hour)
	look(h, on(bareNet), on("10.51.0.0/24"))
	mustAsk(t, h, first, "web", 0, "10.50.0.9")
	if r, ok := h.Try(&ipam.AddressRequest{Network: first, Purpose: ipam.ForContainer, Name: "web", Address: address("10.50.0.9")}); ok {
		t.Fatalf("%+v, %v", r.Address, r.Err)
	}
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Greeting{})
	h.Tick()
	network(t, h, "10.51.0.0/24")
	for _, s := range h.Machine().Status(h.Now).Networks {
		if s.ID == second.ID() && s.Count != 1 {
			t.Errorf("counted %d times", s.Count)
		}
	}
}

// Nor that which another network of its host has by its options.
func TestBareStartOnTheGatewayOfAnotherNetwork(t *testing.T) {
	h := withoutMAC(t)
	q := plainPool()
	q.Gateway = ipam.GatewayFirst
	h.Call(&q)
	second := plainPool()
	second.Gateway = ipam.GatewayNone
	n := h.Call(&second).Pool.Network
	lives := on(bareNet)
	lives.Gateways = []netip.Addr{address("10.50.0.1")}
	look(h, lives, on(bareNet))
	h.Now = h.Now.Add(time.Hour)
	started(h, q, second)
	wantErr(t, h.Call(plainly(n, "10.50.0.1")).Err, ipam.ErrAddressReserved, "gateway")
}

// The same between two networks with different options, also for what the first keeps back.
func TestBareStartOfTwoNetworksAndAProcessThatStartsAnewMeanwhile(t *testing.T) {
	second := upperHalf()
	h := withoutMAC(t)
	n := keepsAuxiliary(t, h)
	other := h.Call(&second).Pool.Network
	first := on(bareNet, listed("10.50.0.9", "web", 9))
	first.Auxiliary = []netip.Addr{address("10.50.0.5")}
	look(h, first, on(bareNet))
	h.Now = h.Now.Add(time.Hour)
	look(h, first, on(bareNet))
	started(h, plainPool())
	for _, a := range []string{"10.50.0.5", "10.50.0.9"} {
		if r := h.Call(plainly(n, a)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	h.Now = h.Now.Add(time.Second)
	started(h, second)
	wantErr(t, h.Call(plainly(other, "10.50.0.9")).Err, ipam.ErrAddressInUse)
	wantErr(t, h.Call(plainly(other, "10.50.0.5")).Err, ipam.ErrAddressReserved)
}

// The same with any RINGLET_MAC, and without the engine's socket: nobody would ever tell that the network is gone.
func TestClientWhileAnEngineStartsWithoutSocket(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{})
	n := network(t, h, bareNet)
	g := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	h.Restart()
	h.Call(&ipam.Greeting{})
	if r := h.Call(&ipam.ClientRequest{Pool: bareNet, ID: "printer"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	network(t, h, bareNet) // asked for again
	h.Now = h.Now.Add(time.Hour)
	release(h, n, g)
	h.Call(&ipam.PoolRelease{Network: n})
	if s := stateOf(t, h, g.String()); s.State == "held" {
		t.Errorf("%+v", s)
	}
	if left := h.Machine().Status(h.Now).Networks; len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

// An engine starts on a host whose process was frozen, long ago or in the middle of that, and asks again for a network beside
// others, and for what it and a container on it have, without saying which is which. It is granted that: what the freeze made
// uncertain is not whether it had asked before this process started.
func TestEngineStartsBehindAFreeze(t *testing.T) {
	const cidr = "10.50.0.0/24"
	device, web := address("10.50.0.5"), address("10.50.0.9")
	for name, freeze := range map[string]struct{ before, starting time.Duration }{
		"never": {}, "long ago": {before: time.Minute}, "while it starts": {starting: 26 * time.Second},
	} {
		for _, process := range []bool{false, true} { // whether it starts, too
			h := ipamtest.NewHost(t, ipam.Config{AwaitInventory: true, NoMAC: true})
			pool := func(within string) ipam.Network {
				q := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr), Gateway: ipam.GatewayNone}
				if within != "" {
					q.Range = prefix(within)
				}
				return h.Call(q).Pool.Network
			}
			look(h)
			n := pool("")
			h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: device})
			look(h)
			first, second := on(cidr, listed(web.String(), "web", 9)), on(cidr)
			first.Auxiliary = []netip.Addr{device}
			second.ID, second.Name = "n2", "net2"
			pool("10.50.0.128/25")
			for range 5 {
				h.Now = h.Now.Add(2 * time.Minute)
				look(h, first, second)
			}
			pool("10.50.0.64/26")
			if freeze.before > 0 {
				h.Freeze(freeze.before)
				h.Tick()
			}
			for range 3 {
				h.Now = h.Now.Add(time.Hour)
				look(h, first, second)
			}
			if process {
				h.Restart()
			} else {
				h.Call(&ipam.Greeting{})
			}
			h.Call(&ipam.Blindness{})
			pool("")
			if freeze.starting > 0 {
				h.Freeze(freeze.starting)
			}
			for _, a := range []netip.Addr{device, web} {
				if r, answered := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: a}); !answered || r.Err != nil {
					t.Errorf("frozen %s, with the process %t: %v: %t, %v", name, process, a, answered, r.Err)
				}
			}
		}
	}
}
