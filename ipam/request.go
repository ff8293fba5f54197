package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/space"
)

// What a docker network asks for; see package poolid.

type (
	// Network is [poolid.Network].
	Network = poolid.Network
	// PoolID is [poolid.ID].
	PoolID = poolid.ID
	// Space is [poolid.Space].
	Space = poolid.Space
	// GatewayMode is [poolid.GatewayMode].
	GatewayMode = poolid.GatewayMode
	// Sticky is [poolid.Sticky].
	Sticky = poolid.Sticky
	// Probe is [poolid.Probe].
	Probe = poolid.Probe
)

// The values of these types; see package poolid.
const (
	Local        = poolid.Local
	Global       = poolid.Global
	GatewayHost  = poolid.GatewayHost
	GatewayFirst = poolid.GatewayFirst
	GatewayLast  = poolid.GatewayLast
	GatewayNone  = poolid.GatewayNone
	GatewayAddr  = poolid.GatewayAddr
	StickyName   = poolid.StickyName
	StickyMAC    = poolid.StickyMAC
	StickyNone   = poolid.StickyNone
	ProbeNone    = poolid.ProbeNone
	ProbeARP     = poolid.ProbeARP
	ProbeStrict  = poolid.ProbeStrict
)

// PoolRequest asks for the pool of a new network, or again for one that the
// network already has (libnetwork's RequestPool). It is answered by a
// [PoolGrant].
type PoolRequest struct {
	Space       Space
	Pool        netip.Prefix // the subnet wanted; invalid: choose one, or take the pool named PoolName
	Range       netip.Prefix // the --ip-range; invalid: all of the pool
	V6          bool         // which family to choose; ignored when Pool is given
	Gateway     GatewayMode
	GatewayAddr netip.Addr // with GatewayAddr only
	Sticky      Sticky
	PoolName    string // join the pool of that name, or give the new pool that name
	Bits        int    // prefix length of the subnet to choose; 0: the setting's
	Probe       Probe
	Subnet      netip.Prefix // an IPv6 subnet wider than a /64 that Pool is the --ip-range of; else invalid
}

// PoolGrant answers a [PoolRequest].
type PoolGrant struct {
	Network Network
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
	Network Network
	Address netip.Addr // the address wanted; invalid: choose one
	Purpose Purpose
	Name    string // the container's name, where the engine sends it
	MAC     MAC    // the endpoint's MAC, where the engine sends it
	ID      string // ForClient: the caller's name for the holder
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

	before space.Past // what the address goes back to
}

// IsZero reports whether there is nothing to withdraw.
func (t Ticket) IsZero() bool { return t.Serial == 0 }

// Inventory is what an engine said about the endpoints on its networks that
// use ringlet.
type Inventory struct {
	After Mark // taken before the first question was put
	// Partial says that the engine did not tell all: what is listed is in use,
	// what is not listed may be, too.
	Partial bool
	// AllNetworks says of a partial one that it has all networks, though perhaps
	// not all that is on them: it tells which networks are gone.
	AllNetworks bool
	Networks    []InventoryNetwork
}

// InventoryNetwork is one network of an [Inventory].
type InventoryNetwork struct {
	ID        string
	Name      string
	Subnets   []netip.Prefix
	Gateways  []netip.Addr // that were typed, or chosen with the subnet
	Auxiliary []netip.Addr
	Endpoints []InventoryEndpoint
}

// InventoryEndpoint is one endpoint of an [InventoryNetwork].
type InventoryEndpoint struct {
	Address   netip.Addr
	Container string // full container ID; empty when the engine shows none
	Name      string // the container's name
	MAC       MAC
}

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
	ID      string     // as in [Listing]; empty: whoever holds Address
	Address netip.Addr // invalid: all that ID holds
}
