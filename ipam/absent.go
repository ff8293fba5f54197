package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
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

// sightGone looks for what is held, reserved and counted in a pool and was not
// seen, and reports whether there is some that must be looked for again.
func (m *Machine) sightGone(p *pool, asked []*network, s *sight) (again bool) {
	again = m.sightMissing(p, s)
	again = m.sightReserved(p, asked, s) || again
	return m.sightNetworks(p.CIDR, p.listed, asked, s.mark.at) || again
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
		if !s.mark.knows(rec.Seq) || s.mark.at.Before(m.heldSince(&rec).Add(m.cfg.Grace)) {
			again = true // too young to tell
			continue
		}
		switch first, news := p.missing.since(o, s.mark.at); {
		case news:
			m.note(Note{Kind: NoteLeakFound, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: m.holderText(rec.Holder, rec.Since)})
			again = true
		case s.mark.at.Sub(first) < m.cfg.Grace:
			again = true
		default:
			free = append(free, o)
		}
	}
	for _, o := range free {
		m.freeGone(p, o, p.kept)
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
		m.leaveToHost(p, o)
	}
}

// sightReserved looks for auxiliary addresses that no network names any more,
// and reports whether there are some that must be looked for again. What an
// engine replays to a new database is taken for auxiliary as well.
func (m *Machine) sightReserved(p *pool, asked []*network, s *sight) (again bool) {
	if !m.soleUser() || p.listed == 0 {
		return false // others may name them; with its last network they all go
	}
	if slices.ContainsFunc(asked, func(n *network) bool { return m.inTheMaking(n, s.mark.at) }) {
		return true // it may name them, and is not listed yet
	}
	for _, r := range slices.Clone(p.Reserved) {
		o := r.Range.Start
		if r.Kind != chronicle.KindAuxiliary || p.keeps(o) {
			delete(p.unnamed, o)
			continue
		}
		if first, _ := p.unnamed.since(o, s.mark.at); s.mark.at.Sub(first) < m.cfg.Grace {
			again = true
		} else {
			delete(p.unnamed, o)
			m.background(chronicle.Unreserve{Pool: p.Key, Range: r.Range, Kind: r.Kind})
		}
	}
	return again
}

// inTheMaking reports whether a network may still be in the making at that
// time.
func (m *Machine) inTheMaking(n *network, at time.Time) bool {
	return at.Before(m.sureSince(n.asked.at).Add(makeTime))
}

// sightNetworks compares the networks that were asked for on a subnet with those
// that the engine lists. Those that it lacks twice, the grace apart, were
// removed while nobody listened.
func (m *Machine) sightNetworks(subnet netip.Prefix, listed int, asked []*network, begun time.Time) (again bool) {
	for _, n := range asked {
		switch {
		case listed > 0:
			n.missing = time.Time{}
		case m.inTheMaking(n, begun):
			again = true
		case n.missing.IsZero():
			n.missing = begun
			again = true
		case begun.Sub(n.missing) < m.cfg.Grace:
			again = true
		default:
			delete(m.networks, n.ID())
			m.countAsked(n.Pool, -n.count)
			n.count = 0
			m.saveNetwork(n)
			m.note(Note{Kind: NoteNetworkGone, Pool: subnet})
		}
	}
	return again
}
