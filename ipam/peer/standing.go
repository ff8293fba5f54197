package peer

// Standing is where a peer stands among others, in one word.
type Standing string

// The standings.
const (
	Alone     Standing = "alone"     // the only one of its cluster
	Forming   Standing = "forming"   // founds a cluster with others, of whom some are missing
	Joining   Standing = "joining"   // looks for a cluster, or waits to be admitted
	Checking  Standing = "checking"  // has just started, and asks whether its database is up to date
	Ready     Standing = "ready"     // can do everything
	CutOff    Standing = "cut-off"   // reaches no majority: goes on with the space that it has
	Leaving   Standing = "leaving"   // gives its space back
	Left      Standing = "left"      // has left its cluster, for good
	Outdated  Standing = "outdated"  // speaks less than its cluster uses: keeps what is held, hands out nothing
	Suspended Standing = "suspended" // hands out nothing until somebody has seen to it
)

// Outside is why a peer is in no cluster.
type Outside uint8

// The reasons.
const (
	Inside          Outside = iota
	DatabaseLost            // its database is new, and the engine has networks of ringlet
	LooksFirst              // it looks for a cluster before it founds one
	AwaitsNetworks          // it founds a cluster unless the engine has networks
	ListsNobody             // its settings name no other host
	KnowsNobody             // its settings name no other host, and it waits for one all the same
	NotFound                // it has not found its cluster
	AwaitsAdmission         // it has, and is not a member yet
	AwaitsReturn            // it was evicted
)
