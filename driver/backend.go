package driver

import (
	"context"
	"net/netip"

	"github.com/ringlet/ringlet/ipam"
)

// Backend is what the driver asks of the rest of the process. Methods with a
// context return soon after it ends. Errors that a user shall read are an
// [ipam.Error]. It must be safe for concurrent use.
type Backend interface {
	// RequestPool grants a network its pool. For a request that names the
	// subnet it may be a repetition.
	RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error)
	// ReleasePool forgets a network, known or not.
	ReleasePool(ctx context.Context, n ipam.Network) error
	// RequestAddress grants an address. It is durable when RequestAddress
	// returns.
	RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error)
	// ReleaseAddress frees an address, held or not.
	ReleaseAddress(ctx context.Context, n ipam.Network, a netip.Addr) error
	// Withdraw takes back a grant whose answer could not be delivered. The
	// ticket is never zero.
	Withdraw(ctx context.Context, t ipam.Ticket) error
	// Greeted says that the engine has asked for capabilities: it, or this
	// process, has started, and may replay what it has. It returns at once.
	Greeted(ctx context.Context)
	// Recheck says that something was lost between the engine and us, so that
	// the engine's containers are to be looked at soon. It never blocks.
	Recheck()
}
