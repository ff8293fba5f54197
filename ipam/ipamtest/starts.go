package ipamtest

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// How engines start: they ask again for what they have, one thing after the other or all at once, and answer nobody in the
// meantime. Some start containers, or make networks, before they answer.

// restart has the engine start under its containers. It may answer nothing for so long that the process waits for no list of it.
// One that starts has no network in the making: what it asks for then it had before.
func (e *engine) restart() {
	c := e.s.c
	if e.unready() || c.w.Bare && e.asking() || c.w.Orderly && len(e.trying) > 0 {
		return // what it asks for would end with it
	}
	e.starts++
	if c.w.Orderly {
		if !e.starting {
			e.startInOrder()
		}
		return
	}
	if !c.chance(c.w.Blind) || e.starting {
		e.replay()
		return
	}
	e.starting, e.unlisted = true, e.lists
	e.s.hearNothing()
	e.replay()
	e.after(c.between(0, 20*time.Second), func() {
		e.starting = false
		e.look()
	})
}

// replay asks for everything that the engine has, at once.
func (e *engine) replay() {
	e.s.call(&ipam.Greeting{}, nil)
	for _, n := range e.networks {
		for _, q := range n.again(n.gateway) {
			e.s.call(q, e.served(n))
		}
	}
	for _, x := range e.containers {
		if e.s.c.w.Replayed && x.running && !x.busy {
			x.busy = true
			e.replayContainer(x)
		}
	}
}

// again are the requests for a network that the engine has: for its pool, its gateway, if that is valid, and auxiliary addresses.
func (n *network) again(gateway netip.Addr) []ipam.Request {
	q := n.request
	calls := []ipam.Request{&q}
	if gateway.IsValid() {
		calls = append(calls, &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForGateway, Address: gateway})
	}
	for _, a := range n.aux {
		calls = append(calls, n.unmarked(a))
	}
	return calls
}

// replayContainer asks for the addresses of a running container again.
func (e *engine) replayContainer(x *container) {
	e.do(func(t *script) {
		for k := range x.ends {
			e.replayEndpoint(t, x, k)
		}
		x.busy = false
	})
}

// replayEndpoint asks for the address of an endpoint again. Whatever the plugin answers, the container keeps what it has.
func (e *engine) replayEndpoint(t *script, x *container, k int) {
	c, end := e.s.c, x.ends[k]
	r, ok := t.ask(e.s, end.network.unmarked(end.address))
	if got := r.Address.Address.Addr(); ok && r.Err == nil && got != end.address {
		c.fail("I1", "%s answers %v to the replay of %v, which %s has", e.s, got, end.address, x.name)
	}
	c.count["replayed address"]++
}

// served returns what sees to it that a network which the host has, and on which are containers, is granted what it had when the
// engine asks for that again: engines before 29 do not survive an error. One that has listed in the meantime answers, and so was
// granted all, or does not start.
func (e *engine) served(n *network) func(ipam.Reply, bool) {
	s, id, lists := e.s, n.ID(), e.lists
	has := func(net ipam.NetStatus) bool { return net.ID == id }
	if s.machine == nil || n.users == 0 || !slices.ContainsFunc(s.machine.Status(s.clock()).Networks, has) {
		return nil
	}
	s.c.count["asked again below containers"]++
	return func(r ipam.Reply, ok bool) {
		if ok && r.Err != nil && e.lists == lists {
			s.c.fail("replay", "%s is refused what its network %s has: %v", s, id, r.Err)
		}
	}
}

// startInOrder has the engine ask again for what it has, one thing after the other, and then do something else.
func (e *engine) startInOrder() {
	c := e.s.c
	e.starting, e.unlisted = true, e.lists
	e.s.call(&ipam.Greeting{}, nil)
	e.after(c.between(0, 3*time.Second), func() {
		if e.starting && e.s.cfg.AwaitInventory {
			e.s.hearNothing() // it takes connections, and answers none
		}
	})
	steps := append(e.stepsOfStart(), e.beforeAnswers()...)
	e.do(func(t *script) {
		for _, step := range steps {
			e.disturb()
			step(t)
		}
		e.disturb()
		e.starting = false
		c.count["started in order"]++
		if c.w.Bare { // at once would be the moment of its start, if it has nothing to ask for
			e.after(time.Millisecond+c.between(0, c.w.Late), e.look)
		}
	})
}

