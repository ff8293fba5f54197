package survey

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// Counts reports whether a list that was asked for after the mark tells anything; else again is when another would be
// useful.
func (s *Survey) Counts(after engine.Mark) (again time.Duration, counts bool) {
	if after.Nonce != s.pools.Me.Nonce() && !s.pools.Lacks(rule.Nonce) {
		return time.Second, false // it was asked for by another start: what that numbered says nothing here
	}
	if after.Serial < s.pools.Engine.Complete().Serial || after.At.Before(s.pools.Engine.Complete().At) {
		return 0, false // late
	}
	set := s.pools.Engine.ClockSet()
	if !set.IsZero() && (after.At.Before(set) || after.At.Round(0).After(s.pools.Out.Now().Round(0))) {
		return time.Second, false // the clock was set: what was granted since may look older than it
	}
	return 0, true
}

// TakeList compares what is held with what the engine says that it has.
//
// An endpoint's address that is not held is taken in at once: it is in use. A held address that no endpoint has is freed
// only when it is older than the grace and two inventories, at least the grace apart, lack it: between the grant and the
// endpoint's appearance lies the start of a container. The first that lacks it makes another useful, and the answer says
// when. An inventory that is partial tells what is in use, and nothing by what it lacks.
//
// An inventory tells what was when it began. What was granted or released since is newer, and stands.
func (s *Survey) TakeList(inv *call.Inventory) (again time.Duration) {
	l := sight{mark: inv.After, came: s.pools.Engine.Serial(), on: map[*pool.Pool]shown{}}
	if s.pools.Lacks(rule.Later) {
		l.mark = s.pools.Engine.Mark(s.pools.Out.Now())
	}
	if inv.Partial {
		networks := s.reconcileAll(inv, &l)
		for p, of := range l.on {
			if p.Seen == nil {
				p.Seen = map[addr.Offset]string{}
			}
			maps.Copy(p.Seen, of.seen)
		}
		if inv.AllNetworks {
			if s.pools.Engine.ListNetworks(networks, inv.After) {
				again = s.pools.Grace
			}
			for _, p := range s.pools.Sorted() {
				s.acts.LeaveUnused(p)
			}
		}
		return again
	}
	s.pools.Conflicts.Begin()
	s.incomplete, s.Untaken, s.unanswered = false, false, false
	unlisted := s.pools.Database.IsUnlisted()
	networks := s.reconcileAll(inv, &l)
	s.pools.Engine.SetComplete(inv.After)
	if s.pools.Engine.ListNetworks(networks, inv.After) {
		again = s.pools.Grace
	}
	if unlisted && !s.incomplete && s.acts.HasPlace() {
		s.pools.Database.TakeList()
	}
	s.resolveDoubts(&l)
	s.pools.NoteWarned()
	for _, p := range s.pools.Sorted() {
		for _, at := range []map[addr.Offset]uint64{p.Named, p.Left} {
			maps.DeleteFunc(at, func(_ addr.Offset, at uint64) bool { return inv.After.Knows(at) })
		}
		of := l.on[p]
		p.Seen, p.Stranded = of.seen, of.stranded
		if l.mark.Knows(s.pools.Engine.RemovedAt(p.CIDR)) { // or it was made again, and this list tells nothing of it yet
			p.Here.Kept = of.kept
		}
		p.Surveyed = of.seen != nil || networks[p.CIDR] == 0
		if unlisted && p.Here.Unasked() {
			s.pools.Doubts.TakeLoss()
		}
		s.Host(p)
		if s.reconcileMissing(p, &l) {
			again = s.pools.Grace
		}
		s.acts.LeaveUnused(p)
	}
	if s.pools.Database.IsUnlisted() || s.incomplete || s.unanswered || s.pools.Database.TakesIn(s.pools.Out.Now()) {
		again = time.Second // what was listed is not all taken in
	}
	return again
}

// reconcileUntaken notes an endpoint whose address this peer does not have yet, or cannot have. Only its owner can say, and
// the inventory that follows asks again.
func (s *Survey) reconcileUntaken(p *pool.Pool, o addr.Offset, h space.Holder, l *sight, err error) {
	if sentence.Waits(err) {
		// Where a conflict is known, the list is whole without the answer: two owners may answer by turns, and one of
		// them would be waited for at each list.
		if !s.pools.Conflicts.Keep(p.Place(o), sentence.Who(h)) {
			s.incomplete = true
		}
		return
	}
	why, other := s.acts.OthersUse(p, o, err)
	s.conflictOfListed(p, o, h, l, why, other)
}

// conflictOfListed notes that an endpoint which a list has uses an address that is not its to have. other is as for
// [pool.Pool.Dispute].
func (s *Survey) conflictOfListed(p *pool.Pool, o addr.Offset, h space.Holder, l *sight, why, other string) {
	ends := sentence.End(h, addr.Nth(p.CIDR, o))
	if network, stranded := l.on[p].stranded[o]; stranded {
		ends = sentence.Disconnect(h, network)
	}
	p.Dispute(o, h, s.pools.Out.Nanos(), why, ends, other)
}

