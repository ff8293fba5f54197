package departure

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// MayEvict reports why a peer of the roster is not evicted for an operator, if it is not: a [sentence.WaitError] where that may
// pass. underWay says that its eviction is on its way already, and stays wanted.
func MayEvict(v cluster.View, id peer.ID, underWay bool) error {
	away := v.Away(v.State.Voters())
	switch {
	case id == v.Self:
		return sentence.Errorf(sentence.ErrBadRequest, "%s is this host itself: use ringlet leave", v.Name)
	case v.Live(id):
		return sentence.Errorf(sentence.ErrBadRequest, "%s is reachable: use ringlet leave on that host; if it was lost just now, try again in some seconds", v.NameOf(id))
	case underWay:
		return nil
	case !v.KeepsMajority(id):
		others := slices.DeleteFunc(away, func(o peer.ID) bool { return o == id })
		return sentence.Errorf(sentence.ErrBadRequest, "%s cannot be evicted, because even without it the reachable hosts have no majority of the votes: start or reconnect %s; if a majority is gone for good, see ringlet recover --help", v.NameOf(id), sentence.List(v.NamesOf(others)))
	case v.CutOff():
		// Its own vote may be what is missing: then it would be evicted when it is back.
		return sentence.Wait(sentence.Errorf(sentence.ErrUnreachable, "%s cannot be evicted, because the reachable hosts have no majority of the votes while it counts: start or reconnect %s; if a majority is gone for good, see ringlet recover --help", v.NameOf(id), sentence.List(v.NamesOf(away))))
	}
	return nil
}

// EvictSilent returns the command that evicts a peer of which this one has had no sign for that long, if it is a voter and
// the lowest live one (protocol, 4.1).
func EvictSilent(v cluster.View, after time.Duration) []chronicle.Action {
	if after <= 0 || !v.Leads() || v.CutOff() {
		return nil
	}
	for _, member := range v.State.Roster {
		if v.LostFor(member.ID, after) && v.KeepsMajority(member.ID) {
			return []chronicle.Action{chronicle.Evict{Peer: member.ID}}
		}
	}
	return nil
}

// IsUnwanted reports whether commands that this peer proposed at that time, from the first to the last, are not wanted
// any more. No peer is to be evicted or forgotten that this one hears from again, and none forgotten by what others said
// too long ago: they may hear from it by now. None is to be admitted that this one does not hear from any more: that one
// asks again, or has left meanwhile.
func IsUnwanted(v cluster.View, first, last chronicle.Action, at time.Time) bool {
	switch a := first.(type) {
	case chronicle.Evict:
		if a.Peer != v.Self && v.Live(a.Peer) {
			return true
		}
	case chronicle.Forget:
		return v.Present(a.Peer) || !v.Fresh(at, believed)
	case chronicle.Expire:
		l := v.State.Locks.Of(a.Name)
		return l != nil && v.Live(l.Owner)
	}
	a, admits := last.(chronicle.Admit) // alone, or behind the evictions of its former selves
	return admits && !v.Live(a.ID)
}

// MayRecover reports why this peer does not recover the cluster, if it does not (R41).
func MayRecover(v cluster.View) error {
	if !v.CutOff() {
		return sentence.Errorf(sentence.ErrBadRequest, "%s reaches a majority of the cluster: use ringlet evict for the lost hosts", v.Name)
	}
	for _, id := range v.Others() {
		switch {
		case v.Live(id):
			return sentence.Errorf(sentence.ErrBadRequest, "%s is reachable from %s, and only one host may recover a cluster: stop ringlet there first, and let it join again afterwards with its data removed", v.NameOf(id), v.Name)
		case v.Present(id):
			return recovered(v, id)
		}
	}
	for _, id := range v.Known() {
		if v.Present(id) && joinedElsewhere(v, v.Of(id)) {
			return recovered(v, id)
		}
	}
	return nil
}

// joinedElsewhere reports whether a peer is in another cluster, and on the host of one of this cluster: its data was
// removed, and it has joined one that was recovered from this, as far as anybody can tell.
func joinedElsewhere(v cluster.View, c cluster.Contact) bool {
	return c.Cluster != ([16]byte{}) && c.Cluster != v.State.Cluster && slices.ContainsFunc(v.State.Roster, func(other chronicle.Member) bool {
		return other.ID != v.Self && (other.Name == c.Name || other.Machine != 0 && other.Machine == c.Machine)
	})
}

// recovered refuses to recover the cluster beside one that has: both would have what is free, and what either frees.
func recovered(v cluster.View, id peer.ID) error {
	return sentence.Errorf(sentence.ErrBadRequest, "%s is reachable from %s, and is in another cluster, for example because this one was recovered there: let %s join that one, with its data removed, or stop ringlet on %s first", v.NameOf(id), v.Name, v.Name, v.NameOf(id))
}