// stepsOfStart are the steps of an engine that starts which are about what it has.
func (e *engine) stepsOfStart() (steps []func(*script)) {
	c := e.s.c
	var running []*container
	for _, x := range e.containers {
		if x.running && !x.busy {
			x.busy = true
			running = append(running, x)
		}
	}
	for _, n := range e.networks {
		steps = append(steps, func(t *script) { e.askAgain(t, n) })
		for _, x := range running {
			for k := range x.ends {
				if c.w.Bare && x.ends[k].network == n && x.ends[k].address.IsValid() { // it asks for those with the network
					steps = append(steps, func(t *script) { e.replayEndpoint(t, x, k) })
				}
			}
		}
	}
	if c.w.Bare {
		steps = append(steps, func(*script) {
			for _, x := range running {
				x.busy = false
			}
		})
	} else {
		for _, x := range running {
			steps = append(steps, func(*script) { e.replayContainer(x) })
		}
	}
	left := e.left
	e.left = nil
	for _, l := range left {
		steps = append(steps, func(t *script) { t.ask(e.s, l.network.unmarked(l.address)) })
	}
	for _, l := range left {
		steps = append(steps, func(t *script) { t.ask(e.s, l.network.release(l.address)) })
	}
	return steps
}

// disturb has the process end, or a client act, between two steps of a start.
func (e *engine) disturb() {
	c := e.s.c
	if !c.w.Bare || c.calm {
		return
	}
	if c.chance(c.w.Breaks) && e.s.machine != nil && e.s.mayCrash() {
		e.s.kill()
		c.after(c.between(0, 2*time.Second), e.s.start)
	}
	if len(e.clients) > 0 && c.chance(c.w.Scripts) {
		e.s.turnClient(one(c.rnd, e.clients...))
	}
}

// askAgain asks for a network that there is. If the plugin refuses something of it the engine gives its pool back, and has the
// network all the same.
func (e *engine) askAgain(t *script, n *network) {
	c, gateway := e.s.c, n.gateway
	if !gateway.IsValid() && n.asks {
		gateway = n.typed
	}
	for k, q := range n.again(gateway) {
		var check func(ipam.Reply, bool)
		if k == 0 {
			check = e.served(n)
		}
		if r, ok := t.askChecked(e.s, q, check); !ok || r.Err != nil {
			// Without lists a process that starts then would believe that the network is gone (docs/limits.md).
			if k > 0 && (ok || e.s.cfg.AwaitInventory) {
				t.ask(e.s, &ipam.PoolRelease{Network: n.Network})
			}
			return
		}
	}
	if e.s.cfg.AwaitInventory && c.chance(c.w.Undone) { // its other subnet was refused; without a list, see above
		if g := n.gateway; g.IsValid() {
			e.s.call(n.release(g), nil)
		}
		t.ask(e.s, &ipam.PoolRelease{Network: n.Network})
	}
}

// beforeAnswers are the steps of an engine that starts which are not about what it has: networks of a swarm's agent, and containers
// with a restart policy.
func (e *engine) beforeAnswers() (steps []func(*script)) {
	c := e.s.c
	if c.calm {
		return nil
	}
	if c.chance(c.w.Swarm) && c.isUnited() {
		steps = append(steps, e.makeEarly)
	}
	if c.chance(c.w.Early) {
		for range 1 + c.rnd.IntN(5) {
			steps = append(steps, e.restartOne)
		}
	}
	return steps
}

// restartOne has an engine that starts start a container, with --ip or without.
func (e *engine) restartOne(t *script) {
	c := e.s.c
	if len(e.networks) == 0 {
		return
	}
	x, n := one(c.rnd, e.containers...), one(c.rnd, e.networks...)
	if x.busy || x.running || !e.runs(n) {
		return
	}
	var a netip.Addr
	switch c.rnd.IntN(4) {
	case 0:
		a = addr.Nth(n.Pool, addr.Offset(c.rnd.IntN(int(addr.Size(n.Pool)))))
	case 1:
		if had := e.has(n.Pool); len(had) > 0 {
			a = one(c.rnd, had...)
		}
	}
	c.count["early typed"]++
	e.runWith(x, n, e.s.drawnMAC(), a)
	t.until(func() bool { return !x.busy })
}

// makeEarly has an engine that starts make a network that it does not have.
func (e *engine) makeEarly(t *script) {
	if len(e.networks) >= most {
		return
	}
	e.s.c.count["made while it starts"]++
	at := len(e.networks)
	if e.create(); len(e.networks) > at {
		n := e.networks[at]
		t.until(func() bool { return n.ready || !e.knows(n) })
	}
}

// has returns what containers and networks of the host have of a pool, and the host itself, as far as its process can know.
func (e *engine) has(pool netip.Prefix) (had []netip.Addr) {
	for _, y := range e.containers {
		for _, end := range y.ends {
			had = append(had, end.address)
		}
	}
	for _, m := range e.networks {
		had = append(append(had, m.typed), m.aux...)
	}
	if e.s.toldOwn() && !e.s.isNew() {
		had = append(had, e.s.own())
	}
	return slices.DeleteFunc(had, func(a netip.Addr) bool { return !a.IsValid() || !pool.Contains(a) })
}

// isNew reports whether the host's database is new: no list has been taken in since, or others have yet to list.
func (s *site) isNew() bool {
	_, marked := s.disk[machinetest.Key("identity", "unlisted")]
	return marked
}
