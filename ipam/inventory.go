package ipam

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/suspend"
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
	if inv.After.Nonce != m.members.Me.Nonce() && !m.lacks(rule.Nonce) {
		return time.Second // it was asked for by another start: what that numbered says nothing here
	}
	if inv.After.Serial < m.engine.Complete().Serial || inv.After.At.Before(m.engine.Complete().At) {
		return 0 // late
	}
	if !m.engine.ClockSet().IsZero() && (inv.After.At.Before(m.engine.ClockSet()) || inv.After.At.Round(0).After(m.now.Round(0))) {
		return time.Second // somebody has set the clock: what was granted since may look older than it
	}
	m.engine.Answers(inv.After)
	if !inv.Partial && m.state.Slot == 0 && m.members.Seeker.TakeNetworks(m.members.View(), len(inv.Networks)) {
		m.foundAlone()
	}
	s := sight{mark: inv.After, came: m.engine.Serial(), seen: map[*pool.Pool]map[addr.Offset]string{}, kept: map[*pool.Pool]map[addr.Offset]chronicle.Kind{}}
	if m.lacks(rule.Later) {
		s.mark = m.Mark(m.now)
	}
	if inv.Partial {
		networks := m.sightAll(inv, &s)
		for p, seen := range s.seen {
			if p.Seen == nil {
				p.Seen = map[addr.Offset]string{}
			}
			maps.Copy(p.Seen, seen)
		}
		if inv.AllNetworks {
			if m.engine.ListNetworks(networks, inv.After) {
				again = m.cfg.Grace
			}
			m.settleAll()
		}
		return again
	}
	m.conflicts.Begin()
	m.list.incomplete, m.list.untaken, m.list.unanswered = false, false, false
	unlisted := m.members.NewDB.IsUnlisted()
	networks := m.sightAll(inv, &s)
	m.engine.SetComplete(inv.After)
	if m.engine.ListNetworks(networks, inv.After) {
		again = m.cfg.Grace
	}
	if unlisted && !m.list.incomplete && m.members.IsMember() && !m.members.IsChecking() && !departure.HasPredecessor(m.members.View(), m.members.Machine()) {
		m.members.NewDB.TakeList()
	}
	m.settleDoubts(&s)
	m.pools.NoteWarned()
	if m.members.Suspension.For(suspend.GivenUp) {
		m.warnings.SendAgain() // the list says which containers live
	}
	for _, p := range m.pools.Sorted() {
		for _, at := range []map[addr.Offset]uint64{p.Named, p.Left} {
			maps.DeleteFunc(at, func(_ addr.Offset, at uint64) bool { return inv.After.Knows(at) })
		}
		p.Seen, p.Stranded = s.seen[p], s.stranded[p]
		if !s.misses(p.Here.Removed()) { // or it was made anew, and this list tells nothing of it yet
			p.Here.Kept = s.kept[p]
		}
		p.Surveyed = s.seen[p] != nil || networks[p.CIDR] == 0
		if unlisted && p.Here.Unasked() {
			m.doubts.TakeLoss()
		}
		m.sightHost(p)
		if m.sightMissing(p, &s) {
			again = m.cfg.Grace
		}
		m.settle(p)
	}
	if m.members.NewDB.IsUnlisted() || m.list.incomplete || m.list.unanswered || m.members.NewDB.TakesIn(m.now) {
		again = time.Second // what was listed is not all taken in
	}
	return again
}

// sightUnsettled notes an endpoint whose address this peer does not have yet,
// or cannot have. Only its owner can say, and the inventory that follows asks
// again.
func (m *Machine) sightUnsettled(p *pool.Pool, o addr.Offset, h space.Holder, s *sight, err error) {
	if waits(err) {
		// Where a conflict is known, the list is whole without the answer: two owners may answer by turns, and one of
		// them would be waited for at each list.
		if !m.conflicts.Keep(p.Place(o), sentence.Who(h)) {
			m.list.incomplete = true
		}
		return
	}
	why, other := m.othersUse(p, o, err)
	m.conflictOfListed(p, o, h, s, why, other)
}

