package announce

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

const (
	// Rate is how many packets a second are sent in the long run, and how many at once at most. Everybody on the LAN gets each
	// of them: 100 frames are 50 kbit/s on the wire, of which no switch takes notice. An engine starts a few dozen containers
	// a second at most; should it start 200 at once, all are announced within a second.
	Rate = 100

	// While the kernel of this host goes by an old MAC the container is asked often at first, as it comes up, and again
	// later, until the kernel has found out by itself. An answer counts if the kernel's entry is a second old (arp(7), locktime).
	often   = 200 * time.Millisecond
	early   = 3 * time.Second
	again   = time.Second
	settled = time.Minute
	// patience is how long a start may wait for a list that has its endpoint. There is one each minute.
	patience = 3 * time.Minute
	// spare is how many addresses are remembered beside those that the engine lists.
	spare = 4096
)

// offsets returns when announcements go out, counted from the first.
func offsets() []time.Duration {
	return []time.Duration{0, 500 * time.Millisecond, 1500 * time.Millisecond}
}

// A sighting is what an address had at a time.
type sighting struct {
	mac MAC // zero: not known yet
	at  time.Time
}

// A task is a start that is being announced.
type task struct {
	Packet           // with the next turn
	first  time.Time // when the first announcement was sent
	due    time.Time // of the next announcement; not after the last
	look   time.Time // when to look after the host; zero: it is well
}

// turns is how many announcements there are for a start.
const turns = 3

// next returns what the task has due next, and when.
func (t *task) next() (Packet, time.Time) {
	out := t.Packet
	if out.Announce = t.Turn < turns; out.Announce && (t.look.IsZero() || !t.look.Before(t.due)) {
		return out, t.due
	}
	out.Announce = false
	return out, t.look
}

// Packet is something to be sent now.
type Packet struct {
	Address  netip.Addr
	MAC      MAC
	Link     Link
	Turn     int  // how many announcements of this start were sent
	Announce bool // this is another; else only the host itself is looked after
}

// A plan knows what is to be sent when. It is not safe for concurrent use. Times come in the order in which they are.
type plan struct {
	count func(result string)

	networks []Network                  // of the last list, or of one that was kept
	seen     map[string]bool            // networks that a list has had
	asked    map[netip.Prefix]time.Time // subnets for which a network was made since
	known    map[netip.Addr]sighting    // what addresses had last
	waiting  map[netip.Addr]sighting    // what was granted, and whose link is not known yet
	tasks    map[netip.Addr]*task
	busy     time.Time // until then the rate is used up, but for what may be sent at once
}

func newPlan(kept []Network, count func(result string)) *plan {
	return &plan{
		count: count, networks: kept, seen: map[string]bool{}, asked: map[netip.Prefix]time.Time{},
		known: map[netip.Addr]sighting{}, waiting: map[netip.Addr]sighting{}, tasks: map[netip.Addr]*task{},
	}
}

// granted takes in that a container that starts has an address, with a MAC unless that is zero.
func (p *plan) granted(now time.Time, a netip.Addr, mac MAC) {
	delete(p.waiting, a)
	if k, ok := p.known[a]; ok && k.mac == mac && mac != (MAC{}) {
		p.known[a] = sighting{mac, now} // a fixed MAC, or the same request once more
		return
	}
	delete(p.known, a)
	delete(p.tasks, a) // that was an earlier start
	if link, ok := p.linkOf(a); ok && mac != (MAC{}) {
		p.start(now, a, mac, link)
		return
	}
	p.waiting[a] = sighting{mac, now}
}

// linkOf returns where the neighbours of an address are, false if that is not certain.
func (p *plan) linkOf(a netip.Addr) (Link, bool) {
	for s := range p.asked {
		if s.Contains(a) {
			return Link{}, false
		}
	}
	var found Link
	n := 0
	for i := range p.networks {
		if of := &p.networks[i]; of.has(a) {
			if n++; n > 1 && of.Link != found {
				return Link{}, false
			}
			found = of.Link
		}
	}
	return found, n > 0
}

// start has a start announced, from now on.
func (p *plan) start(now time.Time, a netip.Addr, mac MAC, link Link) {
	p.known[a] = sighting{mac, now}
	delete(p.waiting, a)
	if link.Kind == NoLink {
		p.count(Unreachable)
		return
	}
	p.tasks[a] = &task{Packet: Packet{Address: a, MAC: mac, Link: link}, due: now}
}

// made takes in that a network is being made on a subnet: until a list has it, which of its networks an address is of is not
// certain.
func (p *plan) made(now time.Time, subnet netip.Prefix) { p.asked[subnet] = now }

