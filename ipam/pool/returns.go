package pool

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
)

// An address is released late, or never, when its container went while nobody listened. Whoever then asks for it under the
// name or MAC of its holder may be that container, back again; or another endpoint of a container that lives, or a container
// with the same fixed MAC, or one that was given the name of another. Only the engine's inventory can tell, and where one
// will come it decides.

// Return says whether the asker of a held address comes back to it.
type Return uint8

// What a [Return] may be.
const (
	IsOther       Return = iota // it does not
	IsBack                      // it does
	BackOnceTold                // it does if the engine's next list does not tell otherwise
	OtherOnceTold               // the next list frees the address, if it does
	Untold                      // a list is to tell first
)

// Retried reports whether the holder has the address at o already, which is held under its key: a client is who it says; a
// container with the name, the MAC and the network of another is that container, which asks again; and a container that has
// gone without a release, as far as the engine's inventory tells, left its address to the one that comes back under its key.
func (p *Pool) Retried(n *poolid.Network, o addr.Offset, h *space.Holder) Return {
	rec, r := p.Space.Lookup(o), p.ReservationAt(o)
	switch {
	case rec.Kind != h.Kind:
		return IsOther
	case rec.Kind == space.Client:
		return IsBack // also while it is set aside: what is held is taken from nobody
	case !p.Space.Usable(o), r != nil && !KeptFor(r, h): // it is kept for another name, as its holder was renamed
		return IsOther
	case p.isGone(o):
		return p.leftTo(o)
	}
	// Where an inventory is yet to tell of a holder, another address is as good.
	a := addr.Nth(p.CIDR, o)
	switch {
	case p.of.Engine.OnHost(a): // it is in conflict as it is
		return IsOther
	case p.Here.Shown() > 1 || h.Name == "" || rec.Name != h.Name || rec.MAC != h.MAC && !p.of.Doubts.MayBeReleased(a):
		return IsOther
	case !p.endpointMayBe(n, o, &rec) || !p.isTold(&rec):
		return IsOther
	}
	return BackOnceTold
}

// leftTo says whether an address whose holder is gone is left to the asker, who comes after that one. It is not if a
// network keeps it back, whose request was taken for a replay, or if the host has it itself by now.
func (p *Pool) leftTo(o addr.Offset) Return {
	if p.Keeps(o) || p.of.Engine.OnHost(addr.Nth(p.CIDR, o)) {
		return IsOther
	}
	return IsBack
}

// MayTakeOver reports whether a claim of a held address comes from the holder itself, or from one that comes after a holder
// that is gone although no release came. inTime says that the claim may wait.
func (p *Pool) MayTakeOver(n *poolid.Network, o addr.Offset, rec *space.Record, h *space.Holder, inTime bool) Return {
	switch {
	case rec.Kind != h.Kind && rec.Kind != space.Unmarked:
		return IsOther
	case h.Kind == space.Client:
		if rec.Ref == h.Ref {
			return IsBack
		}
		return IsOther
	case p.isGone(o):
		return p.leftTo(o)
	}
	named, released := h.Name != "" && rec.Name == h.Name, p.of.Doubts.MayBeReleased(addr.Nth(p.CIDR, o))
	switch {
	case released && rec.Ref != "" && inTime:
		return OtherOnceTold // the list that lacks what was listed frees it, whatever network it was on
	case !named && !released && !p.hasReturned(rec, h) || !p.endpointMayBe(n, o, rec):
		return IsOther
	case !p.isTold(rec) || p.Here.Shown() > 1: // it may be on the other network: when it is not listed for long, it is gone
		return Untold
	case named, released && rec.Ref != "": // what was listed, and is no more, is gone
		return BackOnceTold
	case released: // it may be about to start
		return Untold
	case p.of.Engine.WillList(): // an inventory after the grace tells whether the holder of a MAC is gone
		return IsOther
	}
	return IsBack
}

// hasReturned reports whether a container with the holder's MAC may be the holder. A MAC is the container's own only if it
// was set by hand, and then two containers may have been given the same. One that was never listed, and that asks again
// later, is back.
func (p *Pool) hasReturned(rec *space.Record, h *space.Holder) bool {
	return h.MAC != [6]byte{} && rec.MAC == h.MAC && p.of.Out.Now().Sub(p.of.HeldSince(rec)) >= p.of.Grace
}

