package ipam

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Event is what happens to a [Machine]: a *[Call], a *[Message], a *[Presence], a
// [Tick] or [ClockSet].
type Event interface{ event() }

// Tick says that time has passed. It is due at [Effects.WakeAt], and harmless
// at any other time.
type Tick struct{}

// ClockSet says that somebody has set the host's clock since the last step, while this
// process ran. What was noted before that has another clock's times. So it looks, too, where
// the host was suspended: of that time the clock that nobody sets knows nothing.
type ClockSet struct {
	By time.Duration // how far ahead the clock is of where it would be, negative if it is behind
}

// Call is a request that is answered by one [Reply] with its ID, at once or
// in a later step, and by its deadline at the latest.
type Call struct {
	ID       uint64 // the caller's, unique among the calls that wait
	Deadline time.Time
	Request  Request

	proposed []*replog.Proposal     // what it waits for, or waited for and has not asked about since
	askedAt  time.Time              // when it asked another peer first
	doubted  uint64                 // when it first found that only a list tells who asks, or whether the holder lives
	before   bool                   // it came before the engine last started
	starts   bool                   // the engine may have been starting as it came
	subnet   netip.Prefix           // the subnet that was chosen for it
	inUse    []netip.Prefix         // pools that could make room for it, and that other hosts use
	made     chronicle.PoolKey      // the pool that was made for it
	removed  bool                   // a pool was removed for it
	meant    peer.ID                // the peer that it named, whatever became of it since
	frees    Forgetting             // what the peer that it forgets had
	heldBy   map[addr.Offset]string // who holds what it would exclude, as other peers told
	freed    uint64                 // how many reserved addresses it frees

	leaves   bool // it has had this peer begin to leave
	affirmed bool // what it found to be so already was so when it asked
	partly   bool // what it waits for is only a part of what it asks for
}

// HostRoute is a route of the host itself.
type HostRoute struct {
	To     netip.Prefix // masked
	OnLink bool         // to what is on one of its links; else by another host, or refused
}

// Message is a frame that came from another peer.
type Message struct {
	Frame *wire.Frame
	// Seat is the place of the sender's host in the list of hosts that found
	// a cluster together, from 1; 0 if it is not in it.
	Seat int
}

// Presence says whether another peer can be reached, as far as the carrier of
// messages believes. It is advice: nothing that must be right depends on it.
type Presence struct {
	Peer  peer.ID
	Alive bool
	Name  peer.Name
	Addr  string // where it is, for people and for the next start
	Seat  int    // as in Message
	// Self says that this is about this peer, of which only the seat is told.
	Self bool
}

func (Tick) event()      {}
func (ClockSet) event()  {}
func (*Call) event()     {}
func (*Message) event()  {}
func (*Presence) event() {}

// Request is what a [Call] asks for. The types that can be are those below
// and *PoolRequest, *AddressRequest, *ClientRequest,
// *FreeRequest and *Inventory.
type Request interface{ request() }

