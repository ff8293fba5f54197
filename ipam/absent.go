package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
)

// sightMissing looks for held addresses that no endpoint has, and reports
// whether there are some that must be looked for again. What is freed, and kept
// back by a network, is reserved.
func (m *Machine) sightMissing(p *pool.Pool, s *sight) (again bool) {
	var free []addr.Offset
	for o, kind := range p.Space.Kinds() {
		if kind != space.Container && kind != space.Unmarked {
			continue
		}
		if _, here := p.Seen[o]; here {
			continue
		}
		rec := p.Space.Lookup(o)
		if !s.mark.Knows(rec.Seq) && !m.lacks(rule.Serials) || s.mark.At.Before(m.pools.HeldSince(&rec).Add(m.cfg.Grace)) {
			again = true // too young to tell
			continue
		}
		first, news := p.Missing.Since(o, s.mark.At)
		if news {
			m.note(Note{Kind: NoteLeakFound, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.pools.HolderText(rec.Holder, rec.Since)})
		}
		if s.mark.At.Sub(m.engine.SureSince(first)) < m.cfg.Grace && !m.lacks(rule.TwoLists) {
			again = true
			continue
		}
		free = append(free, o)
	}
	for _, o := range free {
		m.freeGone(p, o, p.Here.Kept)
	}
	return again
}

// freeGone frees the held address at o, whose holder is gone as a list tells: to the network that keeps it back,
// by the same list, or to the host if it has that itself, or to all.
func (m *Machine) freeGone(p *pool.Pool, o addr.Offset, kept map[addr.Offset]chronicle.Kind) {
	rec := p.Space.Lookup(o)
	p.Free(o)
	m.note(Note{Kind: NoteLeakMended, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.pools.HolderText(rec.Holder, rec.Since)})
	if kind, keeps := kept[o]; keeps {
		_ = m.keepBack(p, o, kind) // the next list tells if that is in vain
	} else {
		p.SettleAt(addr.One(o))
	}
}
