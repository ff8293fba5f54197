package ipamtest

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// customs are what engines, users and LANs of some schedules do beside what all do:
// containers of several hosts have one name, and are renamed; an engine that starts
// asks for one thing after the other, takes a network back of which something is
// refused, although it has that, and asks for what it had when its host lost power;
// a network that could not be made is made once more; and hosts get other addresses on
// their LAN. And where networks take no MAC, as those of ipvlan, engines before 29 ask for what
// containers need without options. Like [habits] they have their own source of randomness. Chances are in ten
// thousandths.
type customs struct {
	rnd     *rand.Rand
	shared  int           // of a host's containers, the first ones, those named like others' on all hosts
	renames int           // of what users do
	orderly bool          // engines start so
	damaged int           // of hosts that lose power, those that lose their database by that, where databases are lost at all
	undone  int           // of networks that are asked for again, those that are taken back for another reason
	repeats int           // of networks whose pool is not answered for, those that are made once more
	bare    bool          // engines give endpoints no MAC, and start so
	tells   int           // of requests that are unclear, those for which a list comes soon
	early   int           // of engines that start, those that start containers before they answer anybody
	breaks  int           // of their steps, those before which the process ends
	scripts int           // of their steps, those before which a client acts
	late    time.Duration // that lists come late after a start, at most
	roams   time.Duration // between two changes of a host's address on the LAN; 0: there are none
}

func drawCustoms(seed uint64) customs {
	h := customs{rnd: rand.New(rand.NewPCG(seed, 0xc057))}
	if h.rnd.IntN(3) == 0 {
		h.shared, h.renames = one(h.rnd, 0, 1, 2), one(h.rnd, 0, 200, 1000)
		h.orderly, h.undone = h.rnd.IntN(2) == 0, one(h.rnd, 0, 1000)
		h.damaged = one(h.rnd, 0, 5000)
		h.roams = one(h.rnd, 0, 20*time.Second, 2*time.Minute)
		h.repeats = one(h.rnd, 0, 8000)
	}
	// Drawn apart, so that the other schedules stay what they were.
	if rnd := rand.New(rand.NewPCG(seed, 0xba4e)); rnd.IntN(8) == 0 {
		h.goBare()
	}
	return h
}

// goBare has engines give endpoints no MAC. Each that starts then does so in order, as engines do: that
// it asks for all that it has before anything else is what tells these.
func (h *customs) goBare() {
	h.bare, h.orderly, h.undone = true, true, 0
	h.tells, h.early = one(h.rnd, 0, 5000, 10_000), one(h.rnd, 0, 5000, 10_000)
	h.breaks, h.scripts = one(h.rnd, 0, 0, 300, 2000), one(h.rnd, 0, 0, 2000)
	h.late = one(h.rnd, 0, 3*time.Second, 20*time.Second)
}

func (h *customs) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

// nameOf returns the name of a host's container.
func (h *customs) nameOf(s *site, i int) string {
	if i < h.shared {
		return fmt.Sprintf("service%d", i)
	}
	return fmt.Sprintf("%s%d", s, i)
}

// rename has two containers change their names, whether they run or not.
func (e *engine) rename() {
	rnd := e.s.c.customs.rnd
	x, y := one(rnd, e.containers...), one(rnd, e.containers...)
	// Who has the name of a holder that no list has shown yet is believed to be that.
	known := func(x *container) bool { return !x.busy && (!x.running || x.told) }
	if x == y || !known(x) || !known(y) || !e.s.cfg.AwaitInventory {
		return
	}
	x.name, y.name = y.name, x.name
	x.names, y.names = append(x.names, x.name), append(y.names, y.name)
	e.s.c.count["renamed"]++
}

// tell takes note of the containers that a list has shown.
func (e *engine) tell(inv *ipam.Inventory) {
	for _, n := range inv.Networks {
		for _, end := range n.Endpoints {
			for _, x := range e.containers {
				x.told = x.told || x.running && end.Container == "id-"+x.id
			}
		}
	}
}

