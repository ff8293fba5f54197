package ipamtest

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// container is one that is, or is not, running.
type container struct {
	id      string // by which the oracle knows it
	name    string
	names   []string   // that it has, or had
	ends    []endpoint // while it starts, runs or stops
	running bool
	busy    bool // it starts or stops, or the engine starts under it
	shown   bool // in inventories
	told    bool // an inventory has shown it
	runs    int
}

// endpoint is a container's part of a network.
type endpoint struct {
	network *network
	mac     ipam.MAC
	user    string     // what the oracle calls the container there
	address netip.Addr // valid: it has one
}

// habits are what users of some schedules do beyond containers with one address
// each on networks without options. They have their own source of randomness, so
// that the other schedules stay what they were. Chances are in ten thousandths.
type habits struct {
	rnd      *rand.Rand
	second   int  // of containers that start, those on two networks
	fixed    int  // of them, those whose MAC is set by hand
	options  int  // of networks, those with a name for their pool, or that stick to MACs
	partial  int  // of lists, those that are not complete
	replayed bool // an engine that starts under its containers asks for their addresses again
	blind    int  // of such starts, those in which the process gives up waiting for lists
	deprived int  // of hosts, those where the plugin has no socket of the engine
	retries  bool // an engine that finds no process tries again, for 15 seconds
}

func drawHabits(seed uint64) habits {
	h := habits{rnd: rand.New(rand.NewPCG(seed, 0x4ab175))}
	if h.rnd.IntN(3) == 0 {
		h.second, h.fixed, h.options = one(h.rnd, 0, 1000, 5000), one(h.rnd, 0, 3000), one(h.rnd, 0, 0, 3000)
		h.partial, h.replayed = one(h.rnd, 0, 0, 2000), h.rnd.IntN(3) > 0
		if h.fixed == 0 { // without lists who has a MAC is believed to be who had it
			h.blind, h.deprived = one(h.rnd, 0, 5000), one(h.rnd, 0, 0, 3000)
		}
		h.retries = h.rnd.IntN(2) == 0
	}
	return h
}

func (h *habits) chance(n int) bool { return h.rnd.IntN(10_000) < n }

// decorate gives some networks options.
func (h *habits) decorate(q *ipam.PoolRequest) {
	if !h.chance(h.options) {
		return
	}
	q.PoolName = one(h.rnd, "", "lab", "dmz")
	q.Sticky = one(h.rnd, ipam.StickyName, ipam.StickyMAC, ipam.StickyNone)
}

// cut takes some of what a list has out of it.
func (h *habits) cut(inv *ipam.Inventory) {
	if !h.chance(h.partial) {
		return
	}
	inv.Partial = true
	inv.Networks = slices.DeleteFunc(inv.Networks, func(ipam.InventoryNetwork) bool { return h.rnd.IntN(2) == 0 })
	for i := range inv.Networks {
		n := &inv.Networks[i]
		n.Endpoints = slices.DeleteFunc(n.Endpoints, func(ipam.InventoryEndpoint) bool { return h.rnd.IntN(4) == 0 })
	}
}

// secondEnd ends what the oracle calls a container on its second network, so
// that the two never have one address.
const secondEnd = "'"

// holderOf returns the container that the oracle calls so.
func holderOf(user string) string { return strings.TrimSuffix(user, secondEnd) }

// run starts a container.
func (e *engine) run(x *container) {
	c, h := e.s.c, &e.s.c.habits
	n := one(c.rnd, e.networks...)
	if !n.ready || e.trying[n.ID()] > 0 {
		return
	}
	drawn := func() ipam.MAC {
		return ipam.MAC{2, byte(e.s.index), byte(c.rnd.Uint32()), byte(c.rnd.Uint32()), byte(c.rnd.Uint32()), 1}
	}
	if h.chance(h.fixed) {
		drawn = func() ipam.MAC { return fixedMAC(e.s, x) }
	}
	x.busy = true
	x.join(n, drawn(), x.id)
	if m := one(h.rnd, e.networks...); h.chance(h.second) && m != n && m.ready && e.trying[m.ID()] == 0 {
		x.join(m, drawn(), x.id+secondEnd)
	}
	q := e.request(x, 0)
	e.obtain(x, 0, q, 1+c.rnd.IntN(3))
}

