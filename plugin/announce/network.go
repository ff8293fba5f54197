package announce

import (
	"net/netip"
	"slices"
	"time"
)

// MAC is an Ethernet address; the zero MAC is none.
type MAC = [6]byte

// Kind is how a network's neighbours are reached.
type Kind string

// The kinds of links.
const (
	NoLink Kind = ""       // they are not, from this host
	Bridge Kind = "bridge" // the interface is the network's own, and the host on it, too
	Parent Kind = "parent" // the interface is what the network's are made from: the host is not on it
)

// Link is the interface of this host where the neighbours of a network are.
type Link struct {
	Kind Kind   `json:"kind,omitempty"`
	Name string `json:"name,omitempty"` // of the interface; empty with NoLink
}

// Network is a network of the engine with our addresses.
type Network struct {
	ID        string         `json:"id"`
	Link      Link           `json:"link"`
	Subnets   []netip.Prefix `json:"subnets"`
	Endpoints []Endpoint     `json:"-"`
}

// Endpoint is what a container has on a network.
type Endpoint struct {
	Address netip.Addr
	MAC     MAC
}

// has reports whether an address is of the network.
func (n *Network) has(a netip.Addr) bool {
	return slices.ContainsFunc(n.Subnets, func(s netip.Prefix) bool { return s.Contains(a) })
}

// List is what the engine has listed.
type List struct {
	Begun    time.Time // before it was asked
	Complete bool      // whether what is not listed is not there
	Networks []Network
}

// shortID is how much of a network's ID is in the name of its bridge.
const shortID = 12

// LinkOf returns the link of a network, by the names that the engine's network drivers give to interfaces. options are those
// of the network driver.
func LinkOf(driver, id string, internal bool, options map[string]string) Link {
	switch driver {
	case "bridge":
		name := options["com.docker.network.bridge.name"]
		if name == "" && len(id) >= shortID {
			name = "br-" + id[:shortID]
		}
		if name != "" {
			return Link{Bridge, name}
		}
	case "macvlan":
		// Without a parent, and with older engines also where it is internal, the network has an interface with nobody else on
		// it.
		if name := options["parent"]; name != "" && !internal {
			return Link{Parent, name}
		}
	}
	// Containers on ipvlan have the MAC of their host. Of others nothing is known.
	return Link{}
}
