package ipamtest

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// engine is what dockerd does on one host, for the users of users.go: it asks the plugin for what networks and containers need,
// tells it what has ended, and lists what there is. It goes on with what it has while the plugin is away.
type engine struct {
	s          *site
	life       uint64 // of the host
	networks   []*network
	parting    []*network // of which the plugin has yet to be told that they are gone
	containers []*container
	clients    []*client
	made       int    // networks
	looking    uint64 // life of the process that makes an inventory
	starting   bool   // it replays what it has, and does nothing else
	lists      int    // that it has given
	unlisted   int    // those that it had given when it, or the process, last started
	left       []parting
	starts     int           // of it, under its containers
	old        bool          // it is one before 29
	trying     []ipam.PoolID // the networks of calls that are tried again: they are locked meanwhile
	silent     *network      // answers nothing, see hang
	hangs      time.Duration // until when
}

// network is a docker network.
type network struct {
	name    string
	request ipam.PoolRequest
	ipam.Network
	bridge  bool       // the gateway is on an interface of the host
	gateway netip.Addr // this host's own
	typed   netip.Addr // --gateway, or the one that came with the pool
	asks    bool       // it is --gateway
	aux     []netip.Addr
	ready   bool // it is made
	givenUp bool // its host was, and what it keeps back is not kept back again
	users   int  // containers on it, or about to be
}

// after has something happen in a while, unless the host has lost its power by then.
func (e *engine) after(d time.Duration, run func()) {
	lives := e.living()
	e.s.c.after(d, func() {
		if lives() {
			run()
		}
	})
}

// living returns what tells whether the host has had power all the while since now.
func (e *engine) living() func() bool {
	life := e.life
	return func() bool { return e.life == life }
}

// do has the engine do something that takes time. It ends with the host's power.
func (e *engine) do(run func(t *script)) { e.s.c.script(e.living(), run) }

// boot begins the engine's work.
func (e *engine) boot() {
	e.life++
	e.starting = false
	switch {
	case e.s.c.w.Orderly:
		e.startInOrder()
	case len(e.networks) > 0:
		e.replay()
	}
	e.after(e.s.c.about(e.s.c.w.Pace), e.act)
}

// powerOff ends all containers without a word. Networks stay, and with them the gateways.
func (e *engine) powerOff() {
	e.life++
	for _, x := range e.containers {
		for _, end := range e.ended(x) {
			if e.s.c.w.Orderly && end.network.ready {
				e.left = append(e.left, parting{end.network, end.address})
			}
		}
		e.off(x)
	}
	for _, n := range slices.Clone(e.networks) {
		if !n.ready {
			e.lose(n)
		}
	}
}

// destroyed forgets everything: the host is no more.
func (e *engine) destroyed() {
	for _, n := range slices.Clone(e.networks) {
		e.lose(n)
	}
	e.left = nil
	e.s.forgetClients()
}

// knows reports whether the engine has a network, or makes it.
func (e *engine) knows(n *network) bool { return slices.Contains(e.networks, n) }

// runs reports whether containers can be started on the network.
func (e *engine) runs(n *network) bool {
	return n.ready && e.knows(n) && !slices.Contains(e.trying, n.ID())
}

// unready reports whether a network is in the making.
func (e *engine) unready() bool {
	return slices.ContainsFunc(e.networks, func(n *network) bool { return !n.ready })
}

// hasNetwork reports whether the engine has a network that is made.
func (e *engine) hasNetwork() bool {
	return slices.ContainsFunc(e.networks, func(n *network) bool { return n.ready })
}

// asking reports whether the engine waits for an answer about a container or a network.
func (e *engine) asking() bool {
	return len(e.trying) > 0 || slices.ContainsFunc(e.containers, func(x *container) bool { return x.busy })
}

// tryAgain has a call that found no process brought once more after a while, as engines do after 1, 2, 4 and 8 seconds. It reports
// whether it is one that they make.
func (e *engine) tryAgain(r ipam.Request, done func(ipam.Reply, bool), wait time.Duration) bool {
	s, lives := e.s, e.living()
	var of ipam.PoolID
	switch q := r.(type) {
	case *ipam.PoolRequest:
	case *ipam.PoolRelease:
		of = q.Network.ID()
	case *ipam.AddressRequest:
		of = q.Network.ID()
	case *ipam.AddressRelease:
		if of = q.Network.ID(); s.c.w.Modern {
			of = "" // that locks nothing
		}
	default:
		return false
	}
	e.trying = append(e.trying, of)
	s.c.after(wait, func() {
		i := slices.Index(e.trying, of)
		e.trying = slices.Delete(e.trying, i, i+1)
		switch {
		case !lives():
		case s.machine != nil:
			s.call(r, done)
		case wait < 8*time.Second:
			e.tryAgain(r, done, 2*wait)
		case done != nil:
			done(ipam.Reply{}, false)
		}
	})
	return true
}

