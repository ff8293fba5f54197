package departure

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
)

// lostAfter is how long a peer must not have been heard from before its successor on the same machine takes it for gone.
const lostAfter = 10 * time.Second

// Inherit returns the command that takes the space over, or evicts the peer first, of a former self of this one: a peer
// of the same machine that has lost its database, and that nobody has heard from (protocol, 6.7). joined is when this peer
// was admitted.
func Inherit(v cluster.View, machine uint64, joined time.Time) []chronicle.Action {
	if machine == 0 || !v.Lasted(joined, lostAfter) {
		return nil
	}
	isFormerSelf := func(id peer.ID) bool { return IsPredecessor(v, machine, id) && v.LostFor(id, lostAfter) }
	for _, member := range v.State.Roster {
		if isFormerSelf(member.ID) {
			return []chronicle.Action{chronicle.Evict{Peer: member.ID}}
		}
	}
	for _, gone := range v.State.Former {
		if isFormerSelf(gone.ID) {
			return []chronicle.Action{chronicle.Inherit{Former: gone.ID}}
		}
	}
	return nil
}

// IsPredecessor reports whether a peer was probably this one before it lost its database: one of the same machine that
// cannot be reached, that was not given up, and that this peer never heard from (R27).
func IsPredecessor(v cluster.View, machine uint64, id peer.ID) bool {
	if machine == 0 || id == v.Self || v.Present(id) || v.LivedBeside(id) {
		return false
	}
	if member := v.State.Member(id); member != nil {
		return member.Machine == machine
	}
	gone := v.State.Gone(id)
	return gone != nil && !gone.Forgotten && gone.Machine == machine
}

// HasPredecessor reports whether there is a former self of this peer that it has yet to take over from.
func HasPredecessor(v cluster.View, machine uint64) bool {
	is := func(id peer.ID) bool { return IsPredecessor(v, machine, id) }
	return slices.ContainsFunc(v.State.Roster, func(member chronicle.Member) bool { return is(member.ID) }) ||
		slices.ContainsFunc(v.State.Former, func(gone chronicle.Gone) bool { return is(gone.ID) })
}
