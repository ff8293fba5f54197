package directory

import (
	"net/netip"
	"time"
)

// HeartKey is the key that shows that changes arrive: it is renewed every minute.
func HeartKey(cluster string) string { return "ringlet/.heartbeat/" + cluster }

// ClusterKey is the key that names the cluster which has a label.
func ClusterKey(cluster string) string { return "ringlet/.cluster/" + cluster }

// LockKeys is the prefix of the keys of a cluster's locks.
func LockKeys(cluster string) string { return "ringlet/locks/" + cluster + "/" }

// NodeKeys is the prefix of the keys of a cluster's peers.
func NodeKeys(cluster string) string { return "ringlet/state/nodes/v1/" + cluster + "/" }

// AddressKeys is the prefix of the keys of a cluster's addresses.
func AddressKeys(cluster string) string { return "ringlet/state/ip/v1/" + cluster + "/" }

// PoolKeys is the prefix of the keys of a cluster's pools.
func PoolKeys(cluster string) string { return "ringlet/state/pools/v1/" + cluster + "/" }

// ServiceKeys is the prefix of the keys of a cluster's services.
func ServiceKeys(cluster string) string { return "ringlet/state/services/v1/" + cluster + "/" }

// Node is what a peer says of itself.
type Node struct {
	Name    string `json:"name"`
	ID      string `json:"id"`
	Version string `json:"version"` // of ringlet
	Address string `json:"address"` // where other peers reach it
	// Addresses are those of the host, the first maxAddresses.
	Addresses []NodeAddress `json:"addresses,omitempty"`
	API       string        `json:"api,omitempty"`    // where its API is served, if others can reach it
	Health    string        `json:"health,omitempty"` // address and port on the network of its containers, where other hosts ask whether that works
	Engine    string        `json:"engine,omitempty"` // version of its engine
	State     string        `json:"state"`
	Slot      uint64        `json:"slot"`             // the last decision that it has applied, up to a minute ago
	Failed    []string      `json:"failed,omitempty"` // what is wrong there and needs somebody, at most 3 sentences
	Boot      uint64        `json:"boot"`
	Pools     []NodePool    `json:"pools"`                // in which it has ranges
	More      int           `json:"more_pools,omitempty"` // how many others there are
}

// NodeAddress is an address of a host.
type NodeAddress struct {
	Address netip.Addr `json:"address"`
	Family  string     `json:"family"` // ipv4 or ipv6
	Kind    string     `json:"kind"`   // peer: other peers reach the host there; host: on another interface
}

// NodePool is what a peer has of a pool.
type NodePool struct {
	Pool   netip.Prefix `json:"pool"`
	Ranges []string     `json:"ranges"`         // first-last, the first of them
	More   int          `json:"more,omitempty"` // how many others there are
}

// Address is an address in use.
type Address struct {
	Pool      netip.Prefix `json:"pool"`
	Node      string       `json:"node"`
	Network   string       `json:"network,omitempty"` // the Docker networks of that host on the pool, by name, with commas
	State     string       `json:"state"`             // held, gateway, host or stranger
	Kind      string       `json:"kind"`              // container, client, gateway, …
	Container string       `json:"container,omitempty"`
	Name      string       `json:"name,omitempty"`
	MAC       string       `json:"mac,omitempty"`
	Identity  uint64       `json:"identity,omitempty"` // the number of the container's label set; 0: it has none
	Since     time.Time    `json:"since"`
}

// Service is what one peer has of a service. Each peer sets its own part of the
// key.
type Service struct {
	Node      string            `json:"node"`
	Endpoints []ServiceEndpoint `json:"endpoints"`       // in order of their addresses
	More      int               `json:"more,omitempty"`  // how many others there are
	Swarm     bool              `json:"swarm,omitempty"` // it is a service of a swarm, of which there are endpoints here
	// Virtual are the addresses at which a swarm reaches all endpoints of the service together. They are of other networks than the
	// endpoints: a network of ringlet has none. Only managers of the swarm tell them.
	Virtual []VirtualAddress `json:"virtual,omitempty"`
}

// VirtualAddress is where a swarm reaches all endpoints of a service together on one network.
type VirtualAddress struct {
	Address netip.Addr `json:"address"`
	Network string     `json:"network"` // its name
}

// ServiceEndpoint is an endpoint with the ports of its container.
type ServiceEndpoint struct {
	Endpoint
	Ports     []Port `json:"ports,omitempty"`      // that it exposes or publishes, the first maxPorts; none until it has started
	MorePorts int    `json:"more_ports,omitempty"` // how many others there are
}

// Port is where a container listens.
type Port struct {
	Port     uint16 `json:"port"`
	Protocol string `json:"protocol"` // tcp, udp or sctp
}

// Endpoint is one address of a service.
type Endpoint struct {
	Address   netip.Addr   `json:"address"`
	Pool      netip.Prefix `json:"pool"`
	Container string       `json:"container"`
	Name      string       `json:"name,omitempty"`
}

// Pool is a pool as it was agreed.
type Pool struct {
	Pool         netip.Prefix      `json:"pool"`
	Name         string            `json:"name,omitempty"`
	Chosen       bool              `json:"chosen"` // ringlet chose the subnet
	Size         uint64            `json:"size"`
	Shares       map[string]uint64 `json:"shares"` // addresses in each peer's ranges, by the peer's name
	Reservations []Reservation     `json:"reservations"`
	More         int               `json:"more,omitempty"` // how many other reservations there are
}

// Reservation is a stretch of a pool that is kept back.
type Reservation struct {
	First netip.Addr `json:"first"`
	Last  netip.Addr `json:"last"`
	Kind  string     `json:"kind"`
	Note  string     `json:"note,omitempty"`
}

// PoolName says which pool has a name.
type PoolName struct {
	Pool netip.Prefix `json:"pool"`
}

// Cluster is which cluster has a label. It is agreed.
type Cluster struct {
	ID string `json:"id"`
}

// Heartbeat is when the directory was last known to be written, by the clock of
// the peer that did.
type Heartbeat struct {
	Time time.Time `json:"time"`
	Slot uint64    `json:"slot"`
	Node string    `json:"node"`
}
