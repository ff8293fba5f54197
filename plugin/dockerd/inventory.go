package dockerd

import (
	"net/netip"
	"time"
)

// Inventory is what one look saw of our networks on this engine. Whoever
// receives it may keep it, and must not change it.
type Inventory struct {
	Begun time.Time // before the first call: what was granted later may be missing
	Ended time.Time // after the last answer

	Engine        string // the engine's own ID; old engines keep it in /etc/docker, new ones in their data root
	EngineVersion string // like "28.5.2"

	// Complete is true if every call was answered and every value understood.
	// Only then is an absence worth anything.
	Complete bool

	// Listed is true if the engine answered which networks there are, so that Networks
	// has all of them: those of which it does not tell more are without endpoints. Only
	// then is the absence of a network worth anything.
	Listed bool

	// Unreadable counts the values that were not understood and left out.
	Unreadable int

	Networks []Network // ordered by ID
}

// Network is a network whose IPAM driver is ours. Config-only networks are
// left out, as they hold no address.
type Network struct {
	ID, Name string
	Driver   string // the network driver: bridge, macvlan, overlay, …
	Scope    string // local, swarm or global
	Internal bool

	Options       map[string]string // the --ipam-opt pairs; never nil
	DriverOptions map[string]string // the --opt pairs, which are for the network driver; never nil
	Subnets       []Subnet          // as typed by the user or chosen by us, in the engine's order
	Endpoints     []Endpoint        // that are up, or coming up; ordered by container, then ID

	Unreadable int // values left out because they were not understood
}

// Subnet is one entry of a network's IPAM configuration. A zero value in it
// means that the engine shows none.
type Subnet struct {
	Prefix  netip.Prefix // masked; of an IPv6 subnet wider than a /64 the range, which is the pool
	Range   netip.Prefix // masked; the part that dynamic addresses come from
	Gateway netip.Addr   // engines before 29 show it only where it was typed or chosen with the subnet
	Aux     []netip.Addr // ordered
}

// Endpoint is one attachment to a network.
type Endpoint struct {
	ID        string
	Container string         // the container's ID; empty for an endpoint that has no sandbox
	Name      string         // the container's name, without slash
	MAC       string         // lower-case with colons; may be empty
	Addresses []netip.Prefix // address and mask, IPv4 first; empty while the endpoint is being set up
}
