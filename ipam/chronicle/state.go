package chronicle

import (
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/table"
)

// MaxVoters is how many peers of the roster vote at most, see [VotersOf].
const MaxVoters = 7

// State is what slots 1..Slot made. The zero State is that before slot 1. It
// is changed by [State.Apply], and as it is refounded by [State.Forgo], alone, and is not
// safe for concurrent use.
type State struct {
	Slot    uint64
	Cluster [16]byte // zero before slot 1
	Level   Level    // that slots are at; 0 before slot 1
	Roster  []Member // in order of admission
	Former  []Gone   // evicted peers, in order of eviction
	Pools   []*Pool  // in order of creation
	// Identities are the numbers of the label sets that containers have.
	Identities identity.Registry
	Locks      lock.Table // that are held
	numbers    map[peer.ID]uint64
	kept       hashes

	byAddress []*Pool // Pools in the order of SortedBy
}

// Member is a peer of the roster.
type Member struct {
	Founder
	Phase Phase
	Zone  peer.Zone // what it has said of itself, by SetZone; empty: nothing
}

// Gone is a peer that was evicted and has not been admitted since. Once it is
// forgotten or inherited from it owns nothing for good. So does one that was retired.
type Gone struct {
	Member
	Evicted   uint64 // the slot of its eviction
	Forgotten bool
}

// Pool is one pool of the cluster.
type Pool struct {
	Key      PoolKey
	CIDR     netip.Prefix
	Name     string // empty, or given by NamePool
	Origin   Origin
	Ring     *ring.Ring
	Reserved []Reservation // in order of their ranges, which do not overlap
	Users    []peer.ID     // who has networks on it, in order of their IDs
	Table    table.Table
	kept     poolHashes
}

// Member returns the peer of the roster that has the ID, or nil.
func (s *State) Member(id peer.ID) *Member {
	for i := range s.Roster {
		if s.Roster[i].ID == id {
			return &s.Roster[i]
		}
	}
	return nil
}

// Gone returns the evicted peer that has the ID, or nil.
func (s *State) Gone(id peer.ID) *Gone {
	for i := range s.Former {
		if s.Former[i].ID == id {
			return &s.Former[i]
		}
	}
	return nil
}

// OwnedBy returns how many addresses are a peer's in all pools.
func (s *State) OwnedBy(id peer.ID) (n addr.Count) {
	for _, p := range s.Pools {
		for r := range p.Ring.OwnedBy(id) {
			n = n.Plus(r.Size())
		}
	}
	return n
}

// UsedUp reports whether a peer was in the roster and never comes back: its space was given up by Forget
// or Inherit, or it was retired at a level that uses IDs once.
func (s *State) UsedUp(id peer.ID) bool {
	g := s.Gone(id)
	return g != nil && g.Forgotten
}

// Voters returns the peers that decide the next slot, in the order of [VotersOf].
func (s *State) Voters() []peer.ID { return VotersOf(s.Roster) }

// IsVoter reports whether a peer is one of those that decide the next slot.
func (s *State) IsVoter(id peer.ID) bool {
	e := electorateOf(s.Roster)
	for _, at := range e.at[:e.n] {
		if s.Roster[at].ID == id {
			return true
		}
	}
	return false
}

// Number returns the highest number of that author among the applied
// commands, 0 if there is none.
func (s *State) Number(author peer.ID) uint64 { return s.numbers[author] }

// Pool returns the pool with that key, or nil.
func (s *State) Pool(k PoolKey) *Pool {
	i, ok := slices.BinarySearchFunc(s.Pools, k, func(p *Pool, k PoolKey) int { return p.Key.Compare(k) })
	if !ok {
		return nil
	}
	return s.Pools[i]
}

// PoolOf returns the pool with just that CIDR, or nil.
func (s *State) PoolOf(cidr netip.Prefix) *Pool {
	if i := s.rank(cidr); i < len(s.byAddress) && s.byAddress[i].CIDR == cidr {
		return s.byAddress[i]
	}
	return nil
}

// rank returns how many pools come before the CIDR in the order of addresses.
func (s *State) rank(cidr netip.Prefix) int {
	i, _ := slices.BinarySearchFunc(s.byAddress, cidr, func(p *Pool, c netip.Prefix) int { return p.CIDR.Compare(c) })
	return i
}

// ByAddress yields the pools in the order of their addresses.
func (s *State) ByAddress() iter.Seq[*Pool] { return slices.Values(s.byAddress) }

