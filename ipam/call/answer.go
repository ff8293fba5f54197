package call

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/report"
)

// Reply answers the call with the ID Call. Which field is set follows from
// the request; none is if Err is. What is seldom asked for is behind
// pointers, since replies to engines are copied.
type Reply struct {
	Call       uint64
	Err        error
	Pool       *PoolGrant
	Address    AddressGrant
	Addresses  []report.AddressStatus
	Status     *report.PoolStatus
	Created    bool // the pool of Status is new
	Fence      uint64
	Forgetting *Forgetting
	Reserving  *Reserving
	Collected  []report.Collected
	// Again, in the answer to an [Inventory], is when another would be
	// useful; zero if not.
	Again time.Duration
}

// Forgetting says what forgetting a peer frees.
type Forgetting struct {
	Peer      string `json:"peer"` // its name
	ID        string `json:"id"`
	Evicted   uint64 `json:"evicted"`   // the slot of its eviction
	Ranges    int    `json:"ranges"`    // in all pools
	Addresses uint64 `json:"addresses"` // in them, or 2^64-1 if that is more
}

// Reserving says what a [ReserveRequest] or an [UnreserveRequest] did.
type Reserving struct {
	Pool  netip.Prefix `json:"pool"`
	First netip.Addr   `json:"first"`
	Last  netip.Addr   `json:"last"`
	Kind  string       `json:"kind"`
	Note  string       `json:"note"`
	// Addresses are how many from First to Last are reserved so now; of an [UnreserveRequest] how many it freed.
	Addresses uint64 `json:"addresses"`
	// Collisions are what could not be reserved, in order of addresses.
	Collisions []Collision `json:"collisions"`
}

// Collision is a stretch of addresses that could not be reserved.
type Collision struct {
	First netip.Addr `json:"first"`
	Last  netip.Addr `json:"last"`
	Why   string     `json:"why"` // who has it: "is held by …"
}