// fixedMAC is the MAC that some containers, more than one of a host, are given by hand.
func fixedMAC(s *site, x *container) ipam.MAC {
	return ipam.MAC{2, byte(s.index), x.id[len(x.id)-1], 0, 0, 2}
}

func (x *container) join(n *network, mac ipam.MAC, user string) {
	n.users++
	x.ends = append(x.ends, endpoint{network: n, mac: mac, user: user})
}

// request is what the engine asks for an endpoint.
func (e *engine) request(x *container, k int) *ipam.AddressRequest {
	return e.requestOf(x, k, netip.Addr{})
}

func (e *engine) requestOf(x *container, k int, a netip.Addr) *ipam.AddressRequest {
	c, end := e.s.c, &x.ends[k]
	q := &ipam.AddressRequest{Network: end.network.Network, Purpose: ipam.ForContainer, Name: x.name, MAC: end.mac}
	if c.chance(1000) && !c.customs.bare || e.old {
		q.Name = "" // an engine before 29
	}
	if c.chance(c.w.Claims) {
		q.Address = c.wanted(end.network.Pool)
	}
	q.Address = c.claimed(end.network.Pool, q.Address)
	if a.IsValid() {
		q.Address = a
	}
	if c.customs.bare {
		q.MAC = ipam.MAC{}
		if e.nameless() {
			q.Name = ""
		}
		if q.Name == "" {
			q.Address = netip.Addr{} // containers with --ip are not supported there (R30)
		}
	}
	return q
}

// nameless reports whether the engine is one from before 29, where all of them give no MACs.
func (e *engine) nameless() bool { return e.s.index%3 != 2 }

// obtain asks for the address of an endpoint, and again if the plugin dies over
// it; then for those that follow.
func (e *engine) obtain(x *container, k int, q *ipam.AddressRequest, tries int) {
	c := e.s.c
	e.ask(q, func(r ipam.Reply, ok bool) {
		switch {
		case !ok && tries > 1:
			e.after(c.about(time.Second), func() { e.obtain(x, k, q, tries-1) })
		case !ok || r.Err != nil:
			e.fail(x)
			if ok && c.rnd.IntN(8) == 0 {
				e.look() // of a start that fails the engine may not release all
			}
		case !c.calm && c.chance(c.w.Deaf):
			if t := r.Address.Ticket; !t.IsZero() {
				e.s.call(&ipam.Withdrawal{Ticket: t}, nil)
			}
			e.fail(x)
		case !c.calm && !r.Address.Ticket.IsZero() && c.chance(c.w.Stranger):
			c.count["stranger"]++
			found := &ipam.Stranger{Ticket: r.Address.Ticket, MAC: ipam.MAC{0x0a, 1}}
			e.ask(found, func(ipam.Reply, bool) { e.obtain(x, k, q, tries) })
		default:
			x.ends[k].address = r.Address.Address.Addr()
			c.count["container"]++
			c.oracle.uses(e.s, x.ends[k].address, x.ends[k].user)
			if k > 0 {
				c.count["second address"]++
			}
			if k++; k < len(x.ends) {
				e.obtain(x, k, e.request(x, k), 1)
				return
			}
			x.busy, x.running = false, true
			x.runs++
			run := x.runs
			c.after(c.between(0, c.w.Lag), func() { x.shown = x.shown || x.runs == run && x.running })
		}
	})
}

// fail ends a start. Engines release what it has got until then, or forget to.
func (e *engine) fail(x *container) {
	for _, end := range e.ended(x) {
		if e.s.c.habits.rnd.IntN(2) == 0 {
			e.s.call(&ipam.AddressRelease{Network: end.network.Network, Address: end.address}, nil)
		}
	}
	e.off(x)
}

