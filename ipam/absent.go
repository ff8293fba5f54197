package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
)

// absences holds when addresses were first found to be absent from where they
// should be.
type absences map[addr.Offset]time.Time

// since returns when the address was first found absent, and whether that is
// now, at the given time.
func (a *absences) since(o addr.Offset, at time.Time) (first time.Time, news bool) {
	if first, known := (*a)[o]; known {
		return first, false
	}
	if *a == nil {
		*a = absences{}
	}
	(*a)[o] = at
	return at, true
}

// sightMissing looks for held addresses that no endpoint has, and reports
// whether there are some that must be looked for again. What is freed, and kept
// back by a network, is reserved.
func (m *Machine) sightMissing(p *pool, s *sight) (again bool) {
	var free []addr.Offset
	for o, kind := range p.space.Kinds() {
		if kind != space.Container && kind != space.Unmarked {
			continue
		}
		if _, here := p.seen[o]; here {
			continue
		}
		rec := p.space.Lookup(o)
		if !s.mark.Knows(rec.Seq) && !m.lacks(rule.Serials) || s.mark.At.Before(m.heldSince(&rec).Add(m.cfg.Grace)) {
			again = true // too young to tell
			continue
		}
		first, news := p.missing.since(o, s.mark.At)
		if news {
			m.note(Note{Kind: NoteLeakFound, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since)})
		}
		if s.mark.At.Sub(m.engine.SureSince(first)) < m.cfg.Grace && !m.lacks(rule.TwoLists) {
			again = true
			continue
		}
		free = append(free, o)
	}
	for _, o := range free {
		m.freeGone(p, o, p.here.Kept)
	}
	return again
}

// freeGone frees the held address at o, whose holder is gone as a list tells: to the network that keeps it back,
// by the same list, or to the host if it has that itself, or to all.
func (m *Machine) freeGone(p *pool, o addr.Offset, kept map[addr.Offset]chronicle.Kind) {
	rec := p.space.Lookup(o)
	m.freeHolding(p, o)
	m.note(Note{Kind: NoteLeakMended, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since)})
	if kind, keeps := kept[o]; keeps {
		_ = m.keepBack(p, o, kind) // the next list tells if that is in vain
	} else {
		m.settleAt(p, addr.One(o))
	}
}
