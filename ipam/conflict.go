package ipam

import (
	"fmt"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// place is where a conflict about an address is.
func place(p *pool.Pool, o addr.Offset) conflict.Place { return conflict.Place{Pool: p.Key, At: o} }

// conflictOf notes that somebody uses an address, since then as far as is known, which is not his to have. other says what
// ends the other use; empty if nothing does.
func (m *Machine) conflictOf(p *pool.Pool, o addr.Offset, h space.Holder, since int64, why, other string) {
	m.disagree(p, o, m.disputeOf(h, since, why, m.endOf(p, o, h, since), other))
}

// disputeOf says of an address what conflictOf does. ends says what ends the use by the holder.
func (m *Machine) disputeOf(h space.Holder, since int64, why, ends, other string) conflict.Conflict {
	if other != "" && other != ends {
		ends += ", or " + other
	}
	return conflict.Conflict{
		Text: "is used by " + m.holderText(h, since) + ", but " + why,
		Who:  sentence.Who(h),
		Same: sentence.Who(h) + ", but " + why,
		Next: ends,
		Host: h.Kind == space.Host,
	}
}

// conflictOfListed notes that an endpoint which a list has uses an address that is not its to have. other is as for conflictOf.
func (m *Machine) conflictOfListed(p *pool.Pool, o addr.Offset, h space.Holder, s *sight, why, other string) {
	ends := sentence.End(h, addr.Nth(p.CIDR, o))
	if network, stranded := s.stranded[p][o]; stranded {
		ends = sentence.Disconnect(h, network)
	}
	m.disagree(p, o, m.disputeOf(h, m.now.UnixNano(), why, ends, other))
}

// endOf says what ends that something has an address of this peer.
func (m *Machine) endOf(p *pool.Pool, o addr.Offset, h space.Holder, since int64) string {
	if container, listed := p.Seen[o]; report.LacksContainer(h, since, container, listed, m.engine.Complete().At) {
		return sentence.Disconnect(h, p.Stranded[o])
	}
	return sentence.End(h, addr.Nth(p.CIDR, o))
}

// othersUse says of an address that its owner refuses why, and what ends that. No host is forgotten while a container here has an
// address of it.
func (m *Machine) othersUse(p *pool.Pool, o addr.Offset, err error) (why, other string) {
	why, _, _ = strings.Cut(err.Error(), ": ") // what follows is for whoever asked
	why = strings.TrimPrefix(why, fmt.Sprintf("address %v in %s ", addr.Nth(p.CIDR, o), sentence.Pool(p.Pool)))
	switch t, _ := p.Ring.At(o); {
	case t.Owner == ring.Free || t.Owner == ring.Reserved || t.Owner == m.members.Self():
		return why, ""
	case m.state.Member(t.Owner) == nil:
		return why, "bring that host back; if it is gone for good, stop that container, run ringlet forget " + m.refOf(t.Owner) + ", and start it again"
	default:
		return why, "the other holder on " + m.members.View().NameOf(t.Owner)
	}
}

// disagree notes what cannot both be right about an address, whose text is: "is …, but …". It is noted once, as long as it
// stays the same.
func (m *Machine) disagree(p *pool.Pool, o addr.Offset, c conflict.Conflict) {
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
