package admin

import (
	"context"
	"net/netip"

	"github.com/ringlet/ringlet/ipam"
)

// Backend is what the API asks of a peer. Its methods are safe for concurrent
// use and return when ctx ends. Their errors are shown to the caller if they
// wrap an [ipam.Error], and are logged otherwise. A pool is named by its CIDR,
// masked, or by its name.
//
// What a method returns is not changed by the API, and no longer by the
// Backend.
type Backend interface {
	// Client allocates an address for a holder outside Docker, or claims the
	// one named.
	Client(ctx context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error)
	// Free frees and returns what it freed; nothing is no error.
	Free(ctx context.Context, r ipam.FreeRequest) ([]ipam.AddressStatus, error)
	// Status returns the status of the peer and its cluster, which shows what
	// was done before.
	Status(ctx context.Context) (ipam.Status, error)
	// Snapshot returns the status within 100 ms, whatever the allocator does: if
	// it is not to be had, the last one that was.
	Snapshot(ctx context.Context) (ipam.Status, error)
	// List returns a portion of what is held, rests or is reserved, or of what a
	// holder has, in the order of addresses. It takes little of the allocator's time.
	List(ctx context.Context, q ipam.Listing) (ipam.Portion, error)
	// Table returns a portion of the rows of the tables of pools, in the order of addresses.
	Table(ctx context.Context, q ipam.TableListing) (ipam.TablePortion, error)
	// Who tells what one address is used for.
	Who(ctx context.Context, a netip.Addr) (ipam.AddressStatus, error)
	// Explain tells the whole story of one address.
	Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error)
	// CreatePool defines a pool, or names the one that there is, and reports
	// whether it is new. The name may be empty.
	CreatePool(ctx context.Context, cidr netip.Prefix, name string) (pool ipam.PoolStatus, created bool, err error)
	// RemovePool removes a pool that nothing holds an address of.
	RemovePool(ctx context.Context, pool string) error
	// Reserve keeps addresses back for an operator, and tells what was in the
	// way.
	Reserve(ctx context.Context, r ipam.ReserveRequest) (ipam.Reserving, error)
	// Unreserve ends what Reserve began; what is not reserved is no error.
	Unreserve(ctx context.Context, r ipam.UnreserveRequest) (ipam.Reserving, error)
	// Reservations lists what is kept back in a pool, in all if it is empty.
	Reservations(ctx context.Context, pool string) ([]ipam.ReservationStatus, error)
	// Drain has the peer give its space back and take no more, or ends that. It
	// returns when that is decided.
	Drain(ctx context.Context, r ipam.DrainRequest) error
	// Leave has the peer leave its cluster, and returns when it has. If ctx ends
	// before, the peer goes on leaving; asked again, Leave waits for the rest.
	Leave(ctx context.Context, force bool) error
	// Join meets whoever is at an address, host or host:port, looks for them from
	// then on, and tells who they are.
	Join(ctx context.Context, address string) ([]Met, error)
	// Evict takes a lost peer, by name or ID, out of the roster; one that is out
	// of it is no error.
	Evict(ctx context.Context, peer string) error
	// Forget frees the space of an evicted peer whose host is gone for good,
	// and tells how much that is. With dryRun it only tells.
	Forget(ctx context.Context, peer string, dryRun bool) (ipam.Forgetting, error)
	// Recover founds the cluster anew from what this peer knows, without the
	// others.
	Recover(ctx context.Context) error
	// Rejoin has the host of a suspended peer, or of one that has left, start over as a
	// new peer, and tells what that carries over. With dryRun it only tells. If ctx
	// ends before, it goes on, and Kept is empty.
	Rejoin(ctx context.Context, dryRun bool) (Rejoining, error)
	// Trust has the peer go on with a database that was moved to where it is.
	Trust(ctx context.Context) (Trusted, error)
	// Check holds what the peer knows against its invariants, its database and
	// what its engine has.
	Check(ctx context.Context) (ipam.Audit, error)
	// Collect frees what a report found to leak, as far as that is still so.
	Collect(ctx context.Context, r ipam.CollectRequest) ([]ipam.Collected, error)
}
