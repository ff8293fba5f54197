package ipamtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
)

// client is a holder outside Docker.
type client struct {
	name    string
	subnet  netip.Prefix
	address netip.Addr
	busy    bool
}

func (e *engine) init(s *site) {
	e.s, e.old = s, s.c.chance(s.c.w.Old)
	for i := range s.c.w.Slots {
		x := &container{id: fmt.Sprintf("%s%d", s, i)}
		if x.name = x.id; i < s.c.w.Alike {
			x.name = fmt.Sprintf("service%d", i)
		}
		x.names = []string{x.name}
		e.containers = append(e.containers, x)
	}
	for i := range s.c.w.Clients {
		e.clients = append(e.clients, &client{name: fmt.Sprintf("client%d", i)})
	}
}

// most is how many networks a host has at most.
const most = 4

// act has users of the host do one thing after the other.
func (e *engine) act() {
	c := e.s.c
	if c.calm {
		return
	}
	e.after(c.about(c.w.Pace), e.act)
	if !c.isUnited() || e.starting || e.s.packs || e.s.suspended() {
		return
	}
	if c.chance(c.w.Renames) {
		e.rename()
	}
	switch n := c.rnd.IntN(100); {
	case n < 4 || len(e.networks) == 0, n < c.w.Makes && c.rnd.IntN(2) == 0:
		if len(e.networks) < most {
			e.create()
		}
	case n < 6, n < c.w.Makes:
		e.remove(one(c.rnd, e.networks...))
	case n < 8:
		e.look()
	case n < 20 && len(e.clients) > 0:
		e.s.turnClient(one(c.rnd, e.clients...))
	default:
		x := one(c.rnd, e.containers...)
		switch {
		case x.busy:
		case x.running:
			e.stop(x)
		default:
			e.run(x)
		}
	}
}

// create makes a network.
func (e *engine) create() {
	c := e.s.c
	n := &network{
		name:   e.newName(),
		bridge: c.rnd.IntN(2) == 0,
		request: ipam.PoolRequest{
			Space: ipam.Local, Pool: one(c.rnd, c.w.Subnets...),
			Gateway: one(c.rnd, ipam.GatewayHost, ipam.GatewayHost, ipam.GatewayFirst, ipam.GatewayLast, ipam.GatewayNone),
		},
	}
	q := &n.request
	if c.w.Chooses && c.rnd.IntN(3) == 0 {
		q.Pool = netip.Prefix{}
	} else if pool := q.Pool; (c.w.Lockers > 0 || c.rnd.IntN(5) == 0) && pool.Bits()+1 < pool.Addr().BitLen() {
		q.Range = netip.PrefixFrom(pool.Addr(), pool.Bits()+1)
	}
	if c.chance(c.w.Laden) {
		q.Gateway = one(c.rnd, ipam.GatewayHost, ipam.GatewayNone) // which keeps nothing back
	}
	if c.chance(c.w.Options) {
		q.PoolName = one(c.rnd, "", "lab", "dmz")
		q.Sticky = one(c.rnd, ipam.StickyName, ipam.StickyMAC, ipam.StickyNone)
	}
	e.makeNetwork(n)
}

// newName is the name of a network that did not exist before.
func (e *engine) newName() string {
	e.made++
	return fmt.Sprintf("%s-net%d", e.s, e.made)
}

// remove removes a network that no container is on: not while the engine starts, which answers nobody then. The networks of a host
// that was installed again are all that it knows of its cluster; so it is, also while its process is away, with the one that is
// about to begin a lost cluster.
func (e *engine) remove(n *network) {
	orphaned := e.s.stranded && !e.s.settled && !e.s.cfg.Join
	if n.ready && n.users == 0 && !e.starting && !orphaned && e.s != e.s.c.beginner {
		e.giveBack(n)
	}
}

// removeAll removes all networks that can be removed.
func (e *engine) removeAll() {
	for _, n := range slices.Clone(e.networks) {
		e.remove(n)
	}
}

// clear has users stop all that is on a host.
func (s *site) clear() {
	for _, x := range s.engine.containers {
		if !x.busy && x.running {
			s.engine.stop(x)
		}
	}
	for _, x := range s.engine.clients {
		if x.address.IsValid() {
			s.turnClient(x)
		}
	}
}

// run starts a container, on one network or two.
func (e *engine) run(x *container) {
	c := e.s.c
	n := one(c.rnd, e.networks...)
	if !e.runs(n) {
		return
	}
	drawn := e.s.drawnMAC
	if c.chance(c.w.Fixed) {
		drawn = func() ipam.MAC { return e.s.fixedMAC(x) }
	}
	x.busy = true
	x.join(n, drawn(), x.id)
	if m := one(c.rnd, e.networks...); c.chance(c.w.Second) && m != n && e.runs(m) {
		x.join(m, drawn(), x.id+secondEnd)
	}
	e.start(x, e.request(x, 0, netip.Addr{}), 1+c.rnd.IntN(3))
}

// runWith starts a container with --ip, if the address is valid.
func (e *engine) runWith(x *container, n *network, mac ipam.MAC, a netip.Addr) {
	x.busy = true
	x.join(n, mac, x.id)
	e.start(x, e.request(x, 0, a), 1)
}

func (x *container) join(n *network, mac ipam.MAC, user string) {
	n.users++
	x.ends = append(x.ends, endpoint{network: n, mac: mac, user: user})
}

