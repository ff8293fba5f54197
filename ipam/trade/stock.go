package trade

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// stock is what a trade keeps of a pool.
type stock struct {
	spareSince  time.Time  // since when this peer has more than it needs
	isAnnounced bool       // something was announced since a peer was last admitted
	announced   wire.Spare // what was announced last
	announcedAt time.Time
}

func (t *Trade) stock(k chronicle.PoolKey) *stock {
	s := t.stocks[k]
	if s == nil {
		s = &stock{}
		t.stocks[k] = s
	}
	return s
}

// maxChunk is the largest chunk of a pool where none is set.
const maxChunk = 1024

// Chunk returns how many addresses are opened at a time in a pool.
func (t *Trade) Chunk(s *space.Space) addr.Count {
	if t.cfg.Chunk > 0 {
		return t.cfg.Chunk
	}
	return min(max(s.Size()/addr.Count(8*max(len(t.log.State().Roster), 1)), 8), maxChunk)
}

// Ahead returns how many addresses are to be opened before they are needed: a chunk, once what is free in this peer's ranges
// falls under half of one, and else 0.
func (t *Trade) Ahead(s *space.Space) addr.Count {
	spare := s.Spare()
	if spare >= max(t.cfg.Chunk, maxChunk)/2 {
		return 0 // whatever a chunk is, of which to know it takes a division
	}
	if chunk := t.Chunk(s); spare < chunk/2 {
		return chunk
	}
	return 0
}

// sharing is how many peers pools are dealt to, as of an edition of the state.
type sharing struct {
	edition uint64
	peers   int
}

// share returns how much of a pool is dealt to each peer.
func (t *Trade) share(p *chronicle.Pool) addr.Count {
	if e := t.log.Edition(); t.sharing.edition != e {
		t.sharing = sharing{edition: e}
		for _, m := range t.log.State().Roster {
			if m.Phase != chronicle.Draining {
				t.sharing.peers++
			}
		}
	}
	size := p.Ring.Size() / addr.Count(max(t.sharing.peers, 1))
	switch t.cfg.Deal {
	case chronicle.DealAll:
		return size
	case chronicle.DealNone:
		return 0
	case chronicle.DealHalf:
	}
	return size / 2
}

// closeAfter is how long a peer keeps at least what it does not need.
const closeAfter = time.Second

// Behind returns what the caller proposes to give back the space that this peer has not needed for a while: ranges without
// held or resting addresses, beyond what it was dealt and a chunk of stock (protocol, 3.4).
func (t *Trade) Behind(p *chronicle.Pool, s *space.Space) (actions []chronicle.Action) {
	k := t.stock(p.Key)
	keep := t.share(p) + t.Chunk(s)
	spare := s.Spare()
	if spare <= keep {
		k.spareSince = time.Time{}
		return nil
	}
	now := t.out.Now()
	if k.spareSince.IsZero() {
		k.spareSince = now
	}
	if now.Sub(k.spareSince) < max(t.cfg.Rest, closeAfter) {
		return nil
	}
	excess := spare - keep
	for r := range s.Idle(now, t.cfg.Rest) {
		if excess == 0 || len(actions) == replog.MaxCommands {
			break
		}
		if r.Size() > excess {
			r = r.LargestBlock(excess)
		}
		excess -= r.Size()
		actions = append(actions, chronicle.Close{Pool: p.Key, Range: r})
	}
	return actions
}