// conflictOfListed notes that an endpoint which a list has uses an address that is not its to have. other is as for [pool.Pool.Dispute].
func (m *Machine) conflictOfListed(p *pool.Pool, o addr.Offset, h space.Holder, s *sight, why, other string) {
	ends := sentence.End(h, addr.Nth(p.CIDR, o))
	if network, stranded := s.stranded[p][o]; stranded {
		ends = sentence.Disconnect(h, network)
	}
	p.DisputeListed(o, h, why, ends, other)
}

// sightAll takes note of what an inventory has, and returns how many networks
// are on each subnet.
func (m *Machine) sightAll(inv *Inventory, s *sight) map[netip.Prefix]int {
	m.list.running, m.list.whole = true, !inv.Partial
	m.pools.SetListing(true)
	defer func() { m.list.running, m.list.whole = false, false; m.pools.SetListing(false) }()
	var listed []netip.Prefix
	if inv.Partial && !inv.AllNetworks {
		listed = m.engine.Subnets()
	}
	networks := map[netip.Prefix]int{}
	for _, n := range inv.Networks {
		for _, subnet := range n.Subnets {
			subnet = subnet.Masked()
			if networks[subnet]++; !slices.Contains(listed, subnet) {
				listed = append(listed, subnet)
			}
		}
	}
	m.engine.SetSubnets(listed)
	for _, n := range inv.Networks { // of which each may need to know what the others are on
		for _, subnet := range n.Subnets {
			m.sightSubnet(subnet.Masked(), n, s)
		}
	}
	return networks
}

// sight is what an inventory shows.
type sight struct {
	mark Mark                                          // before the engine was asked
	came uint64                                        // the last number as it arrived: what has a higher one it did itself
	seen map[*pool.Pool]map[addr.Offset]string         // containers, by address
	kept map[*pool.Pool]map[addr.Offset]chronicle.Kind // gateways and auxiliary addresses
	// stranded are the networks of endpoints without a container, by address; of pools with any.
	stranded map[*pool.Pool]map[addr.Offset]string
}

// misses reports whether something has a number of which the inventory knows nothing
// yet; 0 is that of nothing.
func (s *sight) misses(serial uint64) bool { return serial > s.mark.Serial }

// sightSubnet takes note of one subnet of a network that the engine has: of
// its reservations and of its endpoints. The pool is made if there is none.
func (m *Machine) sightSubnet(subnet netip.Prefix, n InventoryNetwork, s *sight) {
	if s.misses(m.engine.RemovedAt(subnet)) {
		m.list.incomplete = true // it was removed while the engine was asked, and may have been made anew since
		return
	}
	refused := conflict.Place{Subnet: subnet}
	if m.conflicts.Has(refused) && m.pools.On(subnet) == nil {
		m.sightUnpooled(subnet, n, s)
		return // others that were asked for another network there have said no, and would be asked anew
	}
	p, err := m.joinPool(subnet, poolSpec{})
	if waits(err) {
		m.list.incomplete = true
		return
	}
	if err != nil {
		m.conflicts.Set(refused, conflict.Conflict{Text: "network " + n.Name + " has no pool: " + err.Error(), Next: "remove that network, and create it again with another subnet"})
		m.sightUnpooled(subnet, n, s)
		return
	}
	s.show(p)
	for _, e := range n.Endpoints {
		if o, ok := addr.OffsetOf(p.CIDR, e.Address); ok {
			m.sightEndpoint(p, o, e, n.Name, s)
		}
	}
	m.sightKept(p, n.Gateways, chronicle.KindGateway, s)
	m.sightKept(p, n.Auxiliary, chronicle.KindAuxiliary, s)
}

