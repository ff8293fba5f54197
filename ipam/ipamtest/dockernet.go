package ipamtest

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// create makes a network: a pool, then a gateway, then auxiliary addresses. If
// one of them fails, all that it got is given back.
func (e *engine) create() {
	c := e.s.c
	e.made++
	n := &network{
		name:   fmt.Sprintf("%s-net%d", e.s, e.made),
		bridge: c.rnd.IntN(2) == 0,
		request: ipam.PoolRequest{
			Space: ipam.Local, Pool: one(c.rnd, c.w.Subnets...),
			Gateway: one(c.rnd, ipam.GatewayHost, ipam.GatewayHost, ipam.GatewayFirst, ipam.GatewayLast, ipam.GatewayNone),
		},
	}
	if c.w.Chooses && c.rnd.IntN(3) == 0 {
		n.request.Pool = netip.Prefix{}
	} else if pool := n.request.Pool; (c.w.Lockers > 0 || c.rnd.IntN(5) == 0) && pool.Bits()+1 < pool.Addr().BitLen() {
		n.request.Range = netip.PrefixFrom(pool.Addr(), pool.Bits()+1)
	}
	if h := &c.absences; h.chance(h.laden) {
		n.request.Gateway = one(h.rnd, ipam.GatewayHost, ipam.GatewayNone) // which keeps nothing back
	}
	c.habits.decorate(&n.request)
	e.makeNetwork(n)
}

// makeNetwork asks for what a network needs.
func (e *engine) makeNetwork(n *network) {
	c := e.s.c
	like := func(m *network) bool { return m.request == n.request }
	if !e.s.cfg.AwaitInventory && (slices.ContainsFunc(e.networks, like) || slices.ContainsFunc(e.parting, like)) {
		return // nobody could tell it from a replay of the other (docs/limits.md)
	}
	if pool := n.request.Pool; pool.IsValid() && e.lists == e.unlisted && c.oracle.state.PoolOf(pool) == nil && len(c.oracle.state.Overlapping(pool)) > 0 {
		return // nor whether an engine that has just started, and has answered nothing yet, has it (docs/limits.md)
	}
	e.networks = append(e.networks, n)
	q := n.request
	e.ask(&q, func(r ipam.Reply, ok bool) {
		switch {
		case !ok || r.Err != nil:
			e.drop(n)
			if !ok && c.customs.chance(c.customs.repeats) {
				c.count["made once more"]++
				e.after(c.about(5*time.Second), func() { e.repeat(n) })
			}
		default:
			n.Network = r.Pool.Network
			n.request.Pool = n.Pool
			if n.typed = r.Pool.Gateway.Addr(); n.typed.IsValid() {
				c.oracle.keeps(n, n.typed)
			}
			if r.Pool.Gateway.IsValid() || n.request.Gateway != ipam.GatewayHost {
				e.addAuxiliary(n)
				return
			}
			e.addGateway(n)
		}
	})
}

// repeat has a user make a network that could not be made, with the same options.
func (e *engine) repeat(n *network) {
	if !e.s.c.calm {
		e.made++
		e.makeNetwork(&network{name: fmt.Sprintf("%s-net%d", e.s, e.made), bridge: n.bridge, request: n.request})
	}
}

// drop forgets a network.
func (e *engine) drop(n *network) {
	e.networks = slices.DeleteFunc(e.networks, func(m *network) bool { return m == n })
}

// addGateway asks for a gateway: the host's own, or one that was typed.
func (e *engine) addGateway(n *network) {
	c := e.s.c
	q := &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForGateway}
	if c.rnd.IntN(6) == 0 {
		q.Address = c.wanted(n.Pool)
	}
	if q.Address == e.s.own() {
		q.Address = netip.Addr{} // no bridge gets it beside the interface that has it
	}
	e.ask(q, func(r ipam.Reply, ok bool) {
		switch {
		case !ok || r.Err != nil:
			e.giveBack(n)
		case q.Address.IsValid():
			n.typed, n.asks = q.Address, true
			if c.oracle.taken(e, n) {
				c.count["granted before it is reserved"]++
				n.givenUp = true
			}
			c.oracle.keeps(n, n.typed)
			e.addAuxiliary(n)
		default:
			e.useGateway(n, r.Address.Address.Addr())
			e.addAuxiliary(n)
		}
	})
}

