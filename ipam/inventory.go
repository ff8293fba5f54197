package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/space"
)

// takeInventory compares what is held with what the engine says that it has.
//
// An endpoint's address that is not held is taken in at once: it is in use. A
// held address that no endpoint has is freed only when it is older than the
// grace and two inventories, at least the grace apart, lack it: between the
// grant and the endpoint's appearance lies the start of a container. The first
// that lacks it makes another useful, and the answer says when.
func (m *Machine) takeInventory(inv *Inventory) (again time.Duration) {
	if inv.Begun.Before(m.inventory) {
		return 0 // late
	}
	m.inventory = inv.Begun
	clear(m.conflicts)
	listed := map[netip.Prefix]int{}
	for _, n := range inv.Networks {
		for _, s := range n.Subnets {
			listed[s.Masked()]++
		}
	}
	sight := map[*pool]map[addr.Offset]struct{}{}
	for _, n := range inv.Networks {
		for _, e := range n.Endpoints {
			m.sightEndpoint(n, e, sight)
		}
	}
	m.awaiting = time.Time{}
	for _, p := range m.sortedPools() {
		m.sightHost(p)
		p.seen = sight[p]
		if m.sightMissing(p, inv.Begun) {
			again = m.cfg.Grace
		}
		if m.sightNetworks(p, listed[p.CIDR], inv.Begun) {
			again = m.cfg.Grace
		}
	}
	return again
}

// sightEndpoint takes note of one endpoint that the engine has.
func (m *Machine) sightEndpoint(n InventoryNetwork, e InventoryEndpoint, sight map[*pool]map[addr.Offset]struct{}) {
	for _, s := range n.Subnets {
		if !s.Contains(e.Address) {
			continue
		}
		p, err := m.joinPool(s.Masked(), poolSpec{})
		if err != nil {
			m.conflicts[conflict{}] = err.Error()
			continue
		}
		o, ok := addr.OffsetOf(p.CIDR, e.Address)
		if !ok {
			continue
		}
		if sight[p] == nil {
			sight[p] = map[addr.Offset]struct{}{}
		}
		sight[p][o] = struct{}{}
		m.sightAddress(p, o, e)
		return
	}
}

// sightAddress makes an endpoint hold its address, or learns who holds it.
func (m *Machine) sightAddress(p *pool, o addr.Offset, e InventoryEndpoint) {
	h := space.Holder{Kind: space.Container, Name: known(e.Name), Ref: known(e.Container), MAC: e.MAC}
	delete(p.missing, o)
	if rec := p.space.Lookup(o); rec.State == space.Held {
		switch {
		case rec.Kind != space.Container && rec.Kind != space.Unmarked:
			m.conflict(p, o, h, "is held by "+m.holderText(rec.Holder, rec.Since))
		case h.Ref != "":
			if h.Key = rec.Key; h.Key == nameKey(rec.Name) {
				h.Key = nameKey(h.Name) // it may have been renamed
			}
			if rec.Holder != h {
				rec, _ = p.space.Describe(o, h)
				m.saveHolding(p, o, &rec)
			}
		}
		return
	}
	if r := p.ReservationAt(o); r != nil {
		if r.Kind != chronicle.KindAuxiliary || r.Range.Size() != 1 {
			m.conflict(p, o, h, "is reserved as "+r.Kind.String())
			return
		}
		// It was taken for an auxiliary address when the engine replayed it to
		// a new database.
		m.decide(chronicle.Unreserve{Pool: p.Key, Range: r.Range, Kind: r.Kind})
	}
	if !p.space.Mine(o) && !m.open(p, addr.One(o), 1) {
		m.conflict(p, o, h, "belongs to another peer")
		return
	}
	if _, err := m.take(p, o, h); err != nil {
		m.conflict(p, o, h, "cannot be taken in: "+err.Error())
		return
	}
	m.note(Note{Kind: NoteAdopted, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(h, m.now.UnixNano())})
}

// conflict notes an endpoint that has an address which is not its to have.
func (m *Machine) conflict(p *pool, o addr.Offset, h space.Holder, why string) {
	k := conflict{p.Key, o}
	if _, known := m.conflicts[k]; known {
		return
	}
	m.conflicts[k] = addr.Nth(p.CIDR, o).String() + " in " + poolText(p.Pool) + " is used by " + m.holderText(h, m.now.UnixNano()) + ", but " + why
	m.note(Note{Kind: NoteConflict, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.conflicts[k]})
}

// sightMissing looks for held addresses that no endpoint has, and reports
// whether there are some that must be looked for again.
func (m *Machine) sightMissing(p *pool, begun time.Time) (again bool) {
	var free []addr.Offset
	for o, rec := range p.held() {
		if rec.Kind != space.Container && rec.Kind != space.Unmarked {
			continue
		}
		if _, here := p.seen[o]; here {
			continue
		}
		since := time.Unix(0, rec.Since)
		if begun.Before(since.Add(m.cfg.Grace)) {
			again = true // too young to tell
			continue
		}
		first, known := p.missing[o]
		switch {
		case !known:
			p.miss(o, begun)
			m.note(Note{Kind: NoteLeakFound, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since)})
			again = true
		case begun.Sub(first) < m.cfg.Grace:
			again = true
		default:
			free = append(free, o)
		}
	}
	slices.Sort(free)
	for _, o := range free {
		rec := p.space.Lookup(o)
		m.freeHolding(p, o)
		m.note(Note{Kind: NoteLeakMended, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since)})
	}
	if len(free) > 0 {
		m.settleEmptied(p)
	}
	return again
}

// sightNetworks compares how many networks the engine has on a pool with how
// many it has asked for. Networks that it lacks twice, the grace apart, were
// removed while nobody listened.
func (m *Machine) sightNetworks(p *pool, listed int, begun time.Time) (again bool) {
	p.listed = listed
	for _, id := range m.sortedNetworks() {
		n := m.networks[id]
		if n.Pool != p.CIDR {
			continue
		}
		switch {
		case listed > 0:
			n.missing = time.Time{}
		case n.missing.IsZero():
			n.missing = begun
			again = true
		case begun.Sub(n.missing) < m.cfg.Grace:
			again = true
		default:
			delete(m.networks, id)
			n.count = 0
			m.saveNetwork(n)
			m.note(Note{Kind: NoteNetworkGone, Pool: p.CIDR})
		}
	}
	if m.pools[p.Key] != nil && !again {
		m.settle(p)
	}
	return again
}