// show notes that the list shows something on a pool.
func (s *sight) show(p *pool.Pool) {
	if s.seen[p] == nil {
		s.seen[p], s.kept[p] = map[addr.Offset]string{}, map[addr.Offset]chronicle.Kind{}
	}
}

// sightEndpoint takes note of an endpoint of a network.
func (m *Machine) sightEndpoint(p *pool.Pool, o addr.Offset, e InventoryEndpoint, network string, s *sight) {
	if e.Container == "" {
		s.strand(p, o, network)
	}
	m.sightAddress(p, o, e, s)
	s.seen[p][o] = e.Container
}

// sightUnpooled takes note of the endpoints of a network that can have no pool, as one of another subnet is in its way: what they
// have of that nobody else is to get.
func (m *Machine) sightUnpooled(subnet netip.Prefix, n InventoryNetwork, s *sight) {
	for _, e := range n.Endpoints {
		p := m.pools.At(e.Address)
		if p == nil || !subnet.Contains(e.Address.Unmap()) {
			continue
		}
		o, _ := addr.OffsetOf(p.CIDR, e.Address)
		s.show(p)
		m.sightEndpoint(p, o, e, n.Name, s)
	}
}

// strand notes the network of an endpoint without a container.
func (s *sight) strand(p *pool.Pool, o addr.Offset, network string) {
	if s.stranded == nil {
		s.stranded = map[*pool.Pool]map[addr.Offset]string{}
	}
	if s.stranded[p] == nil {
		s.stranded[p] = map[addr.Offset]string{}
	}
	s.stranded[p][o] = network
}

// sightKept reserves what a network keeps back, should this peer have lost
// that.
func (m *Machine) sightKept(p *pool.Pool, addresses []netip.Addr, kind chronicle.Kind, s *sight) {
	for _, a := range addresses {
		o, ok := addr.OffsetOf(p.CIDR, a)
		if !ok {
			continue
		}
		s.kept[p][o] = kind
		rec := p.Space.Lookup(o)
		switch r := p.ReservationAt(o); {
		case r != nil && r.Kind == chronicle.KindKeptForName:
			// The network was made while the engine asked for the holder again.
			what := sentence.Reserved(r) + ", but a network keeps it back as " + kind.String()
			p.Disagree(o, conflict.Conflict{Text: what, Same: what, Next: sentence.EndReserved(r, a) + ", or remove that network"})
		case r != nil:
		case s.misses(p.Here.Released()):
			m.list.incomplete = true // the network may be the one that was removed since
		case kind == chronicle.KindGateway && m.engine.OnHost(a) && p.AdoptGateway(o):
			// It is on an interface of this host, and so its own.
		case rec.State == space.Held && rec.Kind == space.Gateway:
		case kind == chronicle.KindGateway && (rec.State == space.Held && rec.Kind == space.Host || m.engine.OnHost(a)):
		case rec.State == space.Held && !p.Yields(o, rec, kind):
			p.Dispute(o, rec.Holder, rec.Since, "is reserved as "+kind.String(), "remove that network")
		default: // nothing here is in its way
			m.sightUnkept(p, o, kind, m.keepBack(p, o, kind))
		}
	}
}

// sightUnkept notes that what a network keeps back is held by somebody on another host, as its
// owner says.
func (m *Machine) sightUnkept(p *pool.Pool, o addr.Offset, kind chronicle.Kind, err error) {
	who := "is reserved as " + kind.String() + " by a network of this host"
	switch t, _ := p.Ring.At(o); {
	case waits(err):
		m.list.unanswered = m.list.unanswered || t.Owner != m.members.Self() && m.members.View().Live(t.Owner)
		m.conflicts.Keep(p.Place(o), who)
	case errors.Is(err, ErrAddressInUse) && m.state.Member(t.Owner) != nil:
		why, other := m.othersUse(p, o, err)
		same := who + ", but " + why
		p.Disagree(o, conflict.Conflict{Text: same, Who: who, Same: same, Next: "remove that network, or " + other})
	}
}

