package ipam

import (
	"errors"
	"fmt"
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
// that lacks it makes another useful, and the answer says when. An inventory
// that is partial tells what is in use, and nothing by what it lacks.
//
// An inventory tells what was when it began. What was granted or released
// since is newer, and stands.
func (m *Machine) takeInventory(inv *Inventory) (again time.Duration) {
	if inv.After.nonce != m.nonce {
		return time.Second // it was asked for by another start: what that numbered says nothing here
	}
	if inv.After.serial < m.inventory.serial || inv.After.at.Before(m.inventory.at) {
		return 0 // late
	}
	if !m.clockSet.IsZero() && (inv.After.at.Before(m.clockSet) || inv.After.at.Round(0).After(m.now.Round(0))) {
		return time.Second // somebody has set the clock: what was granted since may look older than it
	}
	if inv.After.knows(m.greeted.serial) {
		m.replaying = false // the engine answers only when it has replayed all
	}
	m.blind = false
	if m.hesitates && !inv.Partial && m.state.Slot == 0 {
		m.decideAlone(len(inv.Networks))
	}
	s := sight{mark: inv.After, came: m.serial, seen: map[*pool]map[addr.Offset]string{}, kept: map[*pool]map[addr.Offset]chronicle.Kind{}}
	if inv.Partial {
		m.sightAll(inv, &s)
		for p, seen := range s.seen {
			if p.seen == nil {
				p.seen = map[addr.Offset]string{}
			}
			maps.Copy(p.seen, seen)
		}
		return 0
	}
	m.conflicts, m.disputed = m.disputed, m.conflicts
	clear(m.conflicts)
	m.listed = m.listed[:0]
	m.incomplete, m.untaken, m.unanswered = false, false, false
	unlisted := m.unlisted
	networks := m.sightAll(inv, &s)
	first := !m.inventory.knows(m.greeted.serial)
	m.inventory = inv.After
	maps.DeleteFunc(m.deleted, func(_ netip.Prefix, serial uint64) bool { return inv.After.knows(serial) })
	if m.unlisted && !m.incomplete && m.member() && !m.booting() && m.settledIn() {
		m.unlisted, m.inherited, m.listedAt = false, false, m.now
		m.learnBefore()
		m.saveUnlisted()
	}
	m.settleDoubts(&s)
	m.noteWarned()
	if m.suspended.reason == givenUp {
		m.warnedAt = time.Time{} // the list says which containers live
	}
	asked := map[netip.Prefix][]*network{}
	for _, id := range m.sortedNetworks() {
		n := m.networks[id]
		asked[n.Pool] = append(asked[n.Pool], n)
	}
	for _, p := range m.sortedPools() {
		for _, at := range []map[addr.Offset]uint64{p.named, p.left} {
			maps.DeleteFunc(at, func(_ addr.Offset, at uint64) bool { return inv.After.knows(at) })
		}
		p.seen = s.seen[p]
		if !s.misses(m.deleted[p.CIDR]) { // or it was made anew, and this list tells nothing of it yet
			p.kept, p.partings = s.kept[p], 0
		}
		p.surveyed = s.seen[p] != nil || networks[p.CIDR] == 0
		never := p.listed < 0
		p.listed = networks[p.CIDR]
		p.lost = m.lostOn(p, asked[p.CIDR], inv.After.at, first || never)
		if unlisted && p.listed > p.asked {
			m.noteLost()
		}
		m.sightHost(p)
		if m.sightGone(p, asked[p.CIDR], &s) {
			again = m.cfg.Grace
			continue
		}
		m.settle(p)
	}
	if m.unlisted || m.incomplete || m.unanswered || m.takesIn() {
		again = time.Second // what was listed is not all taken in
	}
	return again
}

// sightUnsettled notes an endpoint whose address this peer does not have yet,
// or cannot have. Only its owner can say, and the inventory that follows asks
// again.
func (m *Machine) sightUnsettled(p *pool, o addr.Offset, h space.Holder, err error) {
	if waits(err) {
		m.incomplete = true
		m.lasts(p, o, whoText(h))
		return
	}
	m.conflict(p, o, h, m.now.UnixNano(), err.Error())
}

// sightAll takes note of what an inventory has, and returns how many networks
// are on each subnet.
func (m *Machine) sightAll(inv *Inventory, s *sight) map[netip.Prefix]int {
	m.listing, m.whole = true, !inv.Partial
	defer func() { m.listing, m.whole = false, false }()
	networks := map[netip.Prefix]int{}
	for _, n := range inv.Networks {
		for _, subnet := range n.Subnets {
			subnet = subnet.Masked()
			if networks[subnet]++; !slices.Contains(m.listed, subnet) {
				m.listed = append(m.listed, subnet)
			}
		}
	}
	for _, n := range inv.Networks { // of which each may need to know what the others are on
		for _, subnet := range n.Subnets {
			m.sightSubnet(subnet.Masked(), n, s)
		}
	}
	return networks
}

// sight is what an inventory shows.
type sight struct {
	mark Mark                                     // before the engine was asked
	came uint64                                   // the last number as it arrived: what has a higher one it did itself
	seen map[*pool]map[addr.Offset]string         // containers, by address
	kept map[*pool]map[addr.Offset]chronicle.Kind // gateways and auxiliary addresses
}

// misses reports whether something has a number of which the inventory knows nothing
// yet; 0 is that of nothing.
func (s *sight) misses(serial uint64) bool { return serial > s.mark.serial }

// sightSubnet takes note of one subnet of a network that the engine has: of
// its reservations and of its endpoints. The pool is made if there is none.
func (m *Machine) sightSubnet(subnet netip.Prefix, n InventoryNetwork, s *sight) {
	if s.misses(m.deleted[subnet]) {
		m.incomplete = true // it was removed while the engine was asked, and may have been made anew since
		return
	}
	refused := conflict{subnet: subnet}
	if _, again := m.conflicts[refused]; again && m.poolOf(subnet) == nil {
		return // others that were asked for another network there have said no, and would be asked anew
	}
	p, err := m.joinPool(subnet, poolSpec{})
	if waits(err) {
		m.incomplete = true
		return
	}
	if err != nil {
		m.conflicts[refused] = dispute{text: "network " + n.Name + " has no pool: " + err.Error(), next: "remove that network, and create it again with another subnet"}
		return
	}
	if s.seen[p] == nil {
		s.seen[p], s.kept[p] = make(map[addr.Offset]string, len(n.Endpoints)), map[addr.Offset]chronicle.Kind{}
	}
	for _, e := range n.Endpoints {
		o, ok := addr.OffsetOf(p.CIDR, e.Address)
		if !ok {
			continue
		}
		m.sightAddress(p, o, e, s)
		s.seen[p][o] = e.Container
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
		s.kept[p][o] = kind
		rec := p.space.Lookup(o)
		switch r := p.ReservationAt(o); {
		case r != nil && r.Kind == chronicle.KindKeptForName:
			// The network was made while the engine asked for the holder again.
			what := reservedText(r) + ", but a network keeps it back as " + kind.String()
			m.disagree(p, o, dispute{text: what, same: what, next: fmt.Sprintf("ringlet reserve rm %v, or remove that network", a)})
		case r != nil:
		case s.misses(p.parted.serial):
			m.incomplete = true // the network may be the one that was removed since
		case kind == chronicle.KindGateway && m.onHost(a) && m.adoptGateway(p, o):
			// It is on an interface of this host, and so its own.
		case rec.State == space.Held && rec.Kind == space.Gateway:
		case kind == chronicle.KindGateway && (rec.State == space.Held && rec.Kind == space.Host || m.onHost(a)):
		case rec.State == space.Held && !p.yields(o, rec, kind):
			m.conflict(p, o, rec.Holder, rec.Since, "is reserved as "+kind.String())
		default: // nothing here is in its way
			m.sightUnkept(p, o, kind, m.keepBack(p, o, kind))
		}
	}
}

// sightUnkept notes that what a network keeps back is held by somebody on another host, as its
// owner says.
func (m *Machine) sightUnkept(p *pool, o addr.Offset, kind chronicle.Kind, err error) {
	who := "is reserved as " + kind.String() + " by a network of this host"
	switch t, _ := p.Ring.At(o); {
	case waits(err):
		m.unanswered = m.unanswered || t.Owner != m.self && m.live(t.Owner)
		m.lasts(p, o, who)
	case errors.Is(err, ErrAddressInUse) && m.state.Member(t.Owner) != nil:
		same := who + ", but " + err.Error()
		m.disagree(p, o, dispute{text: same, who: who, same: same, next: "remove the other holder, or that network"})
	}
}

// keepBack reserves what a network keeps back, which its host uses the pool for: who
// has not said so yet says so before. The error says what is in the way.
func (m *Machine) keepBack(p *pool, o addr.Offset, kind chronicle.Kind) error {
	if !m.toldUse(p) {
		m.background(chronicle.Use{Pool: p.Key})
	}
	err := m.reserveShared(p, o, kind)
	m.untaken = m.stillOthers(p, o, err) || m.untaken
	return err
}

// holderOf returns an endpoint as the holder of its address.
func holderOf(e InventoryEndpoint) space.Holder {
	return space.Holder{Kind: space.Container, Name: known(e.Name), Ref: known(e.Container), MAC: e.MAC}
}

// sightAddress makes an endpoint hold its address, or learns who holds it.
func (m *Machine) sightAddress(p *pool, o addr.Offset, e InventoryEndpoint, s *sight) {
	h := holderOf(e)
	delete(p.missing, o)
	rec := p.space.Lookup(o)
	if rec.State != space.Unused && s.misses(rec.Seq) && rec.Seq <= s.came {
		// What waits for its name may have come with space that was taken over since.
		m.incomplete = m.incomplete || rec.State == space.Held && rec.Kind == space.Kept
		return // what is known is newer
	}
	if s.misses(p.left[o]) || s.misses(p.named[o]) {
		// So is this, of which no record is left: it was released, and then reserved or
		// given away. Only the next inventory can tell an auxiliary address from an
		// endpoint that was replayed to a new database.
		m.incomplete = true
		return
	}
	if other, twice := s.seen[p][o]; twice && other != e.Container { // and it has not moved while the engine was asked
		m.conflict(p, o, h, m.now.UnixNano(), "is used by container "+shortRef(other)+" too")
	}
	if rec.Kind == space.Stranger && rec.MAC == h.MAC || isWarned(rec) {
		m.dismissStranger(p, o) // it was this endpoint that answered
		rec = p.space.Lookup(o)
	}
	if rec.State == space.Held && rec.Kind != space.Kept {
		switch {
		case rec.Kind != space.Container && rec.Kind != space.Unmarked:
			m.conflict(p, o, h, m.now.UnixNano(), "is held by "+m.holderText(rec.Holder, rec.Since))
		case h.Ref != "":
			h.Network = rec.Network
			if h.Key = rec.Key; h.Key == nameKey(rec.Name) {
				h.Key = nameKey(h.Name) // it may have been renamed
			}
			if rec.Holder != h {
				rec, _ = p.space.Describe(o, h)
				m.saveRecord(p, o, &rec)
				m.noteUse(NoteDescribed, p, addr.Nth(p.CIDR, o), &rec.Holder, rec.Since)
			}
		}
		return
	}
	r := p.ReservationAt(o)
	switch {
	case r == nil || keptFor(r, &h):
	case r.Kind == chronicle.KindKeptForName:
		// The container may have been renamed. It has the address all the same, so
		// that whom it waits for cannot.
		m.conflict(p, o, h, m.now.UnixNano(), "is reserved as "+r.Kind.String())
	case r.Kind != chronicle.KindAuxiliary || r.Range.Size() != 1 || !m.soleUser():
		m.conflict(p, o, h, m.now.UnixNano(), "is reserved as "+r.Kind.String())
		return
	default:
		// It was taken for an auxiliary address when the engine replayed it to
		// a new database.
		m.background(chronicle.Unreserve{Pool: p.Key, Range: r.Range, Kind: r.Kind})
		r = nil
	}
	if err := m.borrow(p, o, r); err != nil {
		m.sightUnsettled(p, o, h, err)
		return
	}
	if m.unlisted {
		m.noteLost()
	}
	m.dismissWarned(p, o)
	if err := m.take(p, o, &h, new(AddressGrant)); err != nil {
		m.conflict(p, o, h, m.now.UnixNano(), "cannot be taken in: "+err.Error())
		return
	}
	m.note(Note{Kind: NoteAdopted, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(h, m.now.UnixNano())})
}

// conflict notes that somebody uses an address, since then as far as is known, which is
// not his to have.
func (m *Machine) conflict(p *pool, o addr.Offset, h space.Holder, since int64, why string) {
	m.disagree(p, o, m.disputeOf(addr.Nth(p.CIDR, o), h, since, why))
}

// disputeOf says of an address what conflict does.
func (m *Machine) disputeOf(a netip.Addr, h space.Holder, since int64, why string) dispute {
	next := ""
	switch h.Kind {
	case space.Gateway:
		next = "remove the networks of this host on that pool, or the other holder"
	case space.Client:
		next = fmt.Sprintf("ringlet free --for %s %v, or remove the other holder", word(h.Ref), a)
	case space.Container, space.Unmarked, space.Host, space.Stranger, space.Kept:
	}
	return dispute{
		text: "is used by " + m.holderText(h, since) + ", but " + why,
		who:  whoText(h),
		same: whoText(h) + ", but " + why,
		next: next,
		host: h.Kind == space.Host,
	}
}

// disagree notes what cannot both be right about an address, whose text is: "is …, but
// …". It is noted once, as long as it stays the same.
func (m *Machine) disagree(p *pool, o addr.Offset, d dispute) {
	k := conflict{pool: p.Key, at: o}
	if _, known := m.conflicts[k]; known {
		return
	}
	if last, lasts := m.disputed[k]; lasts && last.same == d.same {
		m.conflicts[k] = last
		return
	}
	d.text = addr.Nth(p.CIDR, o).String() + " in " + poolText(p.Pool) + " " + d.text
	m.conflicts[k] = d
	m.note(Note{Kind: NoteConflict, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: d.text})
}

// lasts leaves it at the conflict that the last list found about an address of the same holder, if
// it did: the owner is asked anew, and as long as it has not answered nothing else is known.
func (m *Machine) lasts(p *pool, o addr.Offset, who string) {
	k := conflict{pool: p.Key, at: o}
	_, known := m.conflicts[k]
	if last, told := m.disputed[k]; told && !known && last.who == who {
		m.conflicts[k] = last
	}
}

// settleConflict forgets a conflict about an address that whoever had it has no more.
func (m *Machine) settleConflict(p *pool, o addr.Offset) {
	forget(m.conflicts, conflict{pool: p.Key, at: o})
	forget(m.disputed, conflict{pool: p.Key, at: o})
}

// settleHostConflicts forgets the conflicts about addresses that the host itself has no
// more. No list of an engine may come that would.
func (m *Machine) settleHostConflicts() {
	for k, d := range m.conflicts {
		if p := m.pools[k.pool]; d.host && p != nil && !m.onHost(addr.Nth(p.CIDR, k.at)) {
			m.settleConflict(p, k.at)
		}
	}
}
