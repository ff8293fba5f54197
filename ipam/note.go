package ipam

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// noteUse notes what became of an address that somebody holds, or held, since then.
func (m *Machine) noteUse(kind NoteKind, p *pool, a netip.Addr, h *space.Holder, since int64) {
	n := m.out.Note()
	n.Kind, n.Pool, n.Address = kind, p.CIDR, a
	n.Last, n.Holder, n.From, n.To = netip.Addr{}, "", "", ""
	tellUse(&n.Use, h, since)
}

// tellUse sets what is known of a holder.
func tellUse(u *Use, h *space.Holder, since int64) {
	u.Kind, u.Container, u.Name, u.MAC = h.Kind.String(), h.Ref, h.Name, h.MAC
	u.Since = time.Unix(0, since).UTC()
}

// useOf is what a record says of its holder.
func useOf(rec *space.Record) (u Use) {
	tellUse(&u, &rec.Holder, rec.Since)
	return u
}

// noteMove notes a range that a command has moved from one owner to another.
func (m *Machine) noteMove(key chronicle.PoolKey, r addr.Range, from, to peer.ID) {
	p := m.pools[key]
	if p == nil || r.Empty() {
		return
	}
	m.note(Note{
		Kind: NoteMoved, Pool: p.CIDR, Address: addr.Nth(p.CIDR, r.Start), Last: addr.Nth(p.CIDR, r.End-1),
		From: m.ownerName(from), To: m.ownerName(to),
	})
}

// noteMoved is noteMove where what is kept for a name may have stayed with who
// had it.
func (m *Machine) noteMoved(key chronicle.PoolKey, r addr.Range, from, to peer.ID) {
	if p := m.pools[key]; p != nil && p.Ring.Owns(to, r) {
		m.noteMove(key, r, from, to)
	}
}

// ownerName names whose a range is.
func (m *Machine) ownerName(id peer.ID) string {
	switch id {
	case ring.Free:
		return "free"
	case ring.Reserved:
		return "reserved"
	}
	return m.nameOf(id)
}

// Answers are the words for what comes of asking another peer for space:
// granted; held, full, not-mine and busy are refusals, and silent is no answer.
func Answers() []string { return []string{"granted", "held", "full", "not-mine", "busy", "silent"} }

// noteAnswer notes what came of asking a peer.
func (m *Machine) noteAnswer(p chronicle.PoolKey, from peer.ID, word string) {
	n := Note{Kind: NoteAnswered, From: m.nameOf(from), To: word}
	if pool := m.pools[p]; pool != nil {
		n.Pool = pool.CIDR
	}
	m.note(n)
}

// verdictWord names a verdict as in [Answers].
func verdictWord(v wire.Verdict) string {
	switch v {
	case wire.Granted:
		return "granted"
	case wire.RefusedHeld:
		return "held"
	case wire.RefusedFull:
		return "full"
	case wire.RefusedNotMine:
		return "not-mine"
	case wire.RefusedNow:
	}
	return "busy"
}