// PoolNamed returns the pool of that name, or nil.
func (s *State) PoolNamed(name string) *Pool {
	if name == "" {
		return nil
	}
	for _, p := range s.Pools {
		if p.Name == name {
			return p
		}
	}
	return nil
}

// Overlapping returns the pools that overlap the CIDR, in order of their
// addresses. The slice is the state's own.
func (s *State) Overlapping(cidr netip.Prefix) []*Pool {
	// Pools do not overlap: the one before may have the CIDR inside, and those
	// that lie in it come next, side by side.
	first := s.rank(cidr)
	if first > 0 && s.byAddress[first-1].CIDR.Overlaps(cidr) {
		first--
	}
	end := first
	for end < len(s.byAddress) && s.byAddress[end].CIDR.Overlaps(cidr) {
		end++
	}
	return s.byAddress[first:end]
}

// Refound returns the state in which one survivor founds a cluster anew from
// what s holds, since a majority of the votes is lost for good (protocol, 4.5):
// it is the roster, and all others are evicted at the next slot, their ranges
// their own. The cluster has another ID, so that nobody who comes back can take
// it for the old one. s is not changed.
func (s *State) Refound(cluster [16]byte, survivor Founder) (*State, error) {
	t, err := DecodeState(s.Encode())
	if err != nil {
		return nil, err
	}
	t.Slot++
	t.Cluster = cluster
	for _, m := range t.Roster {
		if m.ID != survivor.ID {
			t.Former = append(t.Former, Gone{Member: m, Evicted: t.Slot})
		}
	}
	t.Former = slices.DeleteFunc(t.Former, func(g Gone) bool { return g.ID == survivor.ID })
	t.Roster = []Member{{survivor, Active, s.ZoneOf(survivor.ID)}}
	t.Locks.Keep(func(id peer.ID) bool { return id == survivor.ID })
	for _, p := range t.Pools {
		p.Table = table.New(cluster, p.Key.Slot, p.Key.Place, p.Ring.Size())
	}
	return t, nil
}

// Supposing returns the state in which a batch has been decided of which nobody can say whether it
// was, for a peer that cannot ask the others. What others have by it they may be using, and so may their
// containers; what it takes from them they may be using still. The peer gets nothing of anybody's, and
// what it has let go may be anybody's by now. s is not changed.
func (s *State) Supposing(batch []Command, self peer.ID) (*State, error) {
	t, err := DecodeState(s.Encode())
	if err != nil {
		return nil, err
	}
	t.Apply(batch)
	for i := range t.Former {
		g := &t.Former[i]
		if before := s.Gone(g.ID); before == nil || !before.Forgotten {
			g.Forgotten = false
		}
	}
	for _, m := range s.Roster { // whether it has left nobody can say
		if t.Member(m.ID) == nil && t.Gone(m.ID) == nil {
			t.Former = append(t.Former, Gone{Member: m, Evicted: t.Slot})
		}
	}
	for _, g := range s.Former { // likewise, where it had been admitted again
		if t.Member(g.ID) == nil && t.Gone(g.ID) == nil {
			t.Former = append(t.Former, g)
		}
	}
	heir := ring.Free
	if i := slices.IndexFunc(t.Roster, func(m Member) bool { return m.ID != self }); i >= 0 {
		heir = t.Roster[i].ID
	}
	for _, was := range s.Pools {
		if p := t.Pool(was.Key); p != nil {
			p.giveBack(was, self, heir, ring.Version(t.Slot))
		}
	}
	return DecodeState(t.Encode()) // no digest of it may have been kept
}

// giveBack makes what is free, or self's, whose it was before, but what self had itself and has let
// go the heir's.
func (p *Pool) giveBack(was *Pool, self, heir peer.ID, version ring.Version) {
	for r, before := range was.Ring.All() {
		if before.Owner == ring.Free {
			continue
		}
		var parts []addr.Range
		for part, now := range p.Ring.Within(r) {
			switch {
			case now.Owner == before.Owner:
			case now.Owner == self, now.Owner == ring.Free:
				parts = append(parts, part)
			case now.Owner == ring.Reserved && (before.Owner != self || heir != ring.Free):
				parts = append(parts, p.keptIn(part)...) // it was lent, and self could borrow it
			}
		}
		for _, part := range parts {
			switch before.Owner {
			case self:
				p.Ring.Assign(part, heir, version)
			case ring.Reserved:
				p.Ring.Assign(part, ring.Reserved, version)
				p.reserveAgain(was, part)
			default:
				p.Ring.Assign(part, before.Owner, version)
			}
		}
	}
	for _, u := range was.Users {
		p.addUser(u)
	}
}