// taken reports whether a network was taken for one that an engine has which starts, by a peer with a new database: what it keeps back
// is reserved when the engine has listed it.
func (o *oracle) taken(e *engine, n *network) bool {
	return e.s.cfg.AwaitInventory && e.lists == e.unlisted && e.s.isNew() && !o.c.keepsBack(n.Pool, n.typed)
}

// gatewayUse begins the name of a gateway as the user of an address.
const gatewayUse = "gateway of "

func (n *network) gatewayUser() string { return gatewayUse + n.Pool.String() }

// useGateway notes that a network has its gateway. Those on one pool share
// theirs. Only a bridge has it on an interface, where it can be seen after the
// database was lost.
func (e *engine) useGateway(n *network, a netip.Addr) {
	n.gateway = a
	if n.bridge {
		e.s.c.oracle.uses(e.s, a, n.gatewayUser())
	}
}

// reservation returns the reservation of an address as far as the host's peer knows, or nil.
func (s *site) reservation(pool netip.Prefix, a netip.Addr) *chronicle.Reservation {
	if s.machine == nil {
		return nil
	}
	return reservationIn(s.machine.State(), pool, a)
}

// reservationIn returns the reservation of an address, or nil.
func reservationIn(state *chronicle.State, pool netip.Prefix, a netip.Addr) *chronicle.Reservation {
	p := state.PoolOf(pool)
	o, ok := addr.OffsetOf(pool, a)
	if !ok || p == nil {
		return nil
	}
	return p.ReservationAt(o)
}

// keepsBack reports whether an address is reserved for networks by the last slot that anybody knows.
func (c *cluster) keepsBack(pool netip.Prefix, a netip.Addr) bool {
	r := reservationIn(c.oracle.state, pool, a)
	return r != nil && r.Kind.Shared()
}

// lose notes that the engine does not have a network any more, and that this uses no gateway and keeps nothing back.
func (e *engine) lose(n *network) {
	e.drop(n)
	e.leaveGateway(n)
	e.s.c.dropKept(n)
}

// dropKept notes that a network keeps nothing back any more.
func (c *cluster) dropKept(n *network) {
	for _, a := range n.keeps() {
		if !n.givenUp {
			c.oracle.kept[c.addrs[a]]--
		}
	}
}

// leaveGateway notes that a network that goes does not use its gateway any
// more.
func (e *engine) leaveGateway(n *network) {
	a := n.gateway
	n.gateway = netip.Addr{}
	if !a.IsValid() || !n.bridge || !e.s.c.oracle.isUsed(e.s, a) {
		return
	}
	if !slices.ContainsFunc(e.networks, func(m *network) bool { return m.bridge && m.gateway == a }) {
		e.s.c.oracle.leaves(e.s, a, n.gatewayUser())
	}
}

// addAuxiliary asks for an auxiliary address, if the network has one.
func (e *engine) addAuxiliary(n *network) {
	c := e.s.c
	if c.rnd.IntN(6) > 0 {
		e.build(n)
		return
	}
	a := c.wanted(n.Pool)
	q := &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForUnmarked, Address: a}
	e.ask(q, func(r ipam.Reply, ok bool) {
		switch {
		case !ok || r.Err != nil:
			e.giveBack(n)
		default:
			// One that is held may have been taken for the replay of an endpoint, also where it is kept for the holder's name.
			if r := e.s.reservation(n.Pool, a); r != nil && r.Kind != chronicle.KindKeptForName {
				n.aux = append(n.aux, a)
				c.oracle.keeps(n, a)
			}
			e.build(n)
		}
	})
}

