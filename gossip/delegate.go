package gossip

import (
	"bytes"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip/datagram"
)

// delegate is what memberlist calls. It copies, notes and returns: some of the
// calls come while memberlist holds its lock or reads its packets. They also
// come before memberlist.Create has returned and after Shutdown has; table
// does not listen to the latter.
type delegate struct {
	g          *Gossip
	generation int
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
	var ok bool
	if datagram.IsFrame(b) {
		ok = d.g.broadcastArrived(b)
	} else {
		ok = d.g.datagrams.Receive(b, d.g.broadcastArrived)
	}
	if !ok {
		d.g.counts.undecodable.Add(1)
	}
}

// GetBroadcasts implements [memberlist.Delegate].
func (d *delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.broadcasts.queue.GetBroadcasts(overhead, limit)
}

// LocalState implements [memberlist.Delegate].
func (d *delegate) LocalState(bool) []byte { return d.g.heartbeatPayload() }

// MergeRemoteState implements [memberlist.Delegate].
func (d *delegate) MergeRemoteState(b []byte, _ bool) { d.heard(b) }

// AckPayload implements [memberlist.PingDelegate].
func (d *delegate) AckPayload() []byte {
	d.probed.Store(true)
	return d.g.heartbeatPayload()
}

// NotifyPingComplete implements [memberlist.PingDelegate]. It is called for
// answers to direct probes, so it shows that UDP comes through.
func (d *delegate) NotifyPingComplete(n *memberlist.Node, _ time.Duration, payload []byte) {
	addr, _ := nodeAddr(n)
	d.g.diagnostics.acked(addr.Addr(), time.Now())
	d.heard(payload)
}

// heard takes a heartbeat. A peer that has no heartbeat yet sends nothing.
func (d *delegate) heard(b []byte) {
	if len(b) == 0 {
		return
	}
	p, ok := readHeartbeat(b)
	switch {
	case !ok:
		d.g.counts.undecodable.Add(1)
	case !d.g.inbox.heartbeats.put(heartbeatPayload{bytes.Clone(p.frame), p.digest}):
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
	d.g.table.appeared(d.generation, p, time.Now())
	d.g.dissemination.notifyMembership()
}

// NotifyLeave implements [memberlist.EventDelegate]. It stands for leaving and
// for not answering.
func (d *delegate) NotifyLeave(n *memberlist.Node) {
	if id, ok := parseName(n.Name); ok {
		d.g.table.disappeared(d.generation, id, time.Now())
		d.g.dissemination.notifyMembership()
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
		d.g.diagnostics.conflict(id, here, there, time.Now())
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
