package ipam

import (
	"maps"
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
//
// An inventory tells what was when it began. What was granted or released
// since is newer, and stands.
func (m *Machine) takeInventory(inv *Inventory) (again time.Duration) {
	if inv.Begun.Before(m.inventory) {
		return 0 // late
	}
	m.inventory = inv.Begun
	if inv.Begun.After(m.greeted) {
		m.replaying = false // the engine answers only when it has replayed all
	}
	clear(m.conflicts)
	s := sight{begun: inv.Begun, seen: map[*pool]map[addr.Offset]string{}, kept: map[*pool]map[addr.Offset]bool{}}
	m.listed = m.listed[:0]
	networks := map[netip.Prefix]int{}
	for _, n := range inv.Networks {
		for _, subnet := range n.Subnets {
			subnet = subnet.Masked()
			networks[subnet]++
			m.listed = append(m.listed, subnet)
			m.sightSubnet(subnet, n, &s)
		}
	}
	maps.DeleteFunc(m.deleted, func(_ netip.Prefix, at time.Time) bool { return at.Before(inv.Begun) })
	m.awaiting = time.Time{}
	asked := map[netip.Prefix][]*network{}
	for _, id := range m.sortedNetworks() {
		n := m.networks[id]
		asked[n.Pool] = append(asked[n.Pool], n)
	}
	for _, p := range m.sortedPools() {
		m.sightHost(p)
		p.seen = s.seen[p]
		p.listed = networks[p.CIDR]
		open := m.sightMissing(p, inv.Begun)
		open = m.sightReserved(p, &s) || open
		if m.sightNetworks(p, asked[p.CIDR], inv.Begun) || open {
			again = m.cfg.Grace
			continue
		}
		m.settle(p)
	}
	return again
}

// sight is what an inventory shows.
type sight struct {
	begun time.Time
	seen  map[*pool]map[addr.Offset]string // containers, by address
	kept  map[*pool]map[addr.Offset]bool   // gateways and auxiliary addresses
}

// sightSubnet takes note of one subnet of a network that the engine has: of
// its reservations and of its endpoints. The pool is made if there is none.
func (m *Machine) sightSubnet(subnet netip.Prefix, n InventoryNetwork, s *sight) {
	if at, gone := m.deleted[subnet]; gone && !at.Before(s.begun) {
		return // it was removed while the engine was asked
	}
	p, err := m.joinPool(subnet, poolSpec{})
	if err != nil {
		m.conflicts[conflict{}] = "network " + n.Name + " has no pool: " + err.Error()
		return
	}
	if s.seen[p] == nil {
		s.seen[p], s.kept[p] = map[addr.Offset]string{}, map[addr.Offset]bool{}
	}
	for _, e := range n.Endpoints {
		o, ok := addr.OffsetOf(p.CIDR, e.Address)
		if !ok {
			continue
		}
		if other, twice := s.seen[p][o]; twice && other != e.Container {
			m.conflict(p, o, holderOf(e), "is used by container "+shortRef(other)+" too")
		}
		s.seen[p][o] = e.Container
		m.sightAddress(p, o, e, s.begun)
	}
	m.sightKept(p, n.Gateways, chronicle.KindGateway, s)
	m.sightKept(p, n.Auxiliary, chronicle.KindAuxiliary, s)
}

// sightKept reserves what a network keeps back, should this peer have lost
// that.
func (m *Machine) sightKept(p *pool, addresses []netip.Addr, kind chronicle.Kind, s *sight) {
	for _, a := range addresses {
		o, ok := addr.OffsetOf(p.CIDR, a)
		if !ok {
			continue
		}
		s.kept[p][o] = true
		rec := p.space.Lookup(o)
		switch {
		case p.ReservationAt(o) != nil:
		case rec.State == space.Held && (rec.Kind == space.Gateway || rec.Kind == space.Host) || m.onHost(a):
		case rec.State == space.Held && rec.Kind != space.Unmarked:
			m.conflict(p, o, rec.Holder, "is kept back as "+kind.String())
		default:
			_ = m.reserveShared(p, o, kind) // nothing is in its way
		}
	}
}

// holderOf returns an endpoint as the holder of its address.
func holderOf(e InventoryEndpoint) space.Holder {
	return space.Holder{Kind: space.Container, Name: known(e.Name), Ref: known(e.Container), MAC: e.MAC}
}

// sightAddress makes an endpoint hold its address, or learns who holds it.
func (m *Machine) sightAddress(p *pool, o addr.Offset, e InventoryEndpoint, begun time.Time) {
	h := holderOf(e)
	delete(p.missing, o)
	rec := p.space.Lookup(o)
	if since := time.Unix(0, rec.Since); rec.State != space.Unused && since.After(begun) && !since.After(m.now) {
		return // what is known is newer
	}
	if rec.State == space.Held {
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
		// A time in the future is that of a clock that was ahead: old enough.
		since := time.Unix(0, rec.Since)
		if begun.Before(since.Add(m.cfg.Grace)) && !since.After(m.now) {
			again = true // too young to tell
			continue
		}
		switch first, known := p.missing[o]; {
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
	for _, o := range free {
		rec := p.space.Lookup(o)
		m.freeHolding(p, o)
		m.note(Note{Kind: NoteLeakMended, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since)})
	}
	return again
}

// sightReserved looks for auxiliary addresses that no network names any more,
// and reports whether there are some that must be looked for again. What an
// engine replays to a new database is taken for auxiliary as well.
func (m *Machine) sightReserved(p *pool, s *sight) (again bool) {
	if len(m.state.Roster) > 1 || p.listed == 0 {
		return false // others may name them; with its last network they all go
	}
	for _, r := range slices.Clone(p.Reserved) {
		o := r.Range.Start
		if r.Kind != chronicle.KindAuxiliary || s.kept[p][o] {
			delete(p.missing, o)
			continue
		}
		switch first, known := p.missing[o]; {
		case !known:
			p.miss(o, s.begun)
			again = true
		case s.begun.Sub(first) < m.cfg.Grace:
			again = true
		default:
			delete(p.missing, o)
			m.decide(chronicle.Unreserve{Pool: p.Key, Range: r.Range, Kind: r.Kind})
		}
	}
	return again
}

// sightNetworks compares the networks that were asked for on a pool with those
// that the engine has. Those that it lacks twice, the grace apart, were
// removed while nobody listened.
func (m *Machine) sightNetworks(p *pool, asked []*network, begun time.Time) (again bool) {
	for _, n := range asked {
		switch {
		case p.listed > 0:
			n.missing = time.Time{}
		case n.asked.After(begun):
			again = true // it was made while the engine was asked
		case n.missing.IsZero():
			n.missing = begun
			again = true
		case begun.Sub(n.missing) < m.cfg.Grace:
			again = true
		default:
			delete(m.networks, n.ID())
			m.perPool[n.Pool] -= n.count
			n.count = 0
			m.saveNetwork(n)
			m.note(Note{Kind: NoteNetworkGone, Pool: p.CIDR})
		}
	}
	return again
}