// reconcileAll takes note of what an inventory has, and returns how many networks are on each subnet.
func (s *Survey) reconcileAll(inv *call.Inventory, l *sight) map[netip.Prefix]int {
	s.whole = !inv.Partial
	s.pools.SetListing(true)
	defer func() { s.whole = false; s.pools.SetListing(false) }()
	var listed []netip.Prefix
	if inv.Partial && !inv.AllNetworks {
		listed = s.pools.Engine.Subnets()
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
	s.pools.Engine.SetSubnets(listed)
	for _, n := range inv.Networks { // of which each may need to know what the others are on
		for _, subnet := range n.Subnets {
			s.reconcileSubnet(subnet.Masked(), n, l)
		}
	}
	return networks
}

// sight is what an inventory shows.
type sight struct {
	mark engine.Mark // before the engine was asked
	came uint64      // the last number as it arrived: what has a higher one it did itself
	on   map[*pool.Pool]shown
}

// shown is what it shows on a pool, by address. Without maps, it shows nothing there.
type shown struct {
	seen     map[addr.Offset]string         // containers
	kept     map[addr.Offset]chronicle.Kind // gateways and auxiliary addresses
	stranded map[addr.Offset]string         // the networks of endpoints without a container
}

// reconcileSubnet takes note of one subnet of a network that the engine has: of its reservations and of its endpoints. The pool
// is made if there is none.
func (s *Survey) reconcileSubnet(subnet netip.Prefix, n call.InventoryNetwork, l *sight) {
	if !l.mark.Knows(s.pools.Engine.RemovedAt(subnet)) {
		s.incomplete = true // it was removed while the engine was asked, and may have been made again since
		return
	}
	refused := conflict.Place{Subnet: subnet}
	if s.pools.Conflicts.Has(refused) && s.pools.On(subnet) == nil {
		s.reconcileUnpooled(subnet, n, l)
		return // others that were asked for another network there have said no, and would be asked again
	}
	p, err := s.acts.Join(subnet)
	if sentence.Waits(err) {
		s.incomplete = true
		return
	}
	if err != nil {
		why := "network " + n.Name + " has no pool: " + err.Error()
		s.pools.Conflicts.Tell(refused, conflict.Conflict{Text: why, Same: why, Next: "remove that network, and create it again with another subnet"})
		s.reconcileUnpooled(subnet, n, l)
		return
	}
	l.show(p)
	for _, e := range n.Endpoints {
		if o, ok := addr.OffsetOf(p.CIDR, e.Address); ok {
			s.reconcileEndpoint(p, o, e, n.Name, l)
		}
	}
	s.reconcileKept(p, n.Gateways, chronicle.KindGateway, l)
	s.reconcileKept(p, n.Auxiliary, chronicle.KindAuxiliary, l)
}

// show notes that the list shows something on a pool.
func (l *sight) show(p *pool.Pool) {
	if l.on[p].seen == nil {
		l.on[p] = shown{map[addr.Offset]string{}, map[addr.Offset]chronicle.Kind{}, map[addr.Offset]string{}}
	}
}

// reconcileEndpoint takes note of an endpoint of a network.
func (s *Survey) reconcileEndpoint(p *pool.Pool, o addr.Offset, e call.InventoryEndpoint, network string, l *sight) {
	if e.Container == "" {
		l.on[p].stranded[o] = network
	}
	s.reconcileAddress(p, o, e, l)
	l.on[p].seen[o] = e.Container
}

// reconcileUnpooled takes note of the endpoints of a network that can have no pool, as one of another subnet is in its way: what
// they have of that nobody else is to get.
func (s *Survey) reconcileUnpooled(subnet netip.Prefix, n call.InventoryNetwork, l *sight) {
	for _, e := range n.Endpoints {
		p := s.pools.At(e.Address)
		if p == nil || !subnet.Contains(e.Address.Unmap()) {
			continue
		}
		o, _ := addr.OffsetOf(p.CIDR, e.Address)
		l.show(p)
		s.reconcileEndpoint(p, o, e, n.Name, l)
	}
}

// reconcileKept reserves what a network keeps back, should this peer have lost that.
func (s *Survey) reconcileKept(p *pool.Pool, addresses []netip.Addr, kind chronicle.Kind, l *sight) {
	for _, a := range addresses {
		o, ok := addr.OffsetOf(p.CIDR, a)
		if !ok {
			continue
		}
		l.on[p].kept[o] = kind
		rec := p.Space.Lookup(o)
		switch r := p.ReservationAt(o); {
		case r != nil && r.Kind == chronicle.KindKeptForName:
			// The network was made while the engine asked for the holder again.
			what := sentence.Reserved(r) + ", but a network keeps it back as " + kind.String()
			p.Disagree(o, conflict.Conflict{Text: what, Same: what, Next: sentence.EndReserved(r, a) + ", or remove that network"})
		case r != nil:
		case !l.mark.Knows(p.Here.Released()):
			s.incomplete = true // the network may be the one that was removed since
		case kind == chronicle.KindGateway && s.pools.Engine.OnHost(a):
			p.AdoptGateway(o) // it is on an interface of this host, and so its own
		case rec.State == space.Held && (rec.Kind == space.Gateway || rec.Kind == space.Host && kind == chronicle.KindGateway):
		case rec.State == space.Held && !pool.Yields(rec, kind):
			p.Dispute(o, rec.Holder, rec.Since, "is reserved as "+kind.String(), p.EndOf(o, rec.Holder, rec.Since), "remove that network")
		default: // nothing here is in its way
			s.reconcileUnkept(p, o, kind, s.acts.KeepBack(p, o, kind))
		}
	}
}

// reconcileUnkept notes that what a network keeps back is held on another host, as its owner says.
func (s *Survey) reconcileUnkept(p *pool.Pool, o addr.Offset, kind chronicle.Kind, err error) {
	who := "is reserved as " + kind.String() + " by a network of this host"
	switch t, _ := p.Ring.At(o); {
	case sentence.Waits(err):
		s.unanswered = s.unanswered || t.Owner != s.pools.Me.ID() && s.acts.IsLive(t.Owner)
		s.pools.Conflicts.Keep(p.Place(o), who)
	case errors.Is(err, sentence.ErrAddressInUse) && s.pools.State.Member(t.Owner) != nil:
		why, other := s.acts.OthersUse(p, o, err)
		same := who + ", but " + why
		p.Disagree(o, conflict.Conflict{Text: same, Who: who, Same: same, Next: "remove that network, or " + other})
	}
}

// reconcileAddress makes an endpoint hold its address, or learns who holds it.
func (s *Survey) reconcileAddress(p *pool.Pool, o addr.Offset, e call.InventoryEndpoint, l *sight) {
	h := space.Holder{Kind: space.Container, Name: pool.Known(e.Name), Ref: pool.Known(e.Container), MAC: e.MAC}
	delete(p.Missing, o)
	rec := p.Space.Lookup(o)
	if rec.State != space.Unused && !l.mark.Knows(rec.Seq) && rec.Seq <= l.came {
		// What waits for its name may have come with space that was taken over since.
		s.incomplete = s.incomplete || rec.State == space.Held && rec.Kind == space.Kept
		return // what is known is newer
	}
	if !l.mark.Knows(p.Left[o]) || !l.mark.Knows(p.Named[o]) {
		// So is this, of which no record is left: it was released, and then reserved or
		// given away. Only the next inventory can tell an auxiliary address from an
		// endpoint that was replayed to a new database.
		s.incomplete = true
		return
	}
	if other, twice := l.on[p].seen[o]; twice && other != e.Container { // and it has not moved while the engine was asked
		s.conflictOfListed(p, o, h, l, "is used by container "+sentence.Ref(other)+" too", "the other one")
	}
	if rec.Kind == space.Stranger && rec.MAC == h.MAC || pool.IsWarned(rec) {
		p.DismissStranger(o) // it was this endpoint that answered
		rec = p.Space.Lookup(o)
	}
	if rec.State == space.Held && rec.Kind != space.Kept {
		s.reconcileHeld(p, o, h, &rec, l)
		return
	}
	r := p.ReservationAt(o)
	switch {
	case r == nil || pool.KeptFor(r, &h):
	case r.Kind == chronicle.KindKeptForName:
		// The container may have been renamed. It has the address all the same, so
		// that whom it waits for cannot.
		s.conflictOfListed(p, o, h, l, sentence.Reserved(r), sentence.EndReserved(r, addr.Nth(p.CIDR, o)))
	default:
		s.conflictOfListed(p, o, h, l, sentence.Reserved(r), sentence.EndReserved(r, addr.Nth(p.CIDR, o)))
		return
	}
	if err := s.acts.Borrow(p, o, r); err != nil {
		s.reconcileUntaken(p, o, h, l, err)
		return
	}
	if s.pools.Database.IsUnlisted() {
		s.pools.Doubts.TakeLoss()
	}
	p.DismissWarned(o)
	taken := h // which goes to the heap, and seldom comes here
	if err := s.acts.Take(p, o, &taken); err != nil {
		s.conflictOfListed(p, o, h, l, "cannot be taken in: "+err.Error(), "")
		return
	}
	p.Note(effect.NoteAdopted, o, h, s.pools.Out.Nanos())
}

// reconcileHeld takes note of an endpoint whose address is held, as its record says: by the endpoint itself, of which the list
// may know more, or by another holder.
func (s *Survey) reconcileHeld(p *pool.Pool, o addr.Offset, h space.Holder, rec *space.Record, l *sight) {
	switch {
	case !rec.Kind.OfEndpoint():
		s.conflictOfListed(p, o, h, l, "is held by "+s.pools.HolderText(rec.Holder, rec.Since), sentence.End(rec.Holder, addr.Nth(p.CIDR, o)))
	case h.Ref != "":
		h.Network = rec.Network
		if h.Key = rec.Key; h.Key == pool.NameKey(rec.Name) {
			h.Key = pool.NameKey(h.Name) // it may have been renamed
		}
		if rec.Holder != h {
			p.Describe(o, h)
		}
	}
}
