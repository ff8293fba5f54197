package ipamtest

import (
	"net/netip"
	"slices"
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

// request is what the engine asks for an endpoint. A valid address is that of --ip.
func (e *engine) request(x *container, k int, a netip.Addr) *ipam.AddressRequest {
	c, end := e.s.c, &x.ends[k]
	q := &ipam.AddressRequest{Network: end.network.Network, Purpose: ipam.ForContainer, Name: x.name, MAC: end.mac}
	if c.chance(1000) && !c.w.Bare || e.old {
		q.Name = "" // an engine before 29
	}
	if c.chance(c.w.Claims) {
		q.Address = c.wanted(end.network.Pool)
	}
	q.Address = c.claimed(end.network.Pool, q.Address)
	if a.IsValid() {
		q.Address = a
	}
	if c.w.Bare {
		q.MAC = ipam.MAC{}
		if e.s.index%3 != 2 {
			q.Name = "" // such engines are from before 29
		}
		if q.Name == "" {
			q.Address = netip.Addr{} // containers with --ip are not supported there (R30)
		}
	}
	return q
}

// start asks for the addresses of a container, one endpoint after the other, and again if the plugin dies over the first.
func (e *engine) start(x *container, q *ipam.AddressRequest, tries int) {
	c := e.s.c
	e.do(func(t *script) {
		for k := 0; k < len(x.ends); {
			r, ok := t.ask(e.s, q)
			ticket := r.Address.Ticket
			switch {
			case !ok && tries > 1:
				t.sleep(c.about(time.Second))
				tries--
			case !ok || r.Err != nil:
				e.fail(x)
				if ok && c.rnd.IntN(8) == 0 {
					e.look() // of a start that fails the engine may not release all
				}
				return
			case !c.calm && c.chance(c.w.Deaf):
				if !ticket.IsZero() {
					e.s.call(&ipam.Withdrawal{Ticket: ticket}, nil)
				}
				e.fail(x)
				return
			case !c.calm && !ticket.IsZero() && c.chance(c.w.Stranger):
				c.count["stranger"]++
				t.ask(e.s, &ipam.Stranger{Ticket: ticket, MAC: ipam.MAC{0x0a, 1}})
			default:
				x.ends[k].address = r.Address.Address.Addr()
				c.count["container"]++
				c.oracle.uses(e.s, x.ends[k].address, x.ends[k].user)
				if k++; k < len(x.ends) {
					q, tries = e.request(x, k, netip.Addr{}), 1
				}
			}
		}
		x.busy, x.running = false, true
		x.runs++
		run := x.runs
		c.after(c.between(0, c.w.Lag), func() { x.shown = x.shown || x.runs == run && x.running })
	})
}

// fail ends a start. Engines release what it has got until then, or forget to.
func (e *engine) fail(x *container) {
	for _, end := range e.ended(x) {
		if e.s.c.rnd.IntN(2) == 0 {
			e.s.call(end.network.release(end.address), nil)
		}
	}
	e.off(x)
}

// ended notes that a container does not use its addresses any more, and returns the endpoints that had one.
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

// stop stops a container. Its addresses are not used from here on; whether the plugin hears of that is another matter.
func (e *engine) stop(x *container) {
	x.busy = true
	had := e.ended(x)
	if e.s.c.w.Modern && !e.old {
		e.leave(x) // later engines do not count what is on a network
	}
	e.do(func(t *script) {
		for _, end := range had {
			e.part(t, end)
		}
		e.off(x)
	})
	if len(had) == 1 {
		e.loop(x, had[0])
	}
}

// parting is an endpoint that is on no list any more, and whose address has yet to be released.
type parting struct {
	network *network
	address netip.Addr
}

// part releases the address of an endpoint that is on no list any more. An engine takes an endpoint off its store first, and so off
// its lists, has the network driver take it down, which may last, and then releases the address: once, but to a process that is
// away again and again for 15 seconds. In the meantime anybody may ask for the address.
func (e *engine) part(t *script, end endpoint) {
	c := e.s.c
	if !c.calm && c.chance(c.w.Slowly) {
		starts := e.starts
		if e.linger(t, parting{end.network, end.address}); e.starts != starts {
			return // the engine that would have released it is no more
		}
	}
	t.ask(e.s, end.network.release(end.address))
}

// linger has an endpoint go that takes its time, and its address wait for its release.
func (e *engine) linger(t *script, p parting) {
	c := e.s.c
	c.going = append(c.going, p)
	defer func() {
		i := slices.Index(c.going, p)
		c.going = slices.Delete(c.going, i, i+1)
	}()
	takes := c.between(0, c.w.Takedown)
	if c.chance(c.w.Contended) {
		e.contend(p, c.between(0, takes+time.Second))
	}
	t.sleep(takes)
}
