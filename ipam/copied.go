package ipam

import (
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A database may be copied, and the copy started beside its original, or put back in its
// place after that has gone on. Either way a peer that starts from it hands out what is
// another's by now (protocol, 6.6). What tells: another start of the same peer, of which
// others have heard, or which is met; and decisions that cannot have been made without
// this database.

// checkStart holds a frame against the latest known start of its sender. One
// of an earlier start is late, or its database went back in time or was
// copied; the sender can tell, so it is told (protocol, 6.6).
func (m *Machine) checkStart(f *wire.Frame, c *contact) bool {
	is := start{f.Boot, f.Nonce}
	switch {
	case is == c.start:
		return true
	case is.boot > c.start.boot:
		c.start = is
		c.spare, c.spoken = nil, 0 // it may be another release
		if m.state.Member(f.From) != nil || m.state.Gone(f.From) != nil {
			m.saveContact(f.From, c)
		}
		return true
	}
	m.send(f.From, wire.Copied{Boot: is.boot, Nonce: is.nonce, KnownBoot: c.start.boot, KnownNonce: c.start.nonce})
	return false
}

// takeCopied learns that somebody refuses this peer: if what was refused is
// the present start, there is another one that is as good or better, and this
// database is a copy, or was put back.
func (m *Machine) takeCopied(from peer.ID, q wire.Copied) {
	now := start{m.boot, m.nonce}
	if refused := (start{q.Boot, q.Nonce}); refused != now || q.KnownBoot < now.boot || q.KnownBoot == now.boot && q.KnownNonce == now.nonce {
		return // it is about an earlier start
	}
	m.send(from, wire.Twin{Boot: now.boot, Nonce: now.nonce, OtherBoot: q.KnownBoot, OtherNonce: q.KnownNonce})
	why := fmt.Sprintf("%s has heard from another start of this peer (boot %d, here it is %d)", m.nameOf(from), q.KnownBoot, m.boot)
	if !m.contact(from).accepts {
		// Each start has a higher boot: after some this one would pass for the latest.
		m.outlive(why)
		return
	}
	if q.KnownBoot > m.surpassed {
		// This database was the latest when it started, so it is no old one. Once
		// the other is gone, one more start is enough.
		m.surpassed = q.KnownBoot
		m.saveIdentity()
	}
	m.suspend(copied, why+": this database is a copy of another host's, or an old one that was put back")
}

// takeTwin learns that an earlier start of a peer still runs beside the latest:
// of this very peer, which then stops too, since nobody can tell which of the
// two is the copy, or of the one that answers, whose latest start is told.
func (m *Machine) takeTwin(from peer.ID, c *contact, q wire.Twin) {
	switch other := (start{q.OtherBoot, q.OtherNonce}); other {
	case start{m.boot, m.nonce}:
		m.suspend(copied, "another host runs with the ID of this peer: one of the two databases is a copy of the other")
	case c.start:
		m.send(from, q)
	}
}

// meetDouble meets a peer with this peer's own ID: this database was copied.
func (m *Machine) meetDouble(f *wire.Frame) {
	// Its own frames may go in circles, and those of an earlier start be late. A
	// copy of an earlier start that lives is told by others, see Twin.
	if f.Boot > m.boot || f.Boot == m.boot && f.Nonce != m.nonce {
		m.suspend(copied, "another host runs with the ID of this peer: one of the two databases is a copy of the other")
	}
}

// checkVeto sees whether the next slot was decided, as another peer says, without the
// vote of this one where that is needed, as of one that is alone or the first of two. It
// would have accepted a value, on its disk, before anybody could learn of it. One that
// has dissolved a cluster may come to it again, having forgotten it on purpose.
func (m *Machine) checkVeto() {
	if m.state.Slot > 0 && len(m.acceptor.Value) == 0 && m.gaveWay.IsZero() && m.hasVeto() {
		m.outlive(fmt.Sprintf("others know a decision (slot %d) that needs the vote of this peer, but it does not know that one", m.state.Slot+1))
	}
}

// hasVeto reports whether nothing can be decided without this peer.
func (m *Machine) hasVeto() bool {
	return m.isVoter(m.self) && !m.majority(slices.DeleteFunc(m.state.Voters(), func(id peer.ID) bool { return id == m.self }))
}
