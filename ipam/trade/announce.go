package trade

import (
	"iter"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

const (
	// announceEvery is how often a peer announces at most what it has to spare.
	announceEvery = 10 * time.Second
	// countEvery is how late a change may be that matters to nobody but those who count.
	countEvery = time.Minute
	// maxAnnounce is how many pools fit into one broadcast.
	maxAnnounce = 60
)

// Announce tells the others how much this peer has to spare in its pools, when that has changed a good deal, or when somebody
// was refused and there is something now; and any other change after a while, since by it they count what is held.
func (t *Trade) Announce(pools iter.Seq2[*chronicle.Pool, *space.Space]) {
	now := t.out.Now()
	due := t.out.Passed(announceEvery, t.announcedAt)
	if !due && len(t.begged) == 0 {
		return
	}
	var v wire.Announce
	for p, s := range pools {
		k := t.stock(p.Key)
		is := wire.Spare{Pool: p.Key, Free: s.Spare(), Resting: s.Resting(now, t.cfg.Rest)}
		wanted := t.begged[p.Key] && is.Free > 0
		miscounted := k.announced != is && t.out.Passed(countEvery, k.announcedAt) // by the others
		if !wanted && (!due || k.isAnnounced && !changedMuch(k.announced, is) && !miscounted) {
			continue
		}
		delete(t.begged, p.Key)
		k.announced, k.announcedAt, k.isAnnounced = is, now, true
		if v.Pools = append(v.Pools, is); len(v.Pools) == maxAnnounce {
			break
		}
	}
	if due {
		t.announcedAt = now
	}
	if len(v.Pools) > 0 {
		t.out.Send(peer.None, v)
	}
}

// changedMuch reports whether others should hear of a change: always while little is left, else when it is an eighth.
func changedMuch(was, is wire.Spare) bool {
	const little = 256
	if min(was.Free, is.Free) < little {
		return was != is
	}
	most, least := max(was.Free, is.Free), min(was.Free, is.Free)
	return most-least >= most/8 // (most-least)*8 may be too much for IPv6
}

// AnnounceTo announces to a peer that has started anew what was announced of the pools before.
func (t *Trade) AnnounceTo(to peer.ID, pools iter.Seq2[*chronicle.Pool, *space.Space]) {
	var all []wire.Spare
	for p := range pools {
		if k := t.stocks[p.Key]; k != nil && k.isAnnounced {
			all = append(all, k.announced)
		}
	}
	for part := range slices.Chunk(all, maxAnnounce) {
		t.out.Send(to, wire.Announce{Pools: part})
	}
}

// Admitted says that a peer was admitted: it has heard no announcement yet.
func (t *Trade) Admitted() {
	for _, k := range t.stocks {
		k.isAnnounced = false
	}
}

// Restarted says that a peer has started anew: it may be another release, and says again what it has.
func (t *Trade) Restarted(id peer.ID) {
	for _, told := range t.told {
		delete(told, id)
	}
}

// told is what a peer announced last of a pool, after a slot, and what of it the peer was given and gave away since.
type told struct {
	wire.Spare
	slot       uint64
	more, less addr.Count
}

// moves notes that a slot gives or takes free space of a peer. Its last announcement does not know of that, unless the peer knew
// the slot by then.
func (t *Trade) moves(p *chronicle.Pool, id peer.ID, more, less addr.Count) {
	s, known := t.told[p.Key][id]
	if !known || t.log.State().Slot <= s.slot {
		return
	}
	s.more, s.less = s.more.Plus(more), s.less.Plus(less)
	t.told[p.Key][id] = s
}

// TakeAnnounce takes in what a peer has to spare, after a slot, and reports whether it may grant now what it refused before.
func (t *Trade) TakeAnnounce(from peer.ID, slot uint64, v wire.Announce) (more bool) {
	state := t.log.State()
	for _, s := range v.Pools {
		if s.Pool.Slot <= state.Slot && state.Pool(s.Pool) == nil {
			continue // it is no more, and its key never comes again
		}
		if t.told[s.Pool] == nil {
			t.told[s.Pool] = map[peer.ID]told{}
		}
		t.told[s.Pool][from] = told{Spare: s, slot: slot}
		if s.Free == 0 {
			continue
		}
		for q, a := range t.questions {
			if q.pool == s.Pool {
				delete(a.refused, from)
				more = true
			}
		}
	}
	return more
}

// Spare returns how much of what each other peer owns in a pool is free: what it announced last, with what it was given and gave
// away since.
func (t *Trade) Spare(k chronicle.PoolKey) map[peer.ID]wire.Spare {
	out := make(map[peer.ID]wire.Spare, len(t.told[k]))
	for id, s := range t.told[k] {
		s.Free = s.Free.Plus(s.more)
		s.Free -= min(s.Free, s.less)
		out[id] = s.Spare
	}
	return out
}

// Announcements returns how many announcements of others are kept, of whatever pools.
func (t *Trade) Announcements() (n int) {
	for _, told := range t.told {
		n += len(told)
	}
	return n
}
