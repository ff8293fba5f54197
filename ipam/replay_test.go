package ipam_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Schedules in which an engine starts, and asks again for the networks that it has.

// A host has come from another cluster, with a network on a pool that there had a name which is another pool's here, or on
// one that is called otherwise here. Its engine starts, and does not survive that a network which it has is refused: the
// network is granted. A new one is refused once a list has told that.
func TestReplayOfAPoolNameThatIsAnothers(t *testing.T) {
	for what, pool := range map[string]string{"the name is another pool's": "10.60.0.0/24", "the pool has another name": "10.50.0.0/24"} {
		t.Run(what, func(t *testing.T) {
			q := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), PoolName: "lab"}
			named := &ipam.PoolCreation{CIDR: prefix(pool), Name: "lab"}
			if named.CIDR == q.Pool {
				named.Name = "prod"
			}
			h := withSocket(t)
			look(h)
			h.Call(named)
			h.Restart()
			if r, answered := h.Try(q); answered {
				t.Fatalf("before a list tells whether it is new: %v", r.Err)
			}
			h.Call(&ipam.Blindness{})
			h.Now = h.Now.Add(11 * time.Second)
			r := h.Call(q)
			if r.Err != nil || r.Pool.Network.Pool != q.Pool {
				t.Fatalf("what it has is refused: %+v, %v", r.Pool, r.Err)
			}
			gateway := &ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForGateway, Address: address("10.50.0.1")}
			if r := h.Call(gateway); r.Err != nil {
				t.Errorf("its gateway is refused: %v", r.Err)
			}
			look(h, on("10.50.0.0/24"))
			wantErr(t, h.Call(q).Err, ipam.ErrBadRequest, "name")
			h.CheckDisk()
		})
	}
}

// An engine has started, and before it is asked anything a new network is made that cannot be: its pool is granted, as it
// may be one that the engine has. It is no more when its gateway is to be chosen, and nobody counts it: it is refused, rather
// than granted a gateway that goes with the next list.
func TestNewNetworkTakenForAReplay(t *testing.T) {
	h := withSocket(t)
	look(h)
	h.Call(&ipam.PoolCreation{CIDR: prefix("10.60.0.0/24"), Name: "lab"})
	h.Restart()
	h.Call(&ipam.Blindness{})
	h.Now = h.Now.Add(11 * time.Second)
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), PoolName: "lab"})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	wantErr(t, h.Call(&ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForGateway}).Err, ipam.ErrNotReady, "create it again")
	h.Call(&ipam.PoolRelease{Network: r.Pool.Network})
	look(h)
	for _, s := range h.Machine().Status(h.Now).Pools {
		if s.Networks > 0 || s.Held > 0 {
			t.Errorf("nobody has anything, and of %v %d are held below %d networks", s.Pool, s.Held, s.Networks)
		}
	}
}

// An engine has started a container, and still answers ringlet nothing. Before that it has asked again for all that it has: a new
// network that cannot be made is refused. Its pool was granted as one that the engine has, and in a cluster its gateway too, of a
// network that was in no set: a drain freed it under the network (seed 20001 of TestSimZones).
func TestNewNetworkBehindTheFirstContainer(t *testing.T) {
	h := withSocket(t)
	look(h)
	h.Call(&ipam.PoolCreation{CIDR: prefix("10.60.0.0/24"), Name: "lab"})
	had := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/24")}).Pool.Network
	h.Restart()
	h.Call(&ipam.Blindness{})
	h.Now = h.Now.Add(11 * time.Second)
	if r := h.Call(&ipam.AddressRequest{Network: had, Purpose: ipam.ForContainer, Name: "web"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), PoolName: "lab"}).Err, ipam.ErrBadRequest, "name")
	h.CheckDisk()
}

