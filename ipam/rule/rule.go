package rule

// Set is a set of rules that are taken away. The zero value takes none.
type Set uint64

// Has reports whether the set has one of the given rules.
func (s Set) Has(rules Set) bool { return s&rules != 0 }

// The rules that can be taken away, with what breaks then (protocol, section 10).
const (
	Promise     Set = 1 << iota // a voter writes what it promises: else two values are decided
	Prefix                      // a voter knows all slots before the one that it votes on: else the same
	Electorate                  // voters that cannot be reached count: else the same
	Boot                        // a ballot names the boot of its proposer: else the same
	Owner                       // the lowest ballot, which nobody is asked to promise, is the first voter's: else the same
	Unused                      // who has promised or accepted anything does not use that ballot: else the same
	Once                        // what is settled is not proposed again: else, if numbers do not count, it has effect again
	Aside                       // what is being given away is set aside: else it is handed out meanwhile
	AsideDisk                   // also over a crash: else it is handed out after one
	Sight                       // who sees a cluster founds none: else there are two
	List                        // without its database a peer waits for the engine's list: else it hands out what containers have
	Lists                       // and for those of others who may have lost theirs, too: else it hands out what containers there have
	Suspend                     // who is given up stays at the slot before: else its containers have what is others'
	Warn                        // who is given up warns of what its containers use: else others hand it out
	UsedUp                      // who asks with an ID that is used up is told so: else each question costs a slot
	Challenge                   // a peer is admitted that answers a fresh challenge: else one that is gone has a vote
	Mark                        // who begins anew founds nothing: else there are two clusters
	Shadow                      // who begins anew hands out nothing of what was in use there: else containers there have it
	Awake                       // who was frozen asks as after a start (R11): else it hands out what was given up meanwhile
	Doubt                       // a release of an address in doubt frees nothing (R31): else it frees that of a container that lives
	Shown                       // nor does one list free a container behind it that none has shown: else it frees that of one that starts
	Making                      // a network in the making is on no list yet (R60): else its gateway is free
	Later                       // a list says nothing of what is later than it (R32): else one that began before a grant frees it
	TwoLists                    // one list takes no address from a young holder (R33): else it frees that of one that starts
	Confirmed                   // a grant that was confirmed since is not taken back (R52): else it frees what a container has
	Nonce                       // a list of another start is thrown away (R65): else its numbers make it look late enough
	Serials                     // numbers order grants and lists, and no clock (R65): else a clock that is set frees what was granted since
	Listed                      // only a list tells of networks that are older than the database (R23): else their pool is removed
	Idle                        // that a pool is not used any more is said after a while (R61): else a network that comes again has no router
	Parting                     // nothing is shared while a command ends that, or may (R21): else a container gets the router
	Numbers                     // numbers are on disk before they are used (R9): else what was said before a start is forgotten
	Opposite                    // a request waits for a command that does the opposite (R6): else the first one counts
	Levels                      // a slot that is not understood is not followed (R10): else what an older release skips is handed out
	Digests                     // who has another state than a majority stops (R47): else two have one range
	FreedAside                  // what the host has is freed as it is set aside, or not at all (R4): else a container gets it
	Replays                     // a suspended peer answers an engine that starts (R55): else its host is down
	Whereabouts                 // who rejoins knows where the others are (R57): else it finds no cluster
	Starts                      // and which of them live (R57): else it inherits from one that does
	ZoneVotes                   // a zone is told only where who can be reached can decide after that (R75): else nothing is decided any more
	Leap                        // who recovers a cluster leaves out numbers of identities, and fences (R70): else one is given twice
	Behind                      // who hears of later slots learns them before its check ends (R13): else it hands out what it gave away
	Counted                     // only who is in the same cluster and knows this start answers (R14): else one without a database does
	Undecided                   // who has accepted a change of the roster may be behind (R15): else an earlier roster lets a forgotten peer go
	Present                     // an answer is to the question of this check, and its author is there (R16): else one of before lets it go
	Supposed                    // what a survivor accepted counts as decided when it recovers (R40): else it hands out what others have
	Recovery                    // nobody recovers a cluster beside a peer of it (R41): else two have what is free
	Neighbour                   // a peer inherits from none that it has ever heard from (R27): else from one that lives
	Quarantine                  // a quarantine is of one eviction (R28): else a host is forgotten in a moment
	Old                         // whose database went back in time stops (R17): else it hands out what others have since
	Twins                       // of two starts of one peer the earlier is refused, and both stop (R53): else both hand out the same
	Stopped                     // who is suspended hands out nothing (R54): else it hands out what was given up
	StoppedDisk                 // also over a start of the process (R54): else it does after one
	Trust                       // an operator trusts no old database (R58): else it hands out what others have since
	OldSlots                    // no slot of a cluster that was dissolved stays on disk (R37): else it is one of the next cluster
	Shared                      // who gives way was alone in its cluster (R38): else it votes again on the same slots
	Stale                       // what was heard before the peer was disturbed counts no more (R67): else a host that lives is forgotten
	Disturbed                   // what must last begins anew where the peer was disturbed (R66): else a starting container loses its address
	Seats                       // who founds a cluster counts once (R39): else there are two
	Starting                    // an engine may take any time to start (R30): else what it asks for again is refused, and it does not start
	Unmarked                    // who asks for nobody's address is no holder of it (R30): else a network gets what a container has
	Withheld                    // what an engine that starts asks for again is withheld (R59): else a container that starts gets it
	Standing                    // a grant stands whatever else has the address (R64): else a container loses its address to the host
)
