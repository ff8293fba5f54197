package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// toldOf returns how much of what another peer owns in the pool is free, and
// how much of that rests, as it announced. Until it has, all of it counts as
// free.
func (m *Machine) toldOf(p *pool, id peer.ID, owned addr.Count) (free, resting addr.Count, told bool) {
	if c := m.contacts[id]; c != nil {
		if t, ok := c.spare[p.Key]; ok {
			return min(t.Free, owned), min(t.Resting, t.Free, owned), true
		}
	}
	return owned, 0, false
}

// shares sums up the pool by owner, in the order of their IDs.
func (m *Machine) shares(p *pool, now time.Time) []ShareStatus {
	owned := map[peer.ID]addr.Count{}
	for r, t := range p.Ring.All() {
		if t.Owner != ring.Free && t.Owner != ring.Reserved {
			owned[t.Owner] += r.Size()
		}
	}
	var out []ShareStatus
	for _, id := range sortedIDs(owned) {
		s := ShareStatus{Owner: m.textOf(id), Owned: uint64(owned[id])}
		if id == m.self {
			s.Held, s.Resting, s.Told = uint64(p.space.Held()-p.space.Strays())-p.waitingKept(addr.Whole(p.CIDR)), uint64(p.space.Resting(now, m.cfg.Rest)), true
		} else {
			free, resting, told := m.toldOf(p, id, owned[id])
			s.Held, s.Resting, s.Told = s.Owned-uint64(free), uint64(resting), told
		}
		out = append(out, s)
	}
	return out
}