// A host loses its database under a network and a container, and is made to leave before it has seen what its engine has.
// Nobody else gets what the engine asks for again as it starts, as that lies in the space of the host before, and
// engines before 29 do not start without it.
func TestEngineStartsOnAHostThatLeft(t *testing.T) {
	c, cidr, gateway := withGateway(t)
	web := c.ask(2, docker(cidr)).Address.Address.Addr()
	c.leavesAnew(2)
	replay := func(purpose ipam.Purpose, a netip.Addr) error {
		return c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: purpose, Address: a}).Err
	}
	refused(t, replay(ipam.ForUnmarked, web), "has left") // no engine starts
	c.ask(2, &ipam.Greeting{})
	for range 2 {
		if err := replay(ipam.ForGateway, gateway); err != nil {
			t.Error(err)
		}
		if err := replay(ipam.ForUnmarked, web); err != nil {
			t.Error(err)
		}
	}
	if err := c.ip(0, cidr, web); err == nil {
		t.Error("another host gets what its container has")
	}
	refused(t, c.ip(2, cidr, web), "has left")
}

// A host loses its database under a network, is made to leave while it is cut off, and its engine starts. The engine asks for the
// gateway, and for a container, as one whose containers have lived on does; it is granted what it has once it is decided that the
// host has left, whoever has asked meanwhile (seed 15509164141106438942 of TestSim).
func TestEngineStartsWhileItsHostLeaves(t *testing.T) {
	c, cidr, gateway := withGateway(t)
	c.joinsAnew(2)
	c.lose = without(2)
	c.call(2, &ipam.LeaveRequest{Force: true})
	c.ask(2, &ipam.Greeting{})
	again := c.call(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForGateway, Address: gateway})
	c.call(2, docker(cidr))
	if _, ok := c.peers[2].replies[again]; ok {
		t.Fatal("answered before anything is decided")
	}
	c.lose = without()
	c.heal()
	c.run(time.Minute, func() bool { _, ok := c.peers[2].replies[again]; return ok })
	if err := c.peers[2].replies[again].Err; err != nil || c.status(2).State != ipam.Left {
		t.Errorf("on a host that is %s the engine is answered: %v", c.status(2).State, err)
	}
}

// A host loses its database under a network with a gateway on its bridge, takes over what it had and takes in what its engine
// lists, which has no gateway that nobody typed, and is made to leave. The engine starts, and is granted the gateway: nobody else
// has what is on an interface of this host.
func TestEngineStartsOnTheBridgeOfAHostThatLeft(t *testing.T) {
	c := rebuildable(t)
	cidr := prefix("10.50.0.0/24")
	c.network(0, cidr)
	gateway := c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForGateway}).Address.Address.Addr()
	c.rebuild(2)
	for range 30 {
		c.call(2, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(gateway, cidr.Bits())}})
		if len(c.peers[2].machine.State().Pools) > 0 {
			c.call(2, &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(cidr.String(), listed("10.50.0.9", "web", 7))}})
		}
		c.wait(time.Second)
	}
	if err := c.ask(2, &ipam.LeaveRequest{Force: true}).Err; err != nil {
		t.Fatal(err)
	}
	replay := func() error {
		return c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForGateway, Address: gateway}).Err
	}
	refused(t, replay(), "has left") // no engine starts
	c.ask(2, &ipam.Greeting{})
	if err := replay(); err != nil {
		t.Error(err)
	}
}

// anewAndCutOff has a peer lose its database, and be cut off once it is admitted anew, before it has taken over what it had.
// Then its host boots, and its engine starts.
func (c *lockstep) anewAndCutOff(i int) {
	c.t.Helper()
	before := c.rebuild(i)
	c.run(time.Minute, func() bool {
		s := c.peers[i].machine.State()
		return s.Member(c.peers[i].machine.Self()) != nil && s.Gone(before) == nil
	})
	c.lose = without(i)
	c.peers[i].cfg.HostBoot.ID = "another"
	c.start(i)
	c.part(i, (i+1)%3, (i+2)%3)
}

// Such a host had a network with a gateway on its bridge. Its engine is granted that, though
// nothing can be handed out (seed 11163432410432095844 of TestSim).
func TestEngineStartsOnTheBridgeOfAHostThatIsCutOff(t *testing.T) {
	c := rebuildable(t)
	cidr := prefix("10.50.0.0/24")
	c.network(0, cidr)
	n := c.makes(2, cidr, ipam.PoolRequest{})
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}
	gateway := c.ask(2, q).Address.Address
	other := c.ask(0, docker(cidr)).Address.Address.Addr()
	c.anewAndCutOff(2)
	c.call(2, &ipam.HostAddresses{Addresses: []netip.Prefix{gateway}})
	c.ask(2, &ipam.Greeting{})
	refused(t, c.ask(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: other}).Err, "asks the other hosts")
	q.Address = gateway.Addr()
	if err := c.ask(2, q).Err; err != nil {
		t.Error(err)
	}
}

