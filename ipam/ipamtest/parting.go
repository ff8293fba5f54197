package ipamtest

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// partings are how the engines of some schedules let go of endpoints. An engine takes an
// endpoint off its store first, and so off its lists, has the network driver take it down,
// which may last, and then releases the address: once, but to a process that is away
// again and again for 15 seconds. It keeps nobody from asking for the address meanwhile, on
// the same network either, and later ones (29) keep nobody from removing the network. Like
// [habits] they have their own source of randomness. Chances are in ten thousandths.
type partings struct {
	rnd     *rand.Rand
	lists   *rand.Rand    // how long lists of networks take
	slow    int           // of endpoints that go, those whose network driver takes its time
	most    time.Duration // that it takes
	wanted  int           // of endpoints that go so, those whose address somebody else claims meanwhile
	wants   int           // of other claims, those of an address that waits for its release
	loops   int           // of containers that end, those that are started again at once, with the address that they had
	old     int           // of hosts, those with an engine before 29
	going   []parting
	ongoing bool // schedules have them at all
}

// parting is an endpoint that is on no list any more, and whose address has yet to be released.
type parting struct {
	site    *site
	network *network
	address netip.Addr
}

func drawPartings(seed uint64) partings {
	h := partings{rnd: rand.New(rand.NewPCG(seed, 0x9a271)), lists: rand.New(rand.NewPCG(seed, 0x1157))}
	if h.rnd.IntN(3) == 0 {
		h.ongoing = true
		h.slow, h.most = one(h.rnd, 1000, 5000, 10_000), one(h.rnd, 3*time.Second, 25*time.Second, 25*time.Second, 90*time.Second)
		h.wanted, h.wants = one(h.rnd, 0, 3000, 9000), one(h.rnd, 0, 2000, 8000)
		h.loops, h.old = one(h.rnd, 0, 2000, 6000), one(h.rnd, 0, 5000, 10_000)
	}
	return h
}

func (h *partings) chance(n int) bool { return n > 0 && h.rnd.IntN(10_000) < n }

func (h *partings) between(from, to time.Duration) time.Duration {
	return from + time.Duration(h.rnd.Int64N(int64(to-from)))
}

// part has the address of an endpoint released that is on no list any more.
func (e *engine) part(end endpoint, done func()) {
	c, h := e.s.c, &e.s.c.partings
	release := func() {
		e.ask(&ipam.AddressRelease{Network: end.network.Network, Address: end.address}, func(ipam.Reply, bool) { done() })
	}
	if c.calm || !h.chance(h.slow) {
		release()
		return
	}
	c.count["parting"]++
	p := parting{e.s, end.network, end.address}
	h.going = append(h.going, p)
	life, starts := e.life, e.starts
	takes := h.between(0, h.most)
	if h.chance(h.wanted) {
		e.contend(p, h.between(0, takes+time.Second))
	}
	c.after(takes, func() {
		if i := slices.Index(h.going, p); i >= 0 {
			h.going = slices.Delete(h.going, i, i+1)
		}
		switch {
		case e.life != life:
		case e.starts != starts: // the engine that would have released it is no more
			c.count["never released"]++
			done()
		default:
			if u := c.oracle.use[c.addrs[p.address]]; u.site != 0 {
				c.count["released above another"]++
			}
			release()
		}
	})
}

// contend has another container start with the address, once the engine may have listed that
// nobody has it, and before or after its release comes.
func (e *engine) contend(p parting, in time.Duration) {
	c, h, life := e.s.c, &e.s.c.partings, e.life
	e.after(in/2, e.look)
	c.after(in, func() {
		x := one(h.rnd, e.containers...)
		if e.life != life || c.calm || e.starting || x.busy || x.running || !e.runs(p.network) {
			return
		}
		c.count["contended"]++
		e.runWith(x, p.network, h.mac(e.s, x), p.address)
	})
}

// runs reports whether containers can be started on the network.
func (e *engine) runs(n *network) bool {
	return n.ready && slices.Contains(e.networks, n) && e.trying[n.ID()] == 0
}

func (h *partings) mac(s *site, x *container) ipam.MAC {
	if s.c.habits.fixed > 0 && h.rnd.IntN(2) == 0 {
		return fixedMAC(s, x)
	}
	return ipam.MAC{2, byte(s.index), byte(h.rnd.Uint32()), byte(h.rnd.Uint32()), byte(h.rnd.Uint32()), 3}
}

// runWith starts a container with --ip.
func (e *engine) runWith(x *container, n *network, mac ipam.MAC, a netip.Addr) {
	x.busy = true
	x.join(n, mac, x.id)
	q := e.requestOf(x, 0, a)
	e.obtain(x, 0, q, 1)
}

// loop has a container that has ended start again at once with the address that it had, as
// one with --restart and --ip does, and end soon after that.
func (e *engine) loop(x *container, end endpoint) {
	c, h := e.s.c, &e.s.c.partings
	if c.calm || !h.chance(h.loops) {
		return
	}
	e.after(h.between(50*time.Millisecond, 500*time.Millisecond), func() {
		if c.calm || e.starting || x.busy || x.running || !e.runs(end.network) {
			return
		}
		c.count["restarted"]++
		mac := end.mac
		if mac != fixedMAC(e.s, x) {
			mac = h.mac(e.s, x)
		}
		e.runWith(x, end.network, mac, end.address)
		e.after(h.between(time.Second, 10*time.Second), func() {
			if x.running && !x.busy && !e.starting {
				e.stop(x)
			}
		})
	})
}

// claimed returns what somebody claims who would have claimed a: now and then an address
// that waits for its release.
func (c *cluster) claimed(pool netip.Prefix, a netip.Addr) netip.Addr {
	h := &c.partings
	if len(h.going) == 0 || c.calm || !h.chance(h.wants) {
		return a
	}
	if p := one(h.rnd, h.going...); pool.Contains(p.address) {
		c.count["claimed before its release"]++
		return p.address
	}
	return a
}

// doubted has the process of a host look at what the engine has, since its peer doubts a holder.
func (s *site) doubted() {
	if h := &s.c.partings; h.ongoing {
		s.c.after(h.between(0, 2*time.Second), s.engine.look)
	}
}