// keepBack reserves what a network keeps back, which its host uses the pool for: who
// has not said so yet says so before. The error says what is in the way.
func (m *Machine) keepBack(p *pool.Pool, o addr.Offset, kind chronicle.Kind) error {
	if !m.toldUse(p) {
		m.background(chronicle.Use{Pool: p.Key})
	}
	err := m.reserveShared(p, o, kind)
	m.list.untaken = m.stillOthers(p, o, err) || m.list.untaken
	return err
}

// holderOf returns an endpoint as the holder of its address.
func holderOf(e InventoryEndpoint) space.Holder {
	return space.Holder{Kind: space.Container, Name: pool.Known(e.Name), Ref: pool.Known(e.Container), MAC: e.MAC}
}

// sightAddress makes an endpoint hold its address, or learns who holds it.
func (m *Machine) sightAddress(p *pool.Pool, o addr.Offset, e InventoryEndpoint, s *sight) {
	h := holderOf(e)
	delete(p.Missing, o)
	rec := p.Space.Lookup(o)
	if rec.State != space.Unused && s.misses(rec.Seq) && rec.Seq <= s.came {
		// What waits for its name may have come with space that was taken over since.
		m.list.incomplete = m.list.incomplete || rec.State == space.Held && rec.Kind == space.Kept
		return // what is known is newer
	}
	if s.misses(p.Left[o]) || s.misses(p.Named[o]) {
		// So is this, of which no record is left: it was released, and then reserved or
		// given away. Only the next inventory can tell an auxiliary address from an
		// endpoint that was replayed to a new database.
		m.list.incomplete = true
		return
	}
	if other, twice := s.seen[p][o]; twice && other != e.Container { // and it has not moved while the engine was asked
		m.conflictOfListed(p, o, h, s, "is used by container "+sentence.Ref(other)+" too", "the other one")
	}
	if rec.Kind == space.Stranger && rec.MAC == h.MAC || pool.IsWarned(rec) {
		p.DismissStranger(o) // it was this endpoint that answered
		rec = p.Space.Lookup(o)
	}
	if rec.State == space.Held && rec.Kind != space.Kept {
		switch {
		case rec.Kind != space.Container && rec.Kind != space.Unmarked:
			m.conflictOfListed(p, o, h, s, "is held by "+m.pools.HolderText(rec.Holder, rec.Since), sentence.End(rec.Holder, addr.Nth(p.CIDR, o)))
		case h.Ref != "":
			h.Network = rec.Network
			if h.Key = rec.Key; h.Key == pool.NameKey(rec.Name) {
				h.Key = pool.NameKey(h.Name) // it may have been renamed
			}
			if rec.Holder != h {
				p.Describe(o, h)
			}
		}
		return
	}
	r := p.ReservationAt(o)
	switch {
	case r == nil || pool.KeptFor(r, &h):
	case r.Kind == chronicle.KindKeptForName:
		// The container may have been renamed. It has the address all the same, so
		// that whom it waits for cannot.
		m.conflictOfListed(p, o, h, s, sentence.Reserved(r), sentence.EndReserved(r, addr.Nth(p.CIDR, o)))
	default:
		m.conflictOfListed(p, o, h, s, sentence.Reserved(r), sentence.EndReserved(r, addr.Nth(p.CIDR, o)))
		return
	}
	if err := m.borrow(p, o, r); err != nil {
		m.sightUnsettled(p, o, h, s, err)
		return
	}
	if m.members.NewDB.IsUnlisted() {
		m.doubts.TakeLoss()
	}
	p.DismissWarned(o)
	if err := m.take(p, o, &h, new(AddressGrant)); err != nil {
		m.conflictOfListed(p, o, h, s, "cannot be taken in: "+err.Error(), "")
		return
	}
	m.note(Note{Kind: NoteAdopted, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.pools.HolderText(h, m.now.UnixNano())})
}
