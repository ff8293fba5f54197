package paxos

import (
	"cmp"
	"fmt"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Ballot is one attempt of one peer to have a value decided. Ballots are
// ordered by round, then boot, then peer, and no two attempts share one: the
// peer tells attempts of different peers apart, the boot those before and
// after a restart that forgot the round. Round 0 is of one peer alone, which
// makes one attempt at it and forgets it over no restart. The zero Ballot is
// none and is below every other.
type Ballot struct {
	Round uint64    // above any that the proposer has seen in the slot; 0: see [Proposer.StartUnprepared]
	Boot  peer.Boot // the proposer's, 1 and up; 0 at round 0
	Peer  peer.ID   // the proposer
}

// IsZero reports whether b is no ballot.
func (b Ballot) IsZero() bool { return b == Ballot{} }

// Compare returns -1, 0 or 1 as b is below, equal to or above other.
func (b Ballot) Compare(other Ballot) int {
	return cmp.Or(
		cmp.Compare(b.Round, other.Round),
		cmp.Compare(b.Boot, other.Boot),
		b.Peer.Compare(other.Peer),
	)
}

// String returns round, boot and the start of the peer's ID, for logs; "none"
// for the zero Ballot.
func (b Ballot) String() string {
	if b.IsZero() {
		return "none"
	}
	return fmt.Sprintf("%d.%d.%s", b.Round, b.Boot, b.Peer.Short())
}
