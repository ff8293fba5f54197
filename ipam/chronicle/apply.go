package chronicle

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/table"
)

// Outcome says what became of one command of a slot. It is for its author,
// and no part of the state.
type Outcome struct {
	Command Command
	// Refused says why the command had no effect, in a few words; empty if it
	// had.
	Refused string
	// Range is what an Open took.
	Range addr.Range
	// Own are the parts, in order, that a Reserve took from its author; the rest was free.
	Own []addr.Range
	// Freed is what an Unuse ended the reservation of, in order.
	Freed []addr.Range
	// Pool is what a CreatePool made.
	Pool PoolKey
	// Fence is that of the lock that a Lock gave to its author.
	Fence uint64
	// Identity is the number that an Identify gave.
	Identity uint64
}

// Apply makes slot s.Slot+1 of the batch. It never fails: what a decided
// batch cannot do it leaves undone, equally on all peers.
func (s *State) Apply(batch []Command) []Outcome {
	s.Slot++
	out := make([]Outcome, 0, len(batch))
	for place, c := range batch {
		o := Outcome{Command: c}
		if c.Number <= s.numbers[c.Author] {
			o.Refused = "a command of that number was applied before"
		} else {
			if s.numbers == nil {
				s.numbers = map[peer.ID]uint64{}
			}
			s.setNumber(c.Author, c.Number)
			s.touch(c.Action)
			s.act(c, uint32(place), &o)
		}
		out = append(out, o)
	}
	return out
}

// act applies one command whose number is new, and writes to o what became of
// it.
func (s *State) act(c Command, place uint32, o *Outcome) {
	if found, ok := c.Action.(Found); ok {
		o.Refused = s.found(found)
		return
	}
	if s.Cluster == ([16]byte{}) {
		o.Refused = "there is no cluster yet"
		return
	}
	switch a := c.Action.(type) {
	case CreatePool:
		o.Pool = PoolKey{s.Slot, place}
		o.Refused = s.createPool(c.Author, a, o.Pool)
	case DeletePool:
		o.Refused = s.deletePool(a)
	case Open:
		o.Range, o.Refused = s.open(c.Author, a)
	case Close:
		o.Refused = s.move(c.Author, a.Pool, a.Range, ring.Free)
	case Give:
		if s.Member(a.To) == nil {
			o.Refused = "the receiver is not in the roster"
			return
		}
		o.Refused = s.move(c.Author, a.Pool, a.Range, a.To)
	case Reserve:
		o.Own, o.Refused = s.reserve(c.Author, a)
	case Unreserve:
		o.Refused = s.unreserve(a)
	case Borrow:
		o.Refused = s.borrow(c.Author, a)
	case NamePool:
		o.Refused = s.namePool(a)
	case Use:
		o.Refused = s.use(c.Author, a)
	case Unuse:
		o.Freed, o.Refused = s.unuse(c.Author, a)
	case Raise:
		o.Refused = s.raise(a)
	case Identify:
		o.Identity, o.Refused = s.identify(c.Author, a)
	case Collect:
		o.Refused = s.collect(c.Author, a)
	case Lock:
		o.Fence, o.Refused = s.lock(c.Author, a)
	case Unlock:
		o.Refused = s.unlock(a.Name, a.Fence, c.Author)
	case Expire:
		o.Refused = s.expire(c.Author, a)
	case SetZone:
		o.Refused = s.setZone(c.Author, a)
	default:
		o.Refused = s.actOnPeer(c.Author, c.Action)
	}
}

func (s *State) found(a Found) (refused string) {
	if s.Slot != 1 || s.Cluster != ([16]byte{}) {
		return "the cluster was founded before"
	}
	if a.Cluster == ([16]byte{}) || len(a.Peers) == 0 {
		return "a cluster needs an ID and a peer"
	}
	s.Cluster, s.Level = a.Cluster, 1
	for _, f := range a.Peers {
		if s.Member(f.ID) == nil && isPeer(f.ID) {
			s.Roster = append(s.Roster, Member{Founder: f, Phase: Active})
		}
	}
	return ""
}

func isPeer(id peer.ID) bool { return id != ring.Free && id != ring.Reserved }

func (s *State) createPool(author peer.ID, a CreatePool, key PoolKey) (refused string) {
	cidr, err := addr.Checked(a.CIDR)
	if err != nil || cidr != a.CIDR {
		return "not the subnet of a pool"
	}
	if there := s.Overlapping(cidr); len(there) > 0 {
		return "it overlaps pool " + there[0].CIDR.String()
	}
	size := addr.Size(cidr)
	p := &Pool{
		Key: key, CIDR: cidr, Origin: a.Origin,
		Ring:  ring.New(size, ring.Version(s.Slot)),
		Table: table.New(s.Cluster, key.Slot, key.Place, size),
	}
	s.deal(p, author, a)
	if a.Origin != FromOperator && s.Member(author) != nil {
		p.Users = []peer.ID{author}
	}
	for _, r := range a.Reserved {
		if r.Kind.Shared() && len(p.Users) == 0 {
			continue // no network that goes would end it
		}
		if r.Range.Empty() || r.Range.End > addr.Offset(size) || r.Kind == KindKeptForName && r.Range.Size() != 1 {
			continue
		}
		if i, taken := p.reservationIn(r.Range); !taken {
			p.Reserved = slices.Insert(p.Reserved, i, r)
			p.Ring.Assign(r.Range, ring.Reserved, ring.Version(s.Slot))
		}
	}
	s.Pools = append(s.Pools, p)
	s.byAddress = slices.Insert(s.byAddress, s.rank(cidr), p)
	return ""
}

