package ipam

import (
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/poolid"
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

// What is asked of a peer, and what it answers; see package call.
type (
	AddressGrant      = call.AddressGrant
	AddressRelease    = call.AddressRelease
	AddressRequest    = call.AddressRequest
	Blindness         = call.Blindness
	ClientRequest     = call.ClientRequest
	CollectRequest    = call.CollectRequest
	Collision         = call.Collision
	DrainRequest      = call.DrainRequest
	EvictRequest      = call.EvictRequest
	ForgetRequest     = call.ForgetRequest
	Forgetting        = call.Forgetting
	FreeRequest       = call.FreeRequest
	Greeting          = call.Greeting
	HostAddresses     = call.HostAddresses
	HostRoute         = call.HostRoute
	IdentityRequest   = call.IdentityRequest
	Inventory         = call.Inventory
	InventoryEndpoint = call.InventoryEndpoint
	InventoryNetwork  = call.InventoryNetwork
	LeaveRequest      = call.LeaveRequest
	LockRequest       = call.LockRequest
	PoolCreation      = call.PoolCreation
	PoolGrant         = call.PoolGrant
	PoolRelease       = call.PoolRelease
	PoolRemoval       = call.PoolRemoval
	PoolRequest       = call.PoolRequest
	Purpose           = call.Purpose
	RecoverRequest    = call.RecoverRequest
	RenewalRequest    = call.RenewalRequest
	Reply             = call.Reply
	Request           = call.Request
	ReserveRequest    = call.ReserveRequest
	Reserving         = call.Reserving
	Stranger          = call.Stranger
	Ticket            = call.Ticket
	TrustRequest      = call.TrustRequest
	UnlockRequest     = call.UnlockRequest
	UnreserveRequest  = call.UnreserveRequest
	Withdrawal        = call.Withdrawal
)

// The purposes of an address, and the longest name of a holder, in bytes; see package call.
const (
	ForContainer = call.ForContainer
	ForGateway   = call.ForGateway
	ForUnmarked  = call.ForUnmarked
	ForClient    = call.ForClient
	MaxHolder    = call.MaxHolder
)