// keptIn returns what of a range is kept for names.
func (p *Pool) keptIn(in addr.Range) (parts []addr.Range) {
	for _, r := range p.Reserved {
		if kept := r.Range.Intersect(in); r.Kind == KindKeptForName && !kept.Empty() {
			parts = append(parts, kept)
		}
	}
	return parts
}

// reserveAgain brings back what was reserved in a range, where that has ended.
func (p *Pool) reserveAgain(was *Pool, in addr.Range) {
	for _, r := range was.Reserved {
		r.Range = r.Range.Intersect(in)
		if r.Range.Empty() {
			continue
		}
		if i, there := p.reservationIn(r.Range); !there {
			p.Reserved = slices.Insert(p.Reserved, i, r)
		}
	}
}

// Forgo makes what a peer was about to give away somebody else's who was evicted: it has
// not heard whether that was decided, and then others may use it. What it has freed may
// be anybody's by then, and goes to the first of them that is not forgotten.
func (s *State) Forgo(author peer.ID, actions []Action) {
	for _, a := range actions {
		var key PoolKey
		var r addr.Range
		var to peer.ID
		switch a := a.(type) {
		case Give:
			key, r, to = a.Pool, a.Range, a.To
		case Close:
			key, r = a.Pool, a.Range
		case Reserve:
			s.reserve(author, a) // another's network may keep it back
			continue
		default:
			continue
		}
		if g := s.Gone(to); g == nil || g.Forgotten {
			i := slices.IndexFunc(s.Former, func(g Gone) bool { return !g.Forgotten })
			if i < 0 {
				continue
			}
			to = s.Former[i].ID
		}
		if p := s.Pool(key); p != nil && p.Ring.Owns(author, r) {
			s.assign(p, r, to)
		}
	}
}

// UsedBy reports whether a peer has networks on the pool.
func (p *Pool) UsedBy(id peer.ID) bool {
	_, ok := slices.BinarySearchFunc(p.Users, id, peer.ID.Compare)
	return ok
}

func (p *Pool) addUser(id peer.ID) {
	if i, ok := slices.BinarySearchFunc(p.Users, id, peer.ID.Compare); !ok {
		p.Users = slices.Insert(p.Users, i, id)
	}
}

func (p *Pool) dropUser(id peer.ID) {
	p.Users = slices.DeleteFunc(p.Users, func(u peer.ID) bool { return u == id })
}

// Parties returns the peers that own a part of the pool or have networks on it, in order of their IDs.
func (p *Pool) Parties() []peer.ID {
	out := slices.Clone(p.Users)
	for t := range p.Ring.Tokens() {
		if t.Owner != ring.Free && t.Owner != ring.Reserved {
			out = append(out, t.Owner)
		}
	}
	slices.SortFunc(out, peer.ID.Compare)
	return slices.Compact(out)
}

// Operated reports whether an operator keeps something in the pool back.
func (p *Pool) Operated() bool {
	return slices.ContainsFunc(p.Reserved, func(r Reservation) bool { return r.Kind.Operated() })
}

// KeptBack returns a hash of what operators keep back in the pool: 0 where that
// is nothing.
func (p *Pool) KeptBack() uint64 {
	var b []byte
	for _, r := range p.Reserved {
		if r.Kind.Operated() {
			b = appendReservation(b, r)
		}
	}
	if b == nil {
		return 0
	}
	return table.Hash(0, 0, b)
}

// ReservationAt returns the reservation that holds o, or nil.
func (p *Pool) ReservationAt(o addr.Offset) *Reservation {
	i, ok := p.reservationIndex(o)
	if !ok {
		return nil
	}
	return &p.Reserved[i]
}

// ReservedIn returns the reservations that have addresses in a range. The caller does not change them.
func (p *Pool) ReservedIn(r addr.Range) []Reservation {
	from, _ := p.reservationIndex(r.Start)
	to := from
	for to < len(p.Reserved) && p.Reserved[to].Range.Start < r.End {
		to++
	}
	return p.Reserved[from:to]
}

// reservationIndex returns the index of the reservation that holds o, or the
// index at which one would stand.
func (p *Pool) reservationIndex(o addr.Offset) (int, bool) {
	lo, hi := 0, len(p.Reserved) // those before lo end at or before o, from hi on behind it
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); p.Reserved[mid].Range.End <= o {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(p.Reserved) && p.Reserved[lo].Range.Start <= o
}