// So it is before the host is in the cluster again, and so knows no pool.
func TestEngineStartsOnTheBridgeOfAHostThatKnowsNoPool(t *testing.T) {
	c := rebuildable(t)
	cidr := prefix("10.50.0.0/24")
	n := c.makes(2, cidr, ipam.PoolRequest{})
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}
	gateway := c.ask(2, q).Address.Address
	c.lose = without(2)
	c.rebuild(2)
	c.part(2, 0, 1)
	c.call(2, &ipam.HostAddresses{Addresses: []netip.Prefix{gateway}})
	c.ask(2, &ipam.Greeting{})
	c.call(2, &ipam.Blindness{})
	if err := c.ask(2, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Err; err != nil {
		t.Error(err)
	}
	q.Address = gateway.Addr()
	if got := c.ask(2, q); got.Err != nil || got.Address.Address != gateway {
		t.Errorf("%v, %v", got.Address.Address, got.Err)
	}
}

// startsOnShared has a host with a network with a router and an auxiliary address that networks share lose its database, and
// more befall it, beside a network of another host on that pool or not, and then its engine start, which is granted both, though
// nothing can be handed out. A network that is made later is another one (seed 10372068522610387590 of TestSim).
func startsOnShared(t *testing.T, others bool, befall func(*lockstep), started func(c *lockstep, cidr netip.Prefix, shared []netip.Addr)) {
	t.Helper()
	for _, bare := range []bool{false, true} {
		c := rebuildable(t)
		cidr, router, device := prefix("10.50.0.0/24"), address("10.50.0.1"), address("10.50.0.77")
		q := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst}
		if others {
			c.network(0, cidr)
		}
		n := c.network(2, cidr, device.String())
		c.peers[2].cfg.NoMAC = bare
		befall(c)
		c.ask(2, &ipam.Greeting{})
		c.call(2, &ipam.Blindness{})
		for _, r := range []ipam.Request{
			q,
			&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: router},
			&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: device},
		} {
			if err := c.ask(2, r).Err; err != nil {
				t.Errorf("bare %t: %T: %v", bare, r, err)
			}
		}
		started(c, cidr, []netip.Addr{router, device})
		c.call(2, &ipam.Inventory{})
		c.wait(2 * time.Minute)
		if err := c.ask(2, &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: device}).Err; err == nil {
			t.Errorf("bare %t: a host hands out an address that networks share, and its engine has long started", bare)
		}
	}
}

// It is cut off before it has taken over what it had.
func TestEngineStartsOnSharedAddressesOfAHostThatIsCutOff(t *testing.T) {
	startsOnShared(t, true, func(c *lockstep) { c.anewAndCutOff(2) }, func(*lockstep, netip.Prefix, []netip.Addr) {})
}

// It is made to leave before it has said that it uses the pool. None but networks get what they share.
func TestEngineStartsOnSharedAddressesOfAHostThatLeft(t *testing.T) {
	startsOnShared(t, false, func(c *lockstep) { c.leavesAnew(2) }, func(c *lockstep, cidr netip.Prefix, shared []netip.Addr) {
		for _, a := range shared {
			wantErr(t, c.ip(0, cidr, a), ipam.ErrAddressReserved)
		}
	})
}

