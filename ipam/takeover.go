package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// An address is released late, or never, when its container went while nobody
// listened. Whoever then asks for it under the name or MAC of its holder may be
// that container, back again; or another endpoint of a container that lives, or
// a container with the same fixed MAC, or one that was given the name of
// another. Only the engine's inventory can tell, and where one will come it
// decides.

// retried reports whether the holder has the address at o already, which is held
// under its key: a client is who it says; a container with the name, the MAC and
// the network of another is that container, which asks again; and a container
// that has gone without a release, as far as the engine's inventory tells, left
// its address to the one that comes back under its key. The error makes the call wait
// until an inventory can tell.
func (m *Machine) retried(p *pool.Pool, n *Network, o addr.Offset, h *space.Holder) (bool, error) {
	rec := p.Space.Lookup(o)
	switch {
	case rec.Kind != h.Kind:
		return false, nil
	case rec.Kind == space.Client:
		return true, nil // also while it is set aside: what is held is taken from nobody
	case !p.Space.Usable(o), keptForAnother(p.ReservationAt(o), h): // its holder was renamed
		return false, nil
	case m.gone(p, o):
		return m.isLeft(p, o), nil
	}
	// Where an inventory is yet to tell of a holder, another address is as good.
	if m.engine.OnHost(addr.Nth(p.CIDR, o)) {
		return false, nil // it is in conflict as it is
	}
	if p.Here.Shown() > 1 || h.Name == "" || rec.Name != h.Name || rec.MAC != h.MAC && !m.doubts.MayBeReleased(addr.Nth(p.CIDR, o)) || !m.endpointMayBe(p, n, o, &rec) || !m.told(&rec) {
		return false, nil
	}
	return true, m.awaitTold(p, o, &rec)
}

// isLeft reports whether an address whose holder is gone is left to whoever comes after
// that one: unless a network keeps it back, whose request was taken for a replay, or the
// host has it itself by now.
func (m *Machine) isLeft(p *pool.Pool, o addr.Offset) bool {
	return !p.Keeps(o) && !m.engine.OnHost(addr.Nth(p.CIDR, o))
}

// mayTakeOver reports whether a claim of a held address comes from the holder
// itself, or from one that comes after a holder that is gone although no
// release came. The error makes the claim wait until an inventory can tell.
func (m *Machine) mayTakeOver(p *pool.Pool, n *Network, o addr.Offset, rec *space.Record, h *space.Holder) (bool, error) {
	switch {
	case rec.Kind != h.Kind && rec.Kind != space.Unmarked:
		return false, nil
	case h.Kind == space.Client:
		return rec.Ref == h.Ref, nil
	case m.gone(p, o):
		return m.isLeft(p, o), nil
	}
	named, released := h.Name != "" && rec.Name == h.Name, m.doubts.MayBeReleased(addr.Nth(p.CIDR, o))
	if released && rec.Ref != "" && m.inTime() {
		return false, m.awaitTold(p, o, rec) // the list that lacks what was listed frees it, whatever network it was on
	}
	if !named && !released && !m.hasReturned(rec, h) || !m.endpointMayBe(p, n, o, rec) {
		return false, nil
	}
	if !m.told(rec) || p.Here.Shown() > 1 { // it may be on the other network: when it is not listed for long, it is gone
		return false, m.errUntold(p, o, *rec)
	}
	switch {
	case named, released && rec.Ref != "": // what was listed, and is no more, is gone
		return true, m.awaitTold(p, o, rec)
	case released: // it may be about to start
		return false, m.errUntold(p, o, *rec)
	}
	return !m.engine.WillList(), nil // an inventory after the grace tells whether the holder of a MAC is gone
}

// awaitTold makes a call wait for an inventory that was begun after it came, where one
// will come. The holder's name is the container's that asks now, and need not have been the
// holder's then: that one may have been renamed, and live. An engine has no other container
// take a name before the one that had it has started, and so is listed.
func (m *Machine) awaitTold(p *pool.Pool, o addr.Offset, rec *space.Record) error {
	if !m.engine.WillList() {
		return nil
	}
	c := m.calls.current
	if c.doubted == 0 {
		c.doubted = m.engine.Stamp()
		m.note(Note{Kind: NoteDoubted, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o)})
	}
	if m.engine.Knows(c.doubted) {
		return nil
	}
	return m.errUntold(p, o, *rec)
}

// hasReturned reports whether a container with the holder's MAC may be the
// holder. A MAC is the container's own only if it was set by hand, and then
// two containers may have been given the same. One that was never listed, and
// that asks again later, is back.
func (m *Machine) hasReturned(rec *space.Record, h *space.Holder) bool {
	return h.MAC != [6]byte{} && rec.MAC == h.MAC && m.now.Sub(m.heldSince(rec)) >= m.cfg.Grace
}

// endpointMayBe reports whether an endpoint that starts on the network can be
// the one that holds the address: that one is not listed as alive, and on the
// same network. A container on two networks of a pool has two endpoints under
// one name, and with one MAC if it was fixed. Of which options the networks are that
// the engine lists nobody tells, nor whether all that it asked for were made: where
// it lists two, they may be of one ID, and that it can be is not
// enough.
func (m *Machine) endpointMayBe(p *pool.Pool, n *Network, o addr.Offset, rec *space.Record) bool {
	if _, lives := p.Seen[o]; lives || p.Here.Unasked() {
		return false
	}
	id := n.ID()
	net := m.engine.Network(id)
	if net != nil && net.Several() {
		return false // several networks share the ID
	}
	return rec.Network == networkKey(id) || net != nil && p.Here.Single()
}

// networkKey is what a record keeps of the network on which its address was
// granted. It is never 0, which stands for one that is not known.
func networkKey(id PoolID) uint32 { return uint32(max(space.KeyOf("network", string(id))>>32, 1)) }

// told reports whether a list would have shown by now that the holder of an address lives. While the engine is silent no list
// does. Then only what was granted before the engine started is the container's that comes back under its name. What was granted
// since may be the other endpoint of a container on two networks: nobody tells that two networks have one ID.
func (m *Machine) told(rec *space.Record) bool {
	switch {
	case m.engine.WillList():
		return m.engine.Knows(rec.Seq)
	case m.cfg.AwaitInventory:
		return rec.Seq <= m.engine.Greeted().Serial
	}
	return true
}
