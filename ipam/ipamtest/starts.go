package ipamtest

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// How engines start: they ask for one thing after the other, answer nobody meanwhile, and may start containers before they do.

// leftover is an endpoint that a host had when it lost power, as its engine knows.
type leftover struct {
	network *network
	address netip.Addr
}

// startInOrder has the engine ask again for what it has, one thing after the other,
// and then do something else. It answers nobody meanwhile.
func (e *engine) startInOrder() {
	c, life := e.s.c, e.life
	e.starting, e.unlisted = true, e.lists
	e.s.call(&ipam.Greeting{}, nil)
	e.after(time.Duration(c.customs.rnd.Int64N(int64(3*time.Second))), func() {
		if e.starting && e.s.cfg.AwaitInventory {
			c.count["blind"]++
			e.s.call(&ipam.Blindness{}, nil) // it takes connections, and answers none
		}
	})
	var steps []func(next func())
	var under []*container
	for _, x := range e.containers {
		if c.customs.bare && x.running && !x.busy {
			x.busy = true
			under = append(under, x)
		}
	}
	for _, n := range e.networks {
		if n.ready {
			steps = append(steps, func(next func()) { e.askAgain(n, next) })
			for _, x := range under {
				for k := range x.ends {
					if x.ends[k].network == n && x.ends[k].address.IsValid() {
						steps = append(steps, func(next func()) { e.replayOne(x, k, next) })
					}
				}
			}
		}
	}
	steps = append(steps, func(next func()) {
		for _, x := range under {
			x.busy = false
		}
		next()
	})
	for _, x := range e.containers {
		if x.running && !x.busy {
			x.busy = true
			steps = append(steps, func(next func()) {
				e.replayEnd(x, 0, func() {})
				next()
			})
		}
	}
	left := e.left
	e.left = nil
	for _, l := range left {
		steps = append(steps, func(next func()) {
			q := &ipam.AddressRequest{Network: l.network.Network, Purpose: ipam.ForUnmarked, Address: l.address}
			e.s.call(q, func(ipam.Reply, bool) { next() })
		})
	}
	for _, l := range left {
		steps = append(steps, func(next func()) {
			c.count["left over"]++
			e.s.call(&ipam.AddressRelease{Network: l.network.Network, Address: l.address}, func(ipam.Reply, bool) { next() })
		})
	}
	steps = append(steps, e.beforeAnswers()...)
	var goOn func()
	goOn = func() {
		if h := &c.customs; e.life == life && h.bare && !c.calm {
			if h.chance(h.breaks) && e.s.machine != nil && e.s.mayCrash() {
				c.count["ended below a start"]++
				e.s.kill()
				e.s.c.after(time.Duration(h.rnd.Int64N(int64(2*time.Second))), e.s.start)
			}
			if len(e.clients) > 0 && h.chance(h.scripts) {
				e.turnClient(one(h.rnd, e.clients...))
			}
		}
		switch {
		case e.life != life:
		case len(steps) == 0:
			e.starting = false
			c.count["started in order"]++
			if h := &c.customs; h.bare {
				late := time.Millisecond // at once would be the moment of its start, if it has nothing to ask for
				if h.late > 0 {
					late += time.Duration(h.rnd.Int64N(int64(h.late)))
				}
				e.after(late, e.look)
			}
		default:
			step := steps[0]
			steps = steps[1:]
			step(goOn)
		}
	}
	goOn()
}

// askAgain asks for a network that there is. If something of it is refused the engine
// gives its pool back, and has the network all the same.
func (e *engine) askAgain(n *network, next func()) {
	c, life := e.s.c, e.life
	var calls []ipam.Request
	q := n.request
	calls = append(calls, &q)
	switch {
	case n.gateway.IsValid():
		calls = append(calls, &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForGateway, Address: n.gateway})
	case n.typed.IsValid() && n.asks:
		calls = append(calls, &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForGateway, Address: n.typed})
	}
	for _, a := range n.aux {
		calls = append(calls, &ipam.AddressRequest{Network: n.Network, Purpose: ipam.ForUnmarked, Address: a})
	}
	var ask func(k int)
	ask = func(k int) {
		served := func(ipam.Reply, bool) {}
		if check := e.served(n); k == 0 && check != nil {
			served = check
		}
		e.s.call(calls[k], func(r ipam.Reply, ok bool) {
			served(r, ok)
			switch failed := !ok || r.Err != nil; {
			case e.life != life:
			case failed && k == 0:
				next()
			case !ok && !e.s.cfg.AwaitInventory:
				next() // else the process that starts would believe that the network is gone: nobody lists it (docs/limits.md)
			case failed:
				c.count["taken back"]++
				e.s.call(&ipam.PoolRelease{Network: n.Network}, func(ipam.Reply, bool) { next() })
			case k+1 < len(calls):
				ask(k + 1)
			case c.customs.chance(c.customs.undone): // its other subnet was refused
				c.count["taken back"]++
				if g := n.gateway; g.IsValid() {
					e.s.call(&ipam.AddressRelease{Network: n.Network, Address: g}, nil)
				}
				e.s.call(&ipam.PoolRelease{Network: n.Network}, func(ipam.Reply, bool) { next() })
			default:
				next()
			}
		})
	}
	ask(0)
}

// isNew reports whether the host's database is new: no list has been taken in since, or others have yet to list.
func (s *site) isNew() bool {
	_, marked := s.disk["identity"+sep+"unlisted"]
	return marked
}

// has returns what containers and networks of the host have of a pool, and the host itself, as far as its process can know.
func (e *engine) has(pool netip.Prefix) (had []netip.Addr) {
	for _, y := range e.containers {
		for _, end := range y.ends {
			if end.address.IsValid() && pool.Contains(end.address) {
				had = append(had, end.address)
			}
		}
	}
	for _, m := range e.networks {
		for _, b := range append([]netip.Addr{m.typed}, m.aux...) {
			if b.IsValid() && pool.Contains(b) {
				had = append(had, b)
			}
		}
	}
	if own := e.s.own(); own.IsValid() && pool.Contains(own) && e.s.toldOwn() && !e.s.isNew() {
		had = append(had, own)
	}
	return had
}