type (
	// PoolRelease says that a network is gone (libnetwork's ReleasePool).
	PoolRelease struct{ Network Network }
	// AddressRelease says that an endpoint is gone (libnetwork's
	// ReleaseAddress). It never fails.
	AddressRelease struct {
		Network Network
		Address netip.Addr
	}
	// Withdrawal takes back a grant that could not be delivered.
	Withdrawal struct{ Ticket Ticket }
	// Stranger says that something else on the network answers for an address
	// that was just granted. The address is kept back, unless its grant does
	// not stand any more, or was confirmed since.
	Stranger struct {
		Ticket Ticket
		MAC    MAC // what answered
	}
	// Greeting says that the engine, or this process, has started: what the
	// engine asks for next may be a replay of what it has.
	Greeting struct{}
	// HostAddresses says which addresses the host itself has, on bridges and
	// on the LAN, with their masks. They are in use, whether or not this peer
	// gave them out. In what the host has routes to no subnet is chosen: an
	// engine asks for another one instead of what is on one of its links.
	HostAddresses struct {
		After     Mark           // taken before they were read
		Addresses []netip.Prefix // not masked
		Routes    []HostRoute
	}
	// Blindness says that no inventory will come for now, and that nothing is
	// lost by that: the engine is starting, and replays what it has before it
	// starts containers, or there is no way to ask it at all.
	Blindness struct{}
	// PoolCreation makes a pool that stays until it is removed. It is
	// answered with the pool's status, and whether it is new.
	PoolCreation struct {
		CIDR netip.Prefix
		Name string // empty, or the pool's name
	}
	// PoolRemoval removes a pool in which no address is held.
	PoolRemoval struct{ Pool string }
	// ReserveRequest keeps addresses back for an operator, in the whole cluster:
	// First to Last of one pool, excluded, or one address kept for a name. What
	// is held stays held, and is told. It is answered with a Reserving.
	ReserveRequest struct {
		Pool        string     // a CIDR or the name of a pool; empty: the pool that has First
		First, Last netip.Addr // Last may be First
		Kind        chronicle.Kind
		Note        string // why it is excluded, or the name or MAC that it is kept for; at most chronicle.MaxNote bytes
	}
	// UnreserveRequest ends what ReserveRequest began, for all addresses from
	// First to Last that are reserved as that kind. It is answered with a
	// Reserving that says what was.
	UnreserveRequest struct {
		Pool        string
		First, Last netip.Addr
		Kind        chronicle.Kind
	}
	// DrainRequest makes this peer draining: it takes no more space and gives
	// back what empties. It is refused while another peer drains, or where the others have no room
	// for what is in use here, unless Also is set. Undo makes it active again.
	DrainRequest struct{ Undo, Also bool }
	// LeaveRequest makes this peer leave its cluster: it drains, and is
	// retired as soon as it owns nothing. It is refused while addresses are
	// held, unless forced; then it is evicted, and its space is quarantined.
	LeaveRequest struct{ Force bool }
	// EvictRequest takes a peer that is lost out of the roster. Its ranges
	// stay its own.
	EvictRequest struct{ Peer string } // a name, or the beginning of an ID
	// ForgetRequest states that the host of an evicted peer is gone for good,
	// or will not start cut off, and makes its ranges free. With DryRun it
	// only tells what would be freed. It is answered with a Forgetting.
	ForgetRequest struct {
		Peer   string
		DryRun bool
	}
	// TrustRequest states that a database that was found at another place than it was written
	// at was moved there, and that no other copy of it runs: the peer goes on with it. It is
	// refused where that is not why the peer is suspended, with what ends the suspension.
	TrustRequest struct{}
	// IdentityRequest asks that each of some label sets has a number, and that those of which
	// nobody needs the numbers go. It is answered once all of that is so; what can have no number is
	// refused, after the others have one. Nothing that hands out addresses waits for it.
	IdentityRequest struct {
		Labels  []string // see [identity.Text]; a few at a time
		Collect []uint64 // a few hundred at a time
	}
	// LockRequest asks for a lock of the cluster, for this host. It is answered with the fence. It is refused
	// while somebody else has the lock.
	LockRequest struct{ lock.Want }
	// UnlockRequest ends a lock of this host that has that fence.
	UnlockRequest struct {
		Name  string
		Fence uint64
	}
	// RenewalRequest asks whether this host still has the lock with that fence. It is answered with the fence, or 0 if the
	// lock has ended. A majority of the cluster answers this peer first, so that no peer has taken it for silent.
	RenewalRequest struct {
		Name  string
		Fence uint64
	}
	// RecoverRequest states that a majority of the peers is gone for good,
	// and makes this peer found its cluster anew from its own state.
	RecoverRequest struct{}
)

func (*PoolRequest) request()      {}
func (*PoolRelease) request()      {}
func (*AddressRequest) request()   {}
func (*AddressRelease) request()   {}
func (*Withdrawal) request()       {}
func (*Stranger) request()         {}
func (*Greeting) request()         {}
func (*Inventory) request()        {}
func (*ClientRequest) request()    {}
func (*FreeRequest) request()      {}
func (*HostAddresses) request()    {}
func (*Blindness) request()        {}
func (*PoolCreation) request()     {}
func (*PoolRemoval) request()      {}
func (*ReserveRequest) request()   {}
func (*UnreserveRequest) request() {}
func (*DrainRequest) request()     {}
func (*LeaveRequest) request()     {}
func (*EvictRequest) request()     {}
func (*ForgetRequest) request()    {}
func (*TrustRequest) request()     {}
func (*IdentityRequest) request()  {}
func (*LockRequest) request()      {}
func (*UnlockRequest) request()    {}
func (*RenewalRequest) request()   {}
func (*RecoverRequest) request()   {}