// wasNamed reports whether what the oracle calls so has, or had, that name.
func (c *cluster) wasNamed(user, name string) bool {
	user = holderOf(user)
	for _, s := range c.sites {
		for _, x := range s.engine.containers {
			if x.id == user {
				return slices.Contains(x.names, name)
			}
		}
	}
	return user == name
}

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
	c.after(time.Duration(c.customs.rnd.Int64N(int64(3*time.Second))), func() {
		if e.life == life && e.starting && e.s.cfg.AwaitInventory {
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
	if h := &c.customs; h.bare && h.chance(h.early) && !c.calm {
		for range 1 + h.rnd.IntN(5) {
			steps = append(steps, e.early)
		}
	}
	var goOn func()
	goOn = func() {
		if h := &c.customs; e.life == life && h.bare && !c.calm {
			if h.chance(h.breaks) && e.s.machine != nil && !c.unsettled() {
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
				var late time.Duration
				if h.late > 0 {
					late = time.Duration(h.rnd.Int64N(int64(h.late)))
				}
				c.after(late, func() { e.look(life) })
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

// roam gives hosts other addresses on their LAN, again and again: the one gets one that
// no other has.
func (c *cluster) roam() {
	if c.customs.roams == 0 || !c.lan.IsValid() {
		return
	}
	c.after(time.Duration(c.customs.rnd.ExpFloat64()*float64(c.customs.roams)), func() {
		if c.calm {
			return
		}
		c.roam()
		s, size := one(c.customs.rnd, c.sites...), 1<<(32-c.lan.Bits())
		at := size - 3 - c.customs.rnd.IntN(12)
		a := c.list[c.addrs[c.lan.Addr()]:][at]
		if slices.ContainsFunc(c.sites, func(t *site) bool { return t.own() == a }) || s.dead {
			return
		}
		if u := c.oracle.use[c.addrs[a]]; u.site != 0 {
			return // whoever is to get it looks whether somebody has it (RFC 2131, 4.4.1)
		}
		if s.machine == nil || s.hasGateway(a) {
			return // its peer keeps its gateway until its last network is gone, and the next one has it again
		}
		c.count["roamed"]++
		c.tracef("%s has %v on the LAN now, no more %v", s, a, s.own())
		s.lanAddr, s.roamed = a, c.now
	})
}

// isNew reports whether the host's database is new: no list has been taken in since, or others have yet to list.
func (s *site) isNew() bool {
	_, marked := s.disk["identity"+sep+"unlisted"]
	return marked
}

// early has an engine that starts start a container, with an address that somebody may have.
func (e *engine) early(next func()) {
	c, h, life := e.s.c, &e.s.c.customs, e.life
	x, n := one(h.rnd, e.containers...), (*network)(nil)
	if len(e.networks) > 0 {
		n = one(h.rnd, e.networks...)
	}
	if n == nil || x.busy || x.running || !e.runs(n) {
		next()
		return
	}
	size := 1 << (n.Pool.Addr().BitLen() - n.Pool.Bits())
	a := c.list[c.addrs[n.Pool.Addr()]:][h.rnd.IntN(size)]
	var had []netip.Addr
	for _, y := range e.containers {
		for _, end := range y.ends {
			if end.address.IsValid() && n.Pool.Contains(end.address) {
				had = append(had, end.address)
			}
		}
	}
	for _, m := range e.networks {
		for _, b := range append([]netip.Addr{m.typed}, m.aux...) {
			if b.IsValid() && n.Pool.Contains(b) {
				had = append(had, b)
			}
		}
	}
	if own := e.s.own(); own.IsValid() && n.Pool.Contains(own) && e.s.toldOwn() && !e.s.isNew() {
		had = append(had, own)
	}
	if len(had) > 0 && h.rnd.IntN(2) == 0 {
		a = one(h.rnd, had...)
	}
	// Above a new database what is kept for a name, or is the host's own, may be an endpoint's that asks again; of
	// what is reserved its peer may have yet to hear.
	if e.s.isNew() && (e.s.reserves(n.Pool, a) || e.s.c.reserves(n.Pool, a) || a == e.s.own()) {
		next()
		return
	}
	c.count["early"]++
	e.runWith(x, n, ipam.MAC{2, byte(e.s.index), byte(h.rnd.Uint32()), byte(h.rnd.Uint32()), byte(h.rnd.Uint32()), 4}, a)
	var wait func()
	wait = func() {
		switch {
		case e.life != life:
		case x.busy:
			c.after(10*time.Millisecond, wait)
		default:
			next()
		}
	}
	wait()
}