// endpointMayBe reports whether an endpoint that starts on the network can be the one that holds the address: that one is
// not listed as alive, and on the same network. A container on two networks of a pool has two endpoints under one name, and
// with one MAC if it was fixed. Of which options the networks are that the engine lists nobody tells, nor whether all that
// it asked for were made: where it lists two, they may be of one ID, and that it can be is not enough.
func (p *Pool) endpointMayBe(n *poolid.Network, o addr.Offset, rec *space.Record) bool {
	if p.Shows(o) || p.Here.Unasked() {
		return false
	}
	id := n.ID()
	net := p.of.Engine.Network(id)
	if net != nil && net.Several() {
		return false // several networks share the ID
	}
	return rec.Network == NetworkKey(id) || net != nil && p.Here.Single()
}

// isTold reports whether a list would have shown by now that the holder of an address lives. While the engine is silent no
// list does. Then only what was granted before the engine started is the container's that comes back under its name. What
// was granted since may be the other endpoint of a container on two networks: nobody tells that two networks have one ID.
func (p *Pool) isTold(rec *space.Record) bool {
	switch {
	case p.of.Engine.WillList():
		return p.of.Engine.Knows(rec.Seq)
	case p.of.Engine.Lists():
		return rec.Seq <= p.of.Engine.Greeted().Serial
	}
	return true
}

// HeldSince is [engine.Engine.SureSince] for the state of an address, such as held or freed.
func (s *Pools) HeldSince(rec *space.Record) time.Time {
	return s.Engine.SureSince(time.Unix(0, rec.Since))
}

// isGone reports whether the engine's inventory lacks an address that is held, and would have it by now: one inventory tells
// that only once the endpoint must be there, which has all of its addresses a call after the first one.
func (p *Pool) isGone(o addr.Offset) bool {
	if _, missing := p.Missing[o]; !missing {
		return false
	}
	rec := p.Space.Lookup(o)
	return p.of.Engine.Knows(rec.Seq) && !p.of.Engine.Complete().At.Before(p.of.HeldSince(&rec).Add(p.of.CallTime+p.of.Grace))
}

// Release frees an address whose endpoint the engine releases, and reports whether it did. The gateway that this host has,
// reservations, and what clients hold are not released so.
func (p *Pool) Release(o addr.Offset, n *poolid.Network) bool {
	switch {
	case !p.HasEndpoint(o):
		p.of.EndOwnWarning(addr.Nth(p.CIDR, o))
		forget(p.Seen, o) // of what is not held here, as another host has it
		return false
	case p.isDoubtful(o, n):
		// If the new holder is gone indeed, an inventory will tell.
		rec := p.Space.Lookup(o)
		p.Note(effect.NoteLate, o, rec.Holder, rec.Since)
		*p.of.Out.Note() = effect.Note{Kind: effect.NoteDoubted, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o)}
		return false
	}
	p.freeReleased(o)
	p.SettleAt(addr.One(o))
	return true
}

// isDoubtful reports whether a release of the address, which an endpoint has, frees nothing, since it may be that of an
// earlier container or of a network. The note of it has the engine asked for a list, which tells whether the present holder
// lives.
func (p *Pool) isDoubtful(o addr.Offset, n *poolid.Network) bool {
	if !p.of.Engine.Lists() || p.of.Lacks(rule.Doubt) {
		return false
	}
	a := addr.Nth(p.CIDR, o)
	if !p.of.Doubts.Has(a) && !p.mayBeNetworks(o, n) {
		return false
	}
	p.of.Doubts.TakeRelease(a)
	forget(p.Seen, o) // that the present holder was seen says nothing any more
	return true
}

// mayBeNetworks reports whether a release of an address that a container has may be that of a network which keeps the
// address back, by its options or as the last list tells.
func (p *Pool) mayBeNetworks(o addr.Offset, n *poolid.Network) bool {
	if !p.of.Engine.WillList() {
		return false
	}
	g, shares := n.SharedGateway()
	return shares && g == o || p.Keeps(o)
}
