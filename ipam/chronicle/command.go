package chronicle

import (
	"fmt"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Command is one line of a slot: an action with its author and number.
type Command struct {
	Author peer.ID
	Number uint64
	Action Action
}

// Concerns returns the peers to which a command matters at once: its author, and those that get something by it.
func (c Command) Concerns() []peer.ID {
	ids := []peer.ID{c.Author}
	switch a := c.Action.(type) {
	case Give:
		ids = append(ids, a.To)
	case Admit:
		ids = append(ids, a.ID)
	case Found:
		for _, f := range a.Peers {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// IsRevocable reports whether the author of an action may withdraw it before it is decided, as what it hears from others
// tells: then it is not to bind a vote unasked.
func IsRevocable(a Action) bool {
	_, ok := a.(Forget)
	return ok
}

// Takes returns the pool and the range that an action takes from its author, or may take.
func Takes(a Action) (k PoolKey, r addr.Range, takes bool) {
	switch a := a.(type) {
	case Close:
		return a.Pool, a.Range, true
	case Give:
		return a.Pool, a.Range, true
	case Reserve:
		return a.Pool, a.Range, true
	}
	return k, r, false
}

// Bulk returns how many bytes an action takes beside the few hundred that any may take.
func Bulk(a Action) int {
	switch a := a.(type) {
	case CreatePool:
		return 16 * len(a.Away)
	case Identify:
		return len(a.Labels)
	case Collect:
		return 8 * len(a.Numbers)
	case Lock:
		return len(a.Name) + len(a.Holder)
	}
	return 0
}

// Action is what a command does. The types below are all there are.
type Action interface {
	// opcode is the action's number in encodings, never reused.
	opcode() byte
	fmt.Stringer
}

// PoolKey names a pool for ever: the slot that created it and the place of
// its CreatePool in that slot. A pool that is created again is another pool.
type PoolKey struct {
	Slot  uint64
	Place uint32
}

// Compare orders keys by slot and place.
func (k PoolKey) Compare(l PoolKey) int {
	switch {
	case k.Slot != l.Slot && k.Slot < l.Slot, k.Slot == l.Slot && k.Place < l.Place:
		return -1
	case k == l:
		return 0
	}
	return 1
}

// String returns slot.place.
func (k PoolKey) String() string { return fmt.Sprintf("%d.%d", k.Slot, k.Place) }

// Deal says how much of a new pool is dealt out at once.
type Deal uint8

// The deals, values of the setting RINGLET_DEAL.
const (
	DealHalf Deal = 0
	DealAll  Deal = 1
	DealNone Deal = 2
)

// Origin says who wanted a pool, and so when it may go.
type Origin uint8

// The origins of pools. Their numbers are never reused.
const (
	FromNetwork  Origin = 0 // a network with that subnet: it makes room for others once nobody uses it
	FromChoice   Origin = 1 // a network without a subnet: it goes with its last network
	FromOperator Origin = 2 // an operator: it stays until it is removed
)

// String returns the origin as status shows it.
func (o Origin) String() string {
	switch o {
	case FromChoice:
		return "choice"
	case FromOperator:
		return "operator"
	case FromNetwork:
	}
	return "network"
}

// Kind says why a range is reserved.
type Kind uint8

// The kinds of reservations. Their numbers are never reused.
const (
	KindNetwork     Kind = 1 // the address of the IPv4 network itself (RFC 1122)
	KindBroadcast   Kind = 2 // the IPv4 broadcast address (RFC 919)
	KindRouter      Kind = 3 // the IPv6 subnet-router anycast address (RFC 4291, 2.6.1)
	KindGateway     Kind = 4 // a gateway shared by all engines
	KindAuxiliary   Kind = 5 // an auxiliary address of a network
	KindExcluded    Kind = 6 // excluded by an operator
	KindKeptForName Kind = 7 // kept for whom the note names; one address, see Borrow
)

var kinds = [...]string{
	KindNetwork: "network address", KindBroadcast: "broadcast address", KindRouter: "subnet-router anycast address",
	KindGateway: "gateway", KindAuxiliary: "auxiliary address", KindExcluded: "excluded", KindKeptForName: "kept for a name",
}

// String names the kind for people.
func (k Kind) String() string {
	if int(k) < len(kinds) && kinds[k] != "" {
		return kinds[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Fixed reports whether the kind comes with the pool and cannot be unreserved.
func (k Kind) Fixed() bool { return k == KindNetwork || k == KindBroadcast || k == KindRouter }

// Operated reports whether an operator asks for reservations of the kind, and
// for their end.
func (k Kind) Operated() bool { return k == KindExcluded || k == KindKeptForName }

// Shared reports whether any network may share what is reserved so. It goes once nobody
// has networks on the pool.
func (k Kind) Shared() bool { return k == KindGateway || k == KindAuxiliary }

// Reservation keeps a range back from being handed out by itself.
type Reservation struct {
	Range addr.Range
	Kind  Kind
	Note  string // at most MaxNote bytes
}

// MaxNote is the longest note and the longest pool name, in bytes.
const MaxNote = 255

// Phase is where a peer of the roster stands in its life.
type Phase uint8

// The phases, after GLB Director.
const (
	Filling  Phase = 1 // admitted, has not opened a chunk yet
	Active   Phase = 2
	Draining Phase = 3 // opens nothing, gives its space back
)

// String names the phase.
func (p Phase) String() string {
	switch p {
	case Filling:
		return "filling"
	case Active:
		return "active"
	case Draining:
		return "draining"
	}
	return fmt.Sprintf("phase %d", uint8(p))
}

// Founder is a peer as Found and Admit introduce it.
type Founder struct {
	ID      peer.ID
	Name    peer.Name
	Boot    peer.Boot
	Machine uint64 // hash of the machine's ID, 0 if it has none
}

type (
	// Found begins a cluster; it is the command of slot 1, and has no effect
	// elsewhere.
	Found struct {
		Cluster [16]byte // random
		Peers   []Founder
	}
	// CreatePool makes a pool if it overlaps none. Its author deals it out, and
	// uses it if it made it for a network.
	CreatePool struct {
		CIDR     netip.Prefix
		Origin   Origin
		Deal     Deal
		Reserved []Reservation
		Away     []peer.ID // get no part of it: its author cannot reach them
	}
	// DeletePool removes a pool in which no range is any peer's, on which no
	// peer has networks, and in which operators keep back what its author knows
	// of: it may have been cut off since.
	DeletePool struct {
		Pool PoolKey
		Kept uint64 // Pool.KeptBack of its author
	}
	// Open takes the free aligned block of Size addresses in Range that ranks
	// best for the author in the table, or one of the largest smaller size
	// that there is. The author must be in the roster.
	Open struct {
		Pool  PoolKey
		Range addr.Range
		Size  addr.Count
	}
	// Close frees a range that is all the author's.
	Close struct {
		Pool  PoolKey
		Range addr.Range
	}
	// Give makes a range that is all the author's another's, who is in the
	// roster.
	Give struct {
		Pool  PoolKey
		Range addr.Range
		To    peer.ID
	}
	// Reserve keeps back a range of which all is free or the author's. One
	// address of the author's that is to be kept for a name stays its own.
	Reserve struct {
		Pool PoolKey
		Reservation
	}
	// Unreserve frees a range of one reservation of that kind, all of it or a
	// part. The rest stays reserved by this one command: to reserve it again
	// would take one that may have no effect any more, or come in a later slot.
	// What somebody has borrowed of it stays theirs, as any other address.
	Unreserve struct {
		Pool  PoolKey
		Range addr.Range
		Kind  Kind
	}
	// Borrow makes an address that is kept for a name, and that nobody has
	// borrowed, the author's: whom it is kept for is there. The reservation
	// stays. Whatever would make the address free makes it reserved again.
	Borrow struct {
		Pool PoolKey
		At   addr.Offset
	}
	// Admit appends a peer that is not in the roster, as filling, if it speaks
	// the level of the state. Ranges that are still its own are its own.
	Admit struct {
		Founder
		Speaks Level
	}
	// SetState sets the phase of its author, who is in the roster: from filling to active, from there to draining, and back.
	// It drains while another one does only if Also is set (R76).
	SetState struct {
		Peer  peer.ID
		Phase Phase
		Also  bool
	}
	// Evict removes a peer that is not the last from the roster. Its ranges
	// stay its own: quarantine.
	Evict struct{ Peer peer.ID }
	// Retire removes a peer that owns nothing, has no networks, and is not the
	// last, from the roster.
	Retire struct{ Peer peer.ID }
	// Forget frees the ranges of a peer that was evicted at Evicted and not
	// admitted since.
	Forget struct {
		Peer    peer.ID
		Evicted uint64
	}
	// Inherit makes the ranges of an evicted, never forgotten peer of the
	// author's machine the author's.
	Inherit struct{ Former peer.ID }
	// NamePool gives a pool a name that no pool has.
	NamePool struct {
		Name string // 1..MaxNote bytes
		Pool PoolKey
	}
	// Use says that the author, who is in the roster, has networks on a pool.
	// Who owns nothing in a pool, because it is full or all of it is reserved,
	// has nothing else that keeps it from being deleted under them.
	Use struct{ Pool PoolKey }
	// Unuse says that it has none there any more.
	Unuse struct{ Pool PoolKey }
	// Identify gives a label set that has no number the next one. Its author
	// is in the roster.
	Identify struct {
		Labels string // see [identity.Text]
	}
	// Collect removes the label sets that have these numbers, which nobody gets
	// again. Its author is in the roster.
	Collect struct{ Numbers []uint64 }
	// Lock gives a lock that nobody holds to its author, who is in the roster.
	Lock struct{ lock.Want }
	// Unlock ends a lock of its author's.
	Unlock struct {
		Name  string
		Fence uint64
	}
	// Expire ends a lock whose owner is silent. Its author is in the roster.
	Expire struct {
		Name  string
		Fence uint64
	}
)

func (Found) opcode() byte      { return 1 }
func (CreatePool) opcode() byte { return 2 }
func (DeletePool) opcode() byte { return 3 }
func (Open) opcode() byte       { return 4 }
func (Close) opcode() byte      { return 5 }
func (Give) opcode() byte       { return 6 }
func (Reserve) opcode() byte    { return 7 }
func (Unreserve) opcode() byte  { return 8 }
func (Admit) opcode() byte      { return 9 }
func (SetState) opcode() byte   { return 10 }
func (Evict) opcode() byte      { return 11 }
func (Retire) opcode() byte     { return 12 }
func (Forget) opcode() byte     { return 13 }
func (Inherit) opcode() byte    { return 14 }
func (NamePool) opcode() byte   { return 15 }
func (Use) opcode() byte        { return 16 }
func (Unuse) opcode() byte      { return 17 }
func (Borrow) opcode() byte     { return 18 }
func (Identify) opcode() byte   { return 20 }
func (Collect) opcode() byte    { return 21 }
func (Lock) opcode() byte       { return 22 }
func (Unlock) opcode() byte     { return 23 }
func (Expire) opcode() byte     { return 24 }

func (a Found) String() string {
	return fmt.Sprintf("found %x with %d peers", a.Cluster[:4], len(a.Peers))
}
func (a CreatePool) String() string { return "create pool " + a.CIDR.String() }
func (a DeletePool) String() string { return "delete pool " + a.Pool.String() }
func (a Open) String() string       { return fmt.Sprintf("open %d in %v of %v", a.Size, a.Range, a.Pool) }
func (a Close) String() string      { return fmt.Sprintf("close %v of %v", a.Range, a.Pool) }
func (a Give) String() string {
	return fmt.Sprintf("give %v of %v to %v", a.Range, a.Pool, a.To.Short())
}

func (a Reserve) String() string   { return fmt.Sprintf("reserve %v of %v: %v", a.Range, a.Pool, a.Kind) }
func (a Unreserve) String() string { return fmt.Sprintf("unreserve %v of %v", a.Range, a.Pool) }
func (a Admit) String() string     { return "admit " + a.ID.Short() }
func (a SetState) String() string  { return fmt.Sprintf("set %v %v", a.Peer.Short(), a.Phase) }
func (a Evict) String() string     { return "evict " + a.Peer.Short() }
func (a Retire) String() string    { return "retire " + a.Peer.Short() }
func (a Forget) String() string {
	return fmt.Sprintf("forget %v of slot %d", a.Peer.Short(), a.Evicted)
}
func (a Use) String() string      { return "use " + a.Pool.String() }
func (a Unuse) String() string    { return "use no more " + a.Pool.String() }
func (a Inherit) String() string  { return "inherit from " + a.Former.Short() }
func (a Identify) String() string { return "identify " + a.Labels }
func (a Collect) String() string  { return fmt.Sprintf("collect %d identities", len(a.Numbers)) }
func (a Lock) String() string     { return "lock " + a.Name }
func (a Unlock) String() string   { return fmt.Sprintf("unlock %s of %d", a.Name, a.Fence) }
func (a Expire) String() string   { return fmt.Sprintf("expire %s of %d", a.Name, a.Fence) }
func (a Borrow) String() string   { return fmt.Sprintf("borrow %d of %v", a.At, a.Pool) }
func (a NamePool) String() string { return fmt.Sprintf("name pool %v %q", a.Pool, a.Name) }
