package call

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/report"
)

// ClientRequest asks for an address for a holder outside Docker: allocate, or
// claim when an address is named. The same holder gets the same address each
// time. It is answered by an [AddressGrant].
type ClientRequest struct {
	Pool    string     // a CIDR or the name of a pool
	Address netip.Addr // the address wanted; invalid: choose one
	ID      string     // the holder, by the name that the caller gives it; 1 to MaxHolder bytes
}

// MaxHolder is the longest name of a holder, in bytes.
const MaxHolder = 255

// FreeRequest frees addresses on this peer: one, or all of a holder. It
// answers what it freed; freeing what is free is no error. An address that a
// live container has is refused.
type FreeRequest struct {
	Pool    string     // a CIDR or the name of a pool; empty: all pools
	ID      string     // as in ringlet ip ls shows it; empty: whoever holds Address
	Address netip.Addr // invalid: all that ID holds
}

// PoolCreation makes a pool that stays until it is removed. It is
// answered with the pool's status, and whether it is new.
type PoolCreation struct {
	CIDR netip.Prefix
	Name string // empty, or the pool's name
}

// PoolRemoval removes a pool in which no address is held.
type PoolRemoval struct{ Pool string }

// ReserveRequest keeps addresses back for an operator, in the whole cluster:
// First to Last of one pool, excluded, or one address kept for a name. What
// is held stays held, and is told. It is answered with a Reserving.
type ReserveRequest struct {
	Pool        string     // a CIDR or the name of a pool; empty: the pool that has First
	First, Last netip.Addr // Last may be First
	Kind        chronicle.Kind
	Note        string // why it is excluded, or the name or MAC that it is kept for; at most chronicle.MaxNote bytes
}

// UnreserveRequest ends what ReserveRequest began, for all addresses from
// First to Last that are reserved as that kind. It is answered with a
// Reserving that says what was.
type UnreserveRequest struct {
	Pool        string
	First, Last netip.Addr
	Kind        chronicle.Kind
}

// CollectRequest frees what a report found to leak, as far as that is still so.
// It is answered with a Collected for each.
type CollectRequest struct {
	Findings []report.Finding
	DryRun   bool // only tell
}

// DrainRequest makes this peer draining: it takes no more space and gives
// back what empties. It is refused while another peer drains, or where the others have no room
// for what is in use here, unless Also is set. Undo makes it active again.
type DrainRequest struct{ Undo, Also bool }

// LeaveRequest makes this peer leave its cluster: it drains, and is
// retired as soon as it owns nothing. It is refused while addresses are
// held, unless forced; then it is evicted, and its space is quarantined.
type LeaveRequest struct{ Force bool }

// EvictRequest takes a peer that is lost out of the roster. Its ranges
// stay its own.
type EvictRequest struct{ Peer string } // a name, or the beginning of an ID

// ForgetRequest states that the host of an evicted peer is gone for good,
// or will not start cut off, and makes its ranges free. With DryRun it
// only tells what would be freed. It is answered with a Forgetting.
type ForgetRequest struct {
	Peer   string
	DryRun bool
}

// TrustRequest states that a database that was found at another place than it was written
// at was moved there, and that no other copy of it runs: the peer goes on with it. It is
// refused where that is not why the peer is suspended, with what ends the suspension.
type TrustRequest struct{}

// IdentityRequest asks that each of some label sets has a number, and that those of which
// nobody needs the numbers go. It is answered once all of that is so; what can have no number is
// refused, after the others have one. Nothing that hands out addresses waits for it.
type IdentityRequest struct {
	Labels  []string // see [identity.Text]; a few at a time
	Collect []uint64 // a few hundred at a time
}

// LockRequest asks for a lock of the cluster, for this host. It is answered with the fence. It is refused
// while somebody else has the lock.
type LockRequest struct{ lock.Want }

// UnlockRequest ends a lock of this host that has that fence.
type UnlockRequest struct {
	Name  string
	Fence uint64
}

// RenewalRequest asks whether this host still has the lock with that fence. It is answered with the fence, or 0 if the
// lock has ended. A majority of the cluster answers this peer first, so that no peer has taken it for silent.
type RenewalRequest struct {
	Name  string
	Fence uint64
}

// RecoverRequest states that a majority of the peers is gone for good,
// and makes this peer found its cluster anew from its own state.
type RecoverRequest struct{}
