package gossip

import (
	"bytes"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls. It copies, notes and returns: some of the
// calls come while memberlist holds its lock or reads its packets. They also
// come before memberlist.Create has returned and after Shutdown has; table
// does not listen to the latter.
type delegate struct {
	g   *Gossip
	era int
	// probed is set once another peer has probed this one, which proves that it is
	// in that peer's member list. A successful Join does not prove that: all others
	// may still reject the name of this peer.
	probed atomic.Bool
}

var (
	_ memberlist.Delegate         = (*delegate)(nil)
	_ memberlist.EventDelegate    = (*delegate)(nil)
	_ memberlist.PingDelegate     = (*delegate)(nil)
	_ memberlist.ConflictDelegate = (*delegate)(nil)
	_ memberlist.AliveDelegate    = (*delegate)(nil)
)

// NodeMeta implements [memberlist.Delegate].
func (d *delegate) NodeMeta(int) []byte { return d.g.meta }

// NotifyMsg implements [memberlist.Delegate].
func (d *delegate) NotifyMsg(b []byte) {
	all, ok := [][]byte{b}, true
	if len(b) > 0 && b[0] == kindTogether {
		all, ok = apart(b)
	}
	for _, one := range all {
		ok = d.message(one) && ok
	}
	if !ok {
		d.g.counts.undecodable.Add(1)
	}
}

// message takes in one of those that may travel together.
func (d *delegate) message(b []byte) bool {
	switch {
	case len(b) > 0 && b[0] >= kindDatagram: // a later release may have more kinds
		return d.parcels(b)
	case len(b) < minFrame || len(b) > MaxBroadcast:
		return false
	}
	d.g.arrived(bytes.Clone(b))
	return true
}

// parcels takes in what is no hint.
func (d *delegate) parcels(b []byte) bool {
	switch b[0] {
	case kindReceipt:
		return d.receipt(b)
	case kindDatagram, kindStream:
		return d.parcel(bytes.Clone(b))
	case kindPiece:
		return d.piece(b)
	}
	return false
}

func (d *delegate) receipt(b []byte) bool {
	from, ids, ok := readReceipt(b)
	for _, id := range ids {
		d.g.outbox.arrived(from, id, time.Now())
	}
	return ok
}

// parcel takes in a parcel. One that has come before wants a receipt all the
// same, since the first was lost.
func (d *delegate) parcel(b []byte) bool {
	id, frames, ok := unpack(b)
	if !ok {
		return false
	}
	d.frames(id, frames)
	if b[0] == kindDatagram { // only now: the receipt has the next parcel sent, which must not overtake this one
		d.g.outbox.owe(sender(frames[0]), id, 1, time.Now())
	}
	return true
}

// frames takes in what was in a parcel, once.
func (d *delegate) frames(id uint64, frames [][]byte) {
	if d.g.inbox.seen.add(id) {
		d.g.arrived(frames...)
	} else {
		d.g.counts.doubled.Add(uint64(len(frames)))
	}
}

// piece takes in a piece of a parcel. One that comes after the parcel, which
// may also have come over a stream, wants a receipt for all of it.
func (d *delegate) piece(b []byte) bool {
	p, ok := readPiece(b)
	if !ok {
		return false
	}
	now := time.Now()
	if d.g.inbox.seen.has(p.parcel) {
		d.g.outbox.owe(p.from, p.parcel, p.of, now)
		return true
	}
	whole, ok := d.g.inbox.partials.add(p, now)
	if ok && whole == nil {
		d.g.outbox.owe(p.from, p.parcel+uint64(p.number), 0, now)
		return true
	}
	frames, ok := split(whole, minFrame)
	if ok {
		d.frames(p.parcel, frames)
		d.g.outbox.owe(p.from, p.parcel, p.of, now) // only now, as in parcel
	}
	return ok
}

// GetBroadcasts implements [memberlist.Delegate].
func (d *delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.broadcasts.queue.GetBroadcasts(overhead, limit)
}

// LocalState implements [memberlist.Delegate].
func (d *delegate) LocalState(bool) []byte { return d.g.pulse() }

// MergeRemoteState implements [memberlist.Delegate].
func (d *delegate) MergeRemoteState(b []byte, _ bool) { d.heard(b) }

// AckPayload implements [memberlist.PingDelegate].
func (d *delegate) AckPayload() []byte {
	d.probed.Store(true)
	return d.g.pulse()
}

// NotifyPingComplete implements [memberlist.PingDelegate]. It is called for
// answers to direct probes, so it shows that UDP comes through.
func (d *delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, payload []byte) {
	addr, _ := nodeAddr(n)
	d.g.watch.acked(addr.Addr(), time.Now())
	d.heard(payload)
}

// heard takes a pulse. A peer that has no beat yet sends nothing.
func (d *delegate) heard(b []byte) {
	if len(b) == 0 {
		return
	}
	p, ok := readPulse(b)
	switch {
	case !ok:
		d.g.counts.undecodable.Add(1)
	case !d.g.inbox.beats.put(pulse{bytes.Clone(p.beat), p.summary}):
		d.g.counts.overrun.Add(1)
	}
}

// NotifyJoin implements [memberlist.EventDelegate].
func (d *delegate) NotifyJoin(n *memberlist.Node) { d.appeared(n) }

// NotifyUpdate implements [memberlist.EventDelegate]. It is how a restart
// shows that was too quick for the peer to be missed.
func (d *delegate) NotifyUpdate(n *memberlist.Node) { d.appeared(n) }

func (d *delegate) appeared(n *memberlist.Node) {
	id, ok := parseName(n.Name)
	addr, addrOK := nodeAddr(n)
	if !ok || !addrOK {
		return // NotifyAlive does not let it in
	}
	p := Presence{ID: id, Addr: addr}
	if m, err := decodeMeta(n.Meta); err != nil || m.id != id {
		d.g.counts.undecodable.Add(1)
	} else {
		p.Name, p.Boot, p.Nonce = m.name, m.boot, m.nonce
	}
	d.g.table.appeared(d.era, p, time.Now())
	d.g.news.ofMembers()
}

// NotifyLeave implements [memberlist.EventDelegate]. It stands for leaving and
// for not answering.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	if id, ok := parseName(n.Name); ok {
		d.g.table.disappeared(d.era, id, time.Now())
		d.g.news.ofMembers()
	}
}

// NotifyConflict implements [memberlist.ConflictDelegate]. It is called often
// while a peer comes back at another address, before its former one is given
// up, and for as long as two peers have one identity.
func (d *delegate) NotifyConflict(existing, other *memberlist.Node) {
	id, ok := parseName(existing.Name)
	here, hereOK := nodeAddr(existing)
	there, thereOK := nodeAddr(other)
	if ok && hereOK && thereOK {
		d.g.watch.conflict(id, here, there, time.Now())
	}
}

// NotifyAlive implements [memberlist.AliveDelegate]. It keeps out what is no
// peer of ours.
func (d *delegate) NotifyAlive(n *memberlist.Node) error {
	if _, ok := parseName(n.Name); !ok {
		return errNoPeer
	}
	if _, ok := nodeAddr(n); !ok {
		return errNoPeer
	}
	return nil
}

// nodeAddr returns the address of a member, if it is one.
func nodeAddr(n *memberlist.Node) (netip.AddrPort, bool) {
	a, ok := netip.AddrFromSlice(n.Addr)
	return netip.AddrPortFrom(a.Unmap(), n.Port), ok && n.Port != 0 && !a.IsUnspecified()
}
