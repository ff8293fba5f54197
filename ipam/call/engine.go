package call

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/space"
)

// PoolRequest asks for the pool of a new network, or again for one that the
// network already has (libnetwork's RequestPool). It is answered by a
// [PoolGrant].
type PoolRequest struct {
	Space       poolid.Space
	Pool        netip.Prefix // the subnet wanted; invalid: choose one, or take the pool named PoolName
	Range       netip.Prefix // the --ip-range; invalid: all of the pool
	V6          bool         // which family to choose; ignored when Pool is given
	Gateway     poolid.GatewayMode
	GatewayAddr netip.Addr // with GatewayAddr only
	Sticky      poolid.Sticky
	PoolName    string // join the pool of that name, or give the new pool that name
	Bits        int    // prefix length of the subnet to choose; 0: the setting's
	Probe       poolid.Probe
	Subnet      netip.Prefix // an IPv6 subnet wider than a /64 that Pool is the --ip-range of; else invalid
}

// PoolGrant answers a [PoolRequest].
type PoolGrant struct {
	Network poolid.Network
	// Gateway is the address that the engine shall take as gateway without
	// asking, with the pool's mask; invalid when it shall ask.
	Gateway netip.Prefix
	// Chosen says that the request named no subnet, so that the grant is a
	// network's that the engine has not seen before.
	Chosen bool
}

// Purpose says what an address is wanted for.
type Purpose uint8

// The purposes, as libnetwork lets us tell them apart.
const (
	// ForContainer is an endpoint that starts now.
	ForContainer Purpose = 1
	// ForGateway is a network's gateway.
	ForGateway Purpose = 2
	// ForUnmarked is a request with an address and without options: an
	// auxiliary address of a new network, or the replay of an endpoint that
	// exists; with [Config.NoMAC] also a container's, which is refused.
	ForUnmarked Purpose = 3
	// ForClient is a user of the API or the command line, known by
	// AddressRequest.ID.
	ForClient Purpose = 4
)

// AddressRequest asks for an address (libnetwork's RequestAddress, and the
// commands alloc and claim). It is answered by an [AddressGrant].
type AddressRequest struct {
	Network poolid.Network
	Address netip.Addr // the address wanted; invalid: choose one
	Purpose Purpose
	Name    string   // the container's name, where the engine sends it
	MAC     addr.MAC // the endpoint's MAC, where the engine sends it
	ID      string   // ForClient: the caller's name for the holder
}

// AddressGrant answers an [AddressRequest].
type AddressGrant struct {
	Address netip.Prefix // with the pool's mask
	// Ticket identifies this very grant, so that it can be withdrawn if the
	// answer cannot be delivered. It is zero when the address was held
	// before, and then there is nothing to withdraw.
	Ticket Ticket
}

// Ticket identifies a grant at the peer that made it.
type Ticket struct {
	Pool   chronicle.PoolKey
	Offset addr.Offset
	Serial uint64 // rises with every grant in the pool; 0 for no grant

	Before space.Past // what the address goes back to; of the peer alone
}

// IsZero reports whether there is nothing to withdraw.
func (t Ticket) IsZero() bool { return t.Serial == 0 }

// PoolRelease says that a network is gone (libnetwork's ReleasePool).
type PoolRelease struct{ Network poolid.Network }

// AddressRelease says that an endpoint is gone (libnetwork's
// ReleaseAddress). It never fails.
type AddressRelease struct {
	Network poolid.Network
	Address netip.Addr
}

// Withdrawal takes back a grant that could not be delivered.
type Withdrawal struct{ Ticket Ticket }

// Stranger says that something else on the network answers for an address
// that was just granted. The address is kept back, unless its grant does
// not stand any more, or was confirmed since.
type Stranger struct {
	Ticket Ticket
	MAC    addr.MAC // what answered
}