// A host loses its database under a network with a gateway on its bridge, takes over what it had, and its engine starts. It is
// made to leave before it has taken in what its engine lists. When the network goes, so does what is known of its gateway (seed
// 3436276608055222964 of TestSim).
func TestNetworkOfAHostThatLeftGoes(t *testing.T) {
	c := rebuildable(t)
	cidr := prefix("10.50.0.0/24")
	n := c.makes(2, cidr, ipam.PoolRequest{})
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}
	gateway := c.ask(2, q).Address.Address
	c.lists(2, on(cidr.String()))
	before := c.rebuild(2)
	c.run(time.Minute, func() bool {
		g := c.peers[2].machine.State().Gone(before)
		return g != nil && g.Forgotten // it has taken over
	})
	c.call(2, &ipam.HostAddresses{Addresses: []netip.Prefix{gateway}})
	c.ask(2, &ipam.Greeting{})
	c.makes(2, cidr, ipam.PoolRequest{})
	q.Address = gateway.Addr()
	if err := c.ask(2, q).Err; err != nil {
		t.Fatal(err)
	}
	if err := c.ask(2, &ipam.LeaveRequest{Force: true}).Err; err != nil {
		t.Fatal(err)
	}
	state := func() string {
		s, err := c.peers[2].machine.Who(c.now, q.Address)
		if err != nil {
			t.Fatal(err)
		}
		return s.State
	}
	c.lists(2, on(cidr.String()))
	c.wait(2 * time.Minute)
	if got := state(); got != "gateway" {
		t.Errorf("while the network is there its gateway is %s", got)
	}
	c.ask(2, &ipam.PoolRelease{Network: n})
	for range 4 {
		c.call(2, &ipam.HostAddresses{})
		c.lists(2)
		c.wait(30 * time.Second)
	}
	if got := state(); got == "gateway" {
		t.Errorf("no network is there, and its gateway is kept")
	}
}

// leavesAnew has a host lose its database, and be made to leave as soon as it is in the cluster again.
func (c *lockstep) leavesAnew(i int) {
	c.t.Helper()
	c.joinsAnew(i)
	if err := c.ask(i, &ipam.LeaveRequest{Force: true}).Err; err != nil {
		c.t.Fatal(err)
	}
	c.wait(10 * time.Second)
}

// joinsAnew has a host lose its database, and lets time pass until it is in the cluster again.
func (c *lockstep) joinsAnew(i int) {
	c.t.Helper()
	c.rebuild(i)
	c.run(time.Minute, func() bool {
		m := c.peers[i].machine
		return m.State().Slot > 0 && m.State().Member(m.Self()) != nil
	})
}

// withGateway returns three hosts on machines of their own with a network each on one pool, and the gateway of the last.
func withGateway(t *testing.T) (c *lockstep, cidr netip.Prefix, gateway netip.Addr) {
	t.Helper()
	c, cidr = newLockstepWith(t, 3, onOwnMachines), prefix("10.50.0.0/24")
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		c.network(i, cidr)
	}
	return c, cidr, c.ask(2, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForGateway}).Address.Address.Addr()
}

// rebuildable returns three hosts whose engines have listed that they have nothing.
func rebuildable(t *testing.T) *lockstep {
	t.Helper()
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for i, p := range c.peers {
			p.cfg.Machine, p.cfg.AwaitInventory = uint64(i+1), true
		}
	})
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		c.call(i, &ipam.Inventory{})
	}
	c.wait(time.Second)
	return c
}

// A host has lost its database, and its engine has two networks on a subnet that overlaps the pool of another host's containers.
// Neither gets a pool, as its status says; the host has listed, and hands out addresses of other pools (seed 10582536075111612328
// of TestSimLaden).
func TestNetworksWithoutAPool(t *testing.T) {
	c := rebuildable(t)
	theirs, ours, wide := prefix("10.60.0.16/28"), prefix("10.50.0.0/24"), prefix("10.60.0.0/27")
	c.makes(1, theirs, ipam.PoolRequest{Gateway: ipam.GatewayNone})
	web := c.ask(1, docker(theirs)).Address.Address.Addr()
	c.makes(0, ours, ipam.PoolRequest{Gateway: ipam.GatewayNone})
	c.rebuild(2)
	c.run(time.Minute, func() bool {
		s := c.peers[2].machine.State()
		return s.Member(c.peers[2].machine.Self()) != nil && s.PoolOf(theirs) != nil
	})
	for range 30 {
		c.wait(time.Second)
		c.call(1, &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(theirs.String(), listed(web.String(), "web", 7))}})
		c.call(2, &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(wide.String()), on(wide.String()), on(ours.String())}})
	}
	if r := c.ask(2, docker(ours)); r.Err != nil {
		t.Error(r.Err)
	}
	if problems := c.status(2).Problems; !slices.ContainsFunc(problems, func(p ipam.Problem) bool { return strings.Contains(p.Text, "has no pool") }) {
		t.Errorf("its problems are %+v", problems)
	}
}
