package ipam

import (
	"fmt"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// place is where a conflict about an address is.
func place(p *pool, o addr.Offset) conflict.Place { return conflict.Place{Pool: p.Key, At: o} }

// conflictOf notes that somebody uses an address, since then as far as is known, which is not his to have.
func (m *Machine) conflictOf(p *pool, o addr.Offset, h space.Holder, since int64, why string) {
	m.disagree(p, o, m.disputeOf(addr.Nth(p.CIDR, o), h, since, why))
}

// disputeOf says of an address what conflictOf does.
func (m *Machine) disputeOf(a netip.Addr, h space.Holder, since int64, why string) conflict.Conflict {
	next := ""
	switch h.Kind {
	case space.Gateway:
		next = "remove the networks of this host on that pool, or the other holder"
	case space.Client:
		next = fmt.Sprintf("ringlet free --for %s %v, or remove the other holder", sentence.Word(h.Ref), a)
	case space.Container, space.Unmarked, space.Host, space.Stranger, space.Kept:
	}
	return conflict.Conflict{
		Text: "is used by " + m.holderText(h, since) + ", but " + why,
		Who:  sentence.Who(h),
		Same: sentence.Who(h) + ", but " + why,
		Next: next,
		Host: h.Kind == space.Host,
	}
}

// disagree notes what cannot both be right about an address, whose text is: "is …, but …". It is noted once, as long as it
// stays the same.
func (m *Machine) disagree(p *pool, o addr.Offset, c conflict.Conflict) {
	if m.conflicts.Lasts(place(p, o), c.Same) {
		return
	}
	c.Text = addr.Nth(p.CIDR, o).String() + " in " + sentence.Pool(p.Pool) + " " + c.Text
	m.conflicts.Set(place(p, o), c)
	m.note(Note{Kind: NoteConflict, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: c.Text})
}

// settleHostConflicts forgets the conflicts about addresses that the host itself has no more. No list of an engine may come
// that would.
func (m *Machine) settleHostConflicts() {
	for at, c := range m.conflicts.All() {
		if p := m.pools.of[at.Pool]; c.Host && p != nil && !m.engine.OnHost(addr.Nth(p.CIDR, at.At)) {
			m.conflicts.End(at)
		}
	}
}