// ended notes that a container does not use its addresses any more, and returns
// the endpoints that had one.
func (e *engine) ended(x *container) (had []endpoint) {
	for i := range x.ends {
		if end := &x.ends[i]; end.address.IsValid() {
			had = append(had, *end)
			e.s.c.oracle.leaves(e.s, end.address, end.user)
			end.address = netip.Addr{}
		}
	}
	x.running, x.shown, x.told = false, false, false
	return had
}

// off notes that a container does not run.
func (e *engine) off(x *container) {
	e.leave(x)
	x.busy = false
}

// leave notes that a container is on no network.
func (e *engine) leave(x *container) {
	for _, end := range x.ends {
		end.network.users--
	}
	x.ends = nil
}

// stop stops a container. Its addresses are not used from here on; whether the
// plugin hears of that is another matter.
func (e *engine) stop(x *container) {
	x.busy = true
	had := e.ended(x)
	if e.s.c.partings.ongoing && !e.old {
		e.leave(x) // later engines do not count what is on a network
	}
	e.release(x, had)
	if len(had) == 1 {
		e.loop(x, had[0])
	}
}

func (e *engine) release(x *container, had []endpoint) {
	if len(had) == 0 {
		e.off(x)
		return
	}
	e.part(had[0], func() { e.release(x, had[1:]) })
}

// restart has the engine start anew under its containers. It may answer nothing
// for so long that the process waits for no list of it. One that starts has no
// network in the making: what it asks for then it had before.
func (e *engine) restart() {
	c := e.s.c
	if slices.ContainsFunc(e.networks, func(n *network) bool { return !n.ready }) {
		return
	}
	if c.customs.bare && e.asking() || c.customs.orderly && e.bringsAgain() {
		return // what it asks for would end with it
	}
	e.starts++
	if c.customs.orderly {
		if !e.starting {
			e.startInOrder()
		}
		return
	}
	if !c.habits.chance(c.habits.blind) || e.starting {
		e.replay()
		return
	}
	e.starting, e.unlisted = true, e.lists
	e.s.call(&ipam.Blindness{}, nil)
	e.replay()
	e.after(c.between(0, 20*time.Second), func() {
		e.starting = false
		e.look()
	})
}

// asking reports whether the engine waits for an answer about a container or a network.
func (e *engine) asking() bool {
	return e.bringsAgain() || slices.ContainsFunc(e.containers, func(x *container) bool { return x.busy })
}

// bringsAgain reports whether the engine is about to bring a call once more that found no process.
func (e *engine) bringsAgain() bool {
	for _, n := range e.trying {
		if n > 0 {
			return true
		}
	}
	return false
}

// replayEnd asks for the address of an endpoint again, as an engine does that
// starts under its containers, and for those that follow. Whatever it is told,
// the container keeps what it has.
// Then it goes on with next.
func (e *engine) replayEnd(x *container, k int, next func()) {
	if k == len(x.ends) {
		x.busy = false
		next()
		return
	}
	e.replayOne(x, k, func() { e.replayEnd(x, k+1, next) })
}

// replayOne is replayEnd for one address of a container.
func (e *engine) replayOne(x *container, k int, next func()) {
	c, end := e.s.c, x.ends[k]
	q := &ipam.AddressRequest{Network: end.network.Network, Purpose: ipam.ForUnmarked, Address: end.address}
	e.ask(q, func(r ipam.Reply, ok bool) {
		if got := r.Address.Address.Addr(); ok && r.Err == nil && got != end.address {
			c.fail("I1", "%s answers %v to the replay of %v, which %s has", e.s, got, end.address, x.name)
		}
		c.count["replayed address"]++
		if r.Err != nil {
			c.count["replay refused"]++
		}
		next()
	})
}
