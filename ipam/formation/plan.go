package formation

import (
	"math/rand/v2"

	"github.com/ringlet/ringlet/ipam/rule"
)

// Plan says how several hosts found a cluster together. All of them must have been told the same. A Plan
// of size 0 is that of a host that founds none with others.
type Plan struct {
	Size     int    // how many hosts found it, 2 to 1,024
	List     uint64 // hash of their list; 0 if they were told only their number
	Seat     int    // this host's place in the list, from 1; 0 without a list
	Observer bool   // take no part in founding, and join what the others found
	// NamesNobody says that the settings name no other host. Such a peer may wait for one all the same: its database was lost.
	NamesNobody bool
}

// Config is what a peer is told about the cluster that it is to be in.
type Config struct {
	Plan Plan
	// Join makes a peer without a cluster wait for one, and never found one alone.
	Join bool
	// FoundAlone makes a peer without a cluster found one also if it has looked for one before: an operator says that there
	// is none.
	FoundAlone bool
	// Hesitate makes a peer without a cluster found one, alone or with others, only when the engine's first complete list
	// has no networks.
	Hesitate bool
	Rand     *rand.Rand
	Rules    rule.Set // that are taken away, in tests
}