// secondEnd ends what the oracle calls a container on its second network, so that the two never have one address.
const secondEnd = "'"

// fixedMAC is the MAC that some containers, more than one of a host, are given by hand.
func (s *site) fixedMAC(x *container) ipam.MAC {
	return ipam.MAC{2, byte(s.index), x.id[len(x.id)-1], 0, 0, 2}
}

// contend has another container start with the address, once the engine may have listed that nobody has it, and before or after its
// release comes.
func (e *engine) contend(p parting, in time.Duration) {
	c := e.s.c
	e.after(in/2, e.look)
	e.after(in, func() {
		x := one(c.rnd, e.containers...)
		if c.calm || e.starting || x.busy || x.running || !e.runs(p.network) {
			return
		}
		e.runWith(x, p.network, e.s.mac(x), p.address)
	})
}

func (s *site) mac(x *container) ipam.MAC {
	if s.c.w.Fixed > 0 && s.c.rnd.IntN(2) == 0 {
		return s.fixedMAC(x)
	}
	return s.drawnMAC()
}

// drawnMAC is what an engine gives an endpoint.
func (s *site) drawnMAC() ipam.MAC {
	n := s.c.rnd.Uint32()
	return ipam.MAC{2, byte(s.index), byte(n), byte(n >> 8), byte(n >> 16), 1}
}

// loop has a container that has ended start again at once with the address that it had, as one with --restart and --ip does, and
// end soon after that.
func (e *engine) loop(x *container, end endpoint) {
	c := e.s.c
	if c.calm || !c.chance(c.w.Loops) {
		return
	}
	e.do(func(t *script) {
		t.sleep(c.between(50*time.Millisecond, 500*time.Millisecond))
		if c.calm || e.starting || x.busy || x.running || !e.runs(end.network) {
			return
		}
		mac := end.mac
		if mac != e.s.fixedMAC(x) {
			mac = e.s.mac(x)
		}
		e.runWith(x, end.network, mac, end.address)
		t.sleep(c.between(time.Second, 10*time.Second))
		if x.running && !x.busy && !e.starting {
			e.stop(x)
		}
	})
}

// wanted draws the address of a claim.
func (c *cluster) wanted(pool netip.Prefix) netip.Addr {
	n := int(addr.Size(pool))
	k := c.rnd.IntN(n)
	if c.w.Popular {
		k = (n/2 + c.rnd.IntN(3)) % n
	}
	return addr.Nth(pool, addr.Offset(k))
}

// claimed returns what a caller claims that would have claimed a: now and then an address that waits for its release.
func (c *cluster) claimed(pool netip.Prefix, a netip.Addr) netip.Addr {
	if len(c.going) == 0 || c.calm || !c.chance(c.w.Waiting) {
		return a
	}
	if p := one(c.rnd, c.going...); pool.Contains(p.address) {
		return p.address
	}
	return a
}

// turnClient has a holder outside Docker take an address, or free it.
func (s *site) turnClient(x *client) {
	c, life := s.c, s.life
	if x.busy {
		return
	}
	x.busy = true
	if x.address.IsValid() {
		s.leaves(x)
		s.call(&ipam.FreeRequest{Pool: x.subnet.String(), ID: x.name}, func(ipam.Reply, bool) { x.busy = false })
		return
	}
	x.subnet = one(c.rnd, c.w.Subnets...)
	q := &ipam.ClientRequest{Pool: x.subnet.String(), ID: x.name}
	if c.chance(c.w.Claims) {
		q.Address = c.claimed(x.subnet, c.wanted(x.subnet))
	}
	s.call(q, func(r ipam.Reply, ok bool) {
		x.busy = false
		if ok && r.Err == nil && s.life == life {
			x.address = r.Address.Address.Addr()
			c.count["client"]++
			c.oracle.uses(s, x.address, x.name)
		}
	})
}

// leaves notes that a client uses its address no more.
func (s *site) leaves(x *client) {
	if x.address.IsValid() {
		s.c.oracle.leaves(s, x.address, x.name)
		x.address = netip.Addr{}
	}
}

// forgetClients ends the holders outside Docker, and gateways that are on no interface: nobody but the plugin's database knows them.
func (s *site) forgetClients() {
	s.forgetGateways()
	for _, x := range s.engine.clients {
		s.leaves(x)
	}
	s.bereave()
}

// forgetGateways ends the gateways that are on no interface.
func (s *site) forgetGateways() {
	for _, n := range s.engine.networks {
		if !n.bridge {
			n.gateway = netip.Addr{}
		}
	}
}

// rename has two containers change their names, whether they run or not.
func (e *engine) rename() {
	rnd := e.s.c.rnd
	x, y := one(rnd, e.containers...), one(rnd, e.containers...)
	// Who has the name of a holder that no list has shown yet is believed to be that.
	known := func(x *container) bool { return !x.busy && (!x.running || x.told) }
	if x == y || !known(x) || !known(y) || !e.s.cfg.AwaitInventory {
		return
	}
	x.name, y.name = y.name, x.name
	x.names, y.names = append(x.names, x.name), append(y.names, y.name)
}

// wasNamed reports whether what the oracle calls so has, or had, that name.
func (c *cluster) wasNamed(user, name string) bool {
	user = strings.TrimSuffix(user, secondEnd)
	for _, s := range c.sites {
		for _, x := range s.engine.containers {
			if x.id == user {
				return slices.Contains(x.names, name)
			}
		}
	}
	return user == name
}
