package call

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/engine"
)

// Inventory is what an engine said about the endpoints on its networks that
// use ringlet.
type Inventory struct {
	After engine.Mark // taken before the first question was put
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
	MAC       addr.MAC
}

// Greeting says that the engine, or this process, has started: what the
// engine asks for next may be a replay of what it has.
type Greeting struct{}

// HostAddresses says which addresses the host itself has, on bridges and
// on the LAN, with their masks. They are in use, whether or not this peer
// gave them out. In what the host has routes to no subnet is chosen: an
// engine asks for another one instead of what is on one of its links.
type HostAddresses struct {
	After     engine.Mark    // taken before they were read
	Addresses []netip.Prefix // not masked
	Routes    []HostRoute
}

// Blindness says that no inventory will come for now, and that nothing is
// lost by that: the engine is starting, and replays what it has before it
// starts containers, or there is no way to ask it at all.
type Blindness struct{}

// HostRoute is a route of the host itself.
type HostRoute struct {
	To     netip.Prefix // masked
	OnLink bool         // to what is on one of its links; else by another host, or refused
}