// forget takes in that addresses are, or were, somebody else's: what they had last is not known.
func (p *plan) forget(first, last netip.Addr) {
	maps.DeleteFunc(p.known, func(a netip.Addr, _ sighting) bool { return first.Compare(a) <= 0 && a.Compare(last) <= 0 })
}

// listed takes in what the engine has, and reports whether its networks are others than before.
func (p *plan) listed(now time.Time, l List) (changed bool) {
	listed := map[netip.Addr]bool{}
	for i := range l.Networks {
		n := &l.Networks[i]
		first := !p.seen[n.ID]
		p.seen[n.ID] = true
		for _, e := range n.Endpoints {
			listed[e.Address] = true
			if e.MAC != (MAC{}) {
				p.endpoint(now, l.Begun, n, e, first)
			}
		}
	}
	maps.DeleteFunc(p.waiting, func(_ netip.Addr, s sighting) bool { return now.Sub(s.at) > patience })
	if !l.Complete {
		return false
	}
	maps.DeleteFunc(p.asked, func(_ netip.Prefix, at time.Time) bool { return at.Before(l.Begun) })
	maps.DeleteFunc(p.seen, func(id string, _ bool) bool {
		return !slices.ContainsFunc(l.Networks, func(n Network) bool { return n.ID == id })
	})
	if len(p.known) > len(listed)+spare {
		maps.DeleteFunc(p.known, func(a netip.Addr, s sighting) bool { return !listed[a] && s.at.Before(l.Begun) })
	}
	changed = !slices.EqualFunc(p.networks, l.Networks, func(a, b Network) bool {
		return a.ID == b.ID && a.Link == b.Link && slices.Equal(a.Subnets, b.Subnets)
	})
	p.networks = slices.Clone(l.Networks)
	for i := range p.networks {
		p.networks[i].Endpoints = nil // there may be many, and they are not needed any more
	}
	return changed
}

// endpoint takes in one endpoint of a list, of a network that no list has had before if first.
func (p *plan) endpoint(now, begun time.Time, n *Network, e Endpoint, first bool) {
	w, waits := p.waiting[e.Address]
	k, known := p.known[e.Address]
	switch {
	case waits && !w.at.Before(begun) || known && !k.at.Before(begun):
		// What is known is newer.
	case known && k.mac == e.MAC || first && !waits:
		p.known[e.Address] = sighting{e.MAC, now}
	default:
		p.start(now, e.Address, e.MAC, n.Link)
	}
}

// next returns what is to be sent now, false if nothing is. Whoever sends it then calls sent, or drop. First announcements
// come before others, then what has waited longest.
func (p *plan) next(now time.Time) (best Packet, ok bool) {
	if now.Before(p.free()) {
		return Packet{}, false
	}
	var since time.Time
	for _, t := range p.tasks {
		what, due := t.next()
		if due.After(now) {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(min(what.Turn, 1), min(best.Turn, 1)), due.Compare(since), what.Address.Compare(best.Address)) < 0 {
			best, since, ok = what, due, true
		}
	}
	return best, ok
}

// free returns from when on the rate allows another packet.
func (p *plan) free() time.Time { return p.busy.Add(-time.Second) }

// wait returns when next may have something, false if nothing is planned.
func (p *plan) wait() (at time.Time, ok bool) {
	for _, t := range p.tasks {
		if _, due := t.next(); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	if free := p.free(); ok && free.After(at) {
		at = free
	}
	return at, ok
}

// sent takes in that what next returned was sent, as packets, and whether the host itself goes by another MAC still.
func (p *plan) sent(now time.Time, what Packet, packets int, stale bool) {
	for range packets {
		if p.busy.Before(now) {
			p.busy = now
		}
		p.busy = p.busy.Add(time.Second / Rate)
	}
	t := p.tasks[what.Address]
	if t == nil || t.MAC != what.MAC || t.Turn != what.Turn {
		return // it has started again since
	}
	if what.Announce {
		if t.Turn == 0 {
			t.first = now
		}
		if t.Turn++; t.Turn < turns {
			t.due = t.first.Add(offsets()[t.Turn])
		}
	}
	switch age := now.Sub(t.first); {
	case !stale || age >= settled:
		t.look = time.Time{}
	case age < early:
		t.look = now.Add(often)
	default:
		t.look = now.Add(again)
	}
	if t.Turn == turns && t.look.IsZero() {
		delete(p.tasks, what.Address)
	}
}

// drop forgets a start: the address is no longer held with that MAC.
func (p *plan) drop(what Packet) {
	if t := p.tasks[what.Address]; t != nil && t.MAC == what.MAC && t.Turn == what.Turn {
		delete(p.tasks, what.Address)
	}
}