// build has the network driver make a network that has got all that it asked for. The engine lists it once it is made.
func (e *engine) build(n *network) {
	h := &e.s.c.partings
	if !h.ongoing || h.lists.IntN(4) > 0 {
		n.ready = true
		return
	}
	e.s.c.count["network takes long to make"]++
	e.after(time.Duration(h.lists.Int64N(int64(5*time.Second))), func() { n.ready = n.ready || e.knows(n) })
}

// remove removes a network that no container is on: not while the engine starts, which answers nobody then. The networks of a host that
// was installed again are all that it knows of its cluster; so it is, also while its
// process is away, with the one that is about to begin a lost cluster.
func (e *engine) remove(n *network) {
	if n.ready && n.users == 0 && !e.starting && !e.s.orphaned() && e.s != e.s.c.beginner {
		e.giveBack(n)
	}
}

// giveBack releases all that a network has.
func (e *engine) giveBack(n *network) {
	gateway := n.gateway
	if !gateway.IsValid() {
		gateway = n.typed
	}
	e.lose(n)
	if gateway.IsValid() {
		e.s.call(&ipam.AddressRelease{Network: n.Network, Address: gateway}, nil)
	}
	for _, a := range n.aux {
		e.s.call(&ipam.AddressRelease{Network: n.Network, Address: a}, nil)
	}
	e.parting = append(e.parting, n)
	e.s.call(&ipam.PoolRelease{Network: n.Network}, func(ipam.Reply, bool) {
		e.parting = slices.DeleteFunc(e.parting, func(m *network) bool { return m == n })
	})
}

// tryAgain has a call that found no process brought once more after a while, as engines do after
// 1, 2, 4 and 8 seconds. It reports whether it is one that they make.
func (e *engine) tryAgain(r ipam.Request, done func(ipam.Reply, bool), wait time.Duration) bool {
	s, life := e.s, e.life
	var of ipam.PoolID
	switch q := r.(type) {
	case *ipam.PoolRequest:
	case *ipam.PoolRelease:
		of = q.Network.ID()
	case *ipam.AddressRequest:
		of = q.Network.ID()
	case *ipam.AddressRelease:
		if of = q.Network.ID(); s.c.partings.ongoing {
			of = "" // that locks nothing
		}
	default:
		return false
	}
	e.trying[of]++
	s.c.after(wait, func() {
		e.trying[of]--
		switch {
		case e.life != life:
		case s.machine != nil:
			s.c.count["brought late"]++
			s.call(r, done)
		case wait < 8*time.Second:
			e.tryAgain(r, done, 2*wait)
		case done != nil:
			done(ipam.Reply{}, false)
		}
	})
	return true
}

// served returns what sees to it that a network which the host has, and on which are containers,
// is granted what it had when the engine asks for that again: engines before 29 do not survive an error.
func (e *engine) served(n *network) func(ipam.Reply, bool) {
	s := e.s
	if s.machine == nil || n.users == 0 {
		return nil
	}
	id := n.ID()
	if !slices.ContainsFunc(s.machine.Status(s.clock()).Networks, func(had ipam.NetStatus) bool { return had.ID == id }) {
		return nil
	}
	s.c.count["asked again below containers"]++
	return func(r ipam.Reply, ok bool) {
		if ok && r.Err != nil {
			s.c.fail("replay", "%s is refused what its network %s has: %v", s, id, r.Err)
		}
	}
}

// replay asks again for everything that the engine has, as it does when it
// starts.
func (e *engine) replay() {
	e.s.call(&ipam.Greeting{}, nil)
	for _, n := range e.networks {
		if !n.ready {
			continue
		}
		q := n.request
		e.s.call(&q, e.served(n))
		if n.gateway.IsValid() {
			e.s.call(&ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForGateway, Address: n.gateway}, e.served(n))
		}
		for _, a := range n.aux {
			e.s.call(&ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForUnmarked, Address: a}, e.served(n))
		}
	}
	for _, x := range e.containers {
		if e.s.c.habits.replayed && x.running && !x.busy {
			x.busy = true
			e.replayEnd(x, 0, func() {})
		}
	}
}