// makeNetwork asks for what a network needs: a pool, then a gateway, then auxiliary addresses. If one of them fails, the engine
// gives back all that it got.
func (e *engine) makeNetwork(n *network) {
	c := e.s.c
	like := func(m *network) bool { return m.request == n.request }
	if !e.s.cfg.AwaitInventory && (slices.ContainsFunc(e.networks, like) || slices.ContainsFunc(e.parting, like)) {
		return // nobody could tell it from a replay of the other (docs/limits.md)
	}
	pool, state := n.request.Pool, c.oracle.state
	if pool.IsValid() && e.lists == e.unlisted && state.PoolOf(pool) == nil && len(state.Overlapping(pool)) > 0 {
		return // nor whether an engine that has just started, and has answered nothing yet, has it (docs/limits.md)
	}
	e.networks = append(e.networks, n)
	e.do(func(t *script) {
		q := n.request
		r, ok := t.ask(e.s, &q)
		if !ok || r.Err != nil {
			e.drop(n)
			if !ok && c.chance(c.w.Remade) {
				e.after(c.about(5*time.Second), func() {
					if !c.calm {
						e.makeNetwork(&network{name: e.newName(), bridge: n.bridge, request: n.request})
					}
				})
			}
			return
		}
		n.Network = r.Pool.Network
		n.request.Pool = n.Pool
		if n.typed = r.Pool.Gateway.Addr(); n.typed.IsValid() {
			c.oracle.keeps(n, n.typed)
		}
		if !r.Pool.Gateway.IsValid() && n.request.Gateway == ipam.GatewayHost && !e.addGateway(t, n) || !e.addAuxiliary(t, n) {
			e.giveBack(n)
			return
		}
		// Now the network driver makes it. The engine lists it once it is made.
		if c.w.Modern && c.rnd.IntN(4) == 0 {
			t.sleep(c.between(0, 5*time.Second))
		}
		n.ready = n.ready || e.knows(n)
	})
}

// addGateway asks for a gateway: the host's own, or one that was typed.
func (e *engine) addGateway(t *script, n *network) bool {
	c := e.s.c
	q := &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForGateway}
	if c.rnd.IntN(6) == 0 {
		q.Address = c.wanted(n.Pool)
	}
	if q.Address == e.s.own() {
		q.Address = netip.Addr{} // no bridge gets it beside the interface that has it
	}
	r, ok := t.ask(e.s, q)
	switch {
	case !ok || r.Err != nil:
		return false
	case q.Address.IsValid():
		n.typed, n.asks = q.Address, true
		if c.oracle.taken(e, n) {
			n.givenUp = true
		}
		c.oracle.keeps(n, n.typed)
	default:
		// Networks on one pool share their gateway. Only a bridge has it on an interface, where it can be seen after the database
		// was lost.
		if n.gateway = r.Address.Address.Addr(); n.bridge {
			c.oracle.uses(e.s, n.gateway, n.gatewayUser())
		}
	}
	return true
}

// addAuxiliary asks for an auxiliary address, if the network has one.
func (e *engine) addAuxiliary(t *script, n *network) bool {
	c := e.s.c
	if c.rnd.IntN(6) > 0 {
		return true
	}
	a := c.wanted(n.Pool)
	if r, ok := t.ask(e.s, n.unmarked(a)); !ok || r.Err != nil {
		return false
	}
	// One that is held may have been taken for the replay of an endpoint, also where it is kept for the holder's name.
	if e.s.machine != nil {
		if r := reservationIn(e.s.machine.State(), n.Pool, a); r != nil && r.Kind != chronicle.KindKeptForName {
			n.aux = append(n.aux, a)
			c.oracle.keeps(n, a)
		}
	}
	return true
}

// unmarked is a request for an address that says nothing of what it is for.
func (n *network) unmarked(a netip.Addr) *ipam.AddressRequest {
	return &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForUnmarked, Address: a}
}

// release is what the engine says when something ends that had an address on the network.
func (n *network) release(a netip.Addr) *ipam.AddressRelease {
	return &ipam.AddressRelease{Network: n.Network, Address: a}
}

// drop forgets a network.
func (e *engine) drop(n *network) {
	e.networks = slices.DeleteFunc(e.networks, func(m *network) bool { return m == n })
}

// lose notes that the engine does not have a network any more, and that this uses no gateway and keeps nothing back.
func (e *engine) lose(n *network) {
	e.drop(n)
	e.leaveGateway(n)
	e.s.c.oracle.drops(n)
}

// leaveGateway notes that a network that goes does not use its gateway any more.
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

// giveBack releases all that a network has.
func (e *engine) giveBack(n *network) {
	gateway := cmp.Or(n.gateway, n.typed)
	e.lose(n)
	if gateway.IsValid() {
		e.s.call(n.release(gateway), nil)
	}
	for _, a := range n.aux {
		e.s.call(n.release(a), nil)
	}
	e.parting = append(e.parting, n)
	e.s.call(&ipam.PoolRelease{Network: n.Network}, func(ipam.Reply, bool) {
		e.parting = slices.DeleteFunc(e.parting, func(m *network) bool { return m == n })
	})
}