// deal gives every peer that does not drain, and that its author could reach, an
// equal share of a new pool, in roster order: aligned blocks from the pool's first
// address on, as large a power of two as fits all of them into the part that is dealt.
func (s *State) deal(p *Pool, author peer.ID, a CreatePool) {
	dealt := p.Ring.Size()
	switch a.Deal {
	case DealAll:
	case DealHalf:
		dealt = addr.FloorPow2(dealt/2 + dealt%2)
	case DealNone:
		return
	}
	var hands []peer.ID
	for _, m := range s.Roster {
		if m.Phase != Draining && (m.ID == author || !slices.Contains(a.Away, m.ID)) {
			hands = append(hands, m.ID)
		}
	}
	if len(hands) == 0 {
		return
	}
	if len(hands) == 1 {
		p.Ring.Assign(addr.Range{End: addr.Offset(dealt)}, hands[0], ring.Version(s.Slot))
		return
	}
	share := addr.Offset(addr.FloorPow2(dealt / addr.Count(len(hands))))
	for i, id := range hands {
		start := addr.Offset(i) * share
		p.Ring.Assign(addr.Range{Start: start, End: start + share}, id, ring.Version(s.Slot))
	}
}

func (s *State) deletePool(a DeletePool) (refused string) {
	p := s.Pool(a.Pool)
	if p == nil {
		return "there is no such pool"
	}
	for t := range p.Ring.Tokens() {
		if isPeer(t.Owner) {
			return "a peer owns space in it"
		}
	}
	switch {
	case len(p.Users) > 0:
		return "a peer has networks on it"
	case a.Kept != p.KeptBack():
		return "operators keep something else back in it by now"
	}
	isIt := func(q *Pool) bool { return q == p }
	s.Pools, s.byAddress = slices.DeleteFunc(s.Pools, isIt), slices.DeleteFunc(s.byAddress, isIt)
	return ""
}

// poolFor returns the pool that a command of a peer of the roster is about.
func (s *State) poolFor(author peer.ID, key PoolKey) (p *Pool, refused string) {
	p = s.Pool(key)
	switch {
	case p == nil:
		return nil, "there is no such pool"
	case s.Member(author) == nil:
		return nil, "its author is not in the roster"
	}
	return p, ""
}

func (s *State) use(author peer.ID, a Use) (refused string) {
	p, refused := s.poolFor(author, a.Pool)
	if refused == "" {
		p.addUser(author)
	}
	return refused
}

func (s *State) unuse(author peer.ID, a Unuse) (freed []addr.Range, refused string) {
	p := s.Pool(a.Pool)
	switch {
	case p == nil:
		return nil, "there is no such pool"
	case !p.UsedBy(author):
		return nil, "its author does not use it"
	}
	p.dropUser(author)
	return s.freeShared(p), ""
}

func (s *State) identify(author peer.ID, a Identify) (number uint64, refused string) {
	if s.Member(author) == nil {
		return 0, "its author is not in the roster"
	}
	return s.Identities.Identify(a.Labels)
}

func (s *State) collect(author peer.ID, a Collect) (refused string) {
	switch {
	case s.Member(author) == nil:
		return "its author is not in the roster"
	case !s.Identities.Collect(a.Numbers):
		return "no label set has one of these numbers"
	}
	return ""
}

func (s *State) lock(author peer.ID, a Lock) (fence uint64, refused string) {
	if s.Member(author) == nil {
		return 0, "its author is not in the roster"
	}
	return s.Locks.Take(author, a.Want, s.Slot)
}

func (s *State) unlock(name string, fence uint64, owner peer.ID) (refused string) {
	if !s.Locks.End(name, fence, owner) {
		return "it is not held with that fence"
	}
	return ""
}

func (s *State) expire(author peer.ID, a Expire) (refused string) {
	if s.Member(author) == nil {
		return "its author is not in the roster"
	}
	return s.unlock(a.Name, a.Fence, peer.None)
}

// move makes a range that is all the author's another owner's.
func (s *State) move(author peer.ID, key PoolKey, r addr.Range, to peer.ID) (refused string) {
	p := s.Pool(key)
	switch {
	case p == nil:
		return "there is no such pool"
	case !isPeer(author) || !p.Ring.Owns(author, r):
		return "it is not all its author's"
	}
	s.assign(p, r, to)
	return ""
}

func (s *State) namePool(a NamePool) (refused string) {
	p := s.Pool(a.Pool)
	switch {
	case p == nil:
		return "there is no such pool"
	case !ValidName(a.Name):
		return "that is no name"
	case s.PoolNamed(a.Name) != nil:
		return "another pool has that name"
	case p.Name != "":
		return "the pool has a name"
	}
	p.Name = a.Name
	return ""
}

// MaxName is the longest name of a pool, in bytes.
const MaxName = 63

// ValidName reports whether s can be the name of a pool: 1 to 63 letters,
// digits, dots, dashes and underscores, beginning with a letter or digit, and
// not a subnet or an address.
func ValidName(s string) bool {
	if len(s) == 0 || len(s) > MaxName {
		return false
	}
	alnum := func(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' }
	if !alnum(rune(s[0])) || strings.ContainsFunc(s, func(r rune) bool { return !alnum(r) && !strings.ContainsRune("._-", r) }) {
		return false
	}
	_, err := netip.ParseAddr(s)
	return err != nil
}