// Check reports whatever contradicts what a state must be: rings that are no
// rings, pools that overlap, reservations that are not what the ring says,
// peers that stand twice, a digest that is of something else. It is slow, and
// meant for tests and for operators.
func (s *State) Check() error {
	divided := make([]division, len(s.Pools))
	for i, p := range s.Pools {
		divided[i] = divisionOf(p.Ring)
	}
	errs := []error{s.check(divided), s.checkHashes(), s.Identities.Check(), s.Locks.Check()}
	for _, p := range s.Pools {
		if err := p.Ring.Check(); err != nil {
			errs = append(errs, fmt.Errorf("pool %v: %w", p.CIDR, err))
		}
	}
	return errors.Join(errs...)
}

// division is what the tokens of a ring say together.
type division struct {
	owners   []peer.ID  // those that have some, nobody and the pool itself among them
	reserved addr.Count // addresses that are the pool's own
}

func divisionOf(r *ring.Ring) (d division) {
	met := map[peer.ID]bool{}
	for part, t := range r.All() {
		if !met[t.Owner] {
			met[t.Owner] = true
			d.owners = append(d.owners, t.Owner)
		}
		if t.Owner == ring.Reserved {
			d.reserved += part.Size()
		}
	}
	return d
}

// check is [State.Check] without what is known of a state that was just decoded:
// its rings are rings, and nothing of it has been hashed. It is told how they are divided.
func (s *State) check(divided []division) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	seen := map[peer.ID]bool{}
	for _, m := range s.Roster {
		if seen[m.ID] || m.ID == ring.Free || m.ID == ring.Reserved {
			bad("peer %v stands twice in the roster, or is none", m.ID)
		}
		seen[m.ID] = true
	}
	for _, g := range s.Former {
		if seen[g.ID] {
			bad("peer %v is evicted and stands elsewhere too", g.ID)
		}
		seen[g.ID] = true
	}
	if len(s.byAddress) != len(s.Pools) || !slices.IsSortedFunc(s.byAddress, SortedBy) {
		bad("the %d pools are not found by their subnets", len(s.Pools))
	}
	for i, p := range s.byAddress { // of those that lie in one the first follows it
		if i > 0 && s.byAddress[i-1].CIDR.Overlaps(p.CIDR) {
			bad("pools %v and %v overlap", s.byAddress[i-1].CIDR, p.CIDR)
		}
	}
	names := map[string]bool{}
	for i, p := range s.Pools {
		if i > 0 && s.Pools[i-1].Key.Compare(p.Key) >= 0 {
			bad("pool %v stands out of order", p.Key)
		}
		if p.Name != "" && names[p.Name] {
			bad("two pools have the name %q", p.Name)
		}
		names[p.Name] = true
		if s.PoolOf(p.CIDR) != p {
			bad("pool %v is not found by its subnet", p.CIDR)
		}
		errs = append(errs, p.check(divided[i], seen))
	}
	return errors.Join(errs...)
}

// check is the part of [State.check] that is about one pool. peers are those that are or were in the roster.
func (p *Pool) check(divided division, peers map[peer.ID]bool) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.Ring.Size() != addr.Size(p.CIDR) {
		bad("pool %v has a ring of %d addresses", p.CIDR, p.Ring.Size())
	}
	for _, id := range divided.owners {
		if id != ring.Reserved && id != ring.Free && !peers[id] {
			bad("pool %v: %v, who owns a part of it, never was a peer", p.CIDR, id)
		}
	}
	reserved := divided.reserved
	for j, r := range p.Reserved {
		if j > 0 && p.Reserved[j-1].Range.End > r.Range.Start {
			bad("pool %v: reservations %v and %v overlap", p.CIDR, p.Reserved[j-1].Range, r.Range)
		}
		if r.Range.End > addr.Offset(p.Ring.Size()) {
			bad("pool %v: reservation %v lies beyond it", p.CIDR, r.Range)
			continue
		}
		if p.lent(r) {
			continue
		}
		if !p.Ring.Owns(ring.Reserved, r.Range) {
			bad("pool %v: %v is reserved as %v, and not so in the ring", p.CIDR, r.Range, r.Kind)
		}
		reserved -= r.Range.Size()
	}
	for j, id := range p.Users {
		if !peers[id] || j > 0 && p.Users[j-1].Compare(id) >= 0 {
			bad("pool %v: user %v stands out of order, or never was a peer", p.CIDR, id)
		}
	}
	if reserved != 0 {
		bad("pool %v: reserved ranges and reservations differ by %d addresses", p.CIDR, reserved)
	}
	return errors.Join(errs...)
}
