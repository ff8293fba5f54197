package trade

import (
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// asked names a question of another peer.
type asked struct {
	from peer.ID
	boot peer.Boot
	id   uint64
}

// granted is what it was granted, kept so that a question that comes twice is not granted twice. Refusals are not kept: in a
// full pool every call asks everybody.
type granted struct {
	answer wire.Answer
	at     time.Time
}

// keepGranted is how long a grant is kept.
const keepGranted = 10 * time.Minute

// Repeat answers a question that was granted before, and reports whether it was.
func (t *Trade) Repeat(h wire.Header, q wire.Ask) bool {
	g, known := t.granted[asked{h.From, h.Boot, q.ID}]
	if known {
		t.out.Send(h.From, g.answer)
	}
	return known
}

// Answer answers another peer's question.
func (t *Trade) Answer(h wire.Header, q wire.Ask, a wire.Answer) {
	a.ID = q.ID
	if len(a.Text) > wire.MaxText {
		a.Text = a.Text[:wire.MaxText]
	}
	if a.Verdict == wire.Granted {
		t.granted[asked{h.From, h.Boot, q.ID}] = granted{a, t.out.Now()}
	}
	t.out.Send(h.From, a)
}

// Split answers a peer that wants space in a range: with the largest block that can be spared, of what is free there at most
// half, and a single address whole. What rests is given only if there is nothing else (protocol, 3.6). If the answer grants
// something, the caller proposes the [Trade.Give] of its range.
func (t *Trade) Split(p *chronicle.Pool, s *space.Space, in addr.Range) wire.Answer {
	free := s.FreeIn(in)
	limit := max(free/2, 1)
	r := s.LargestFree(in, limit, false, t.out.Now(), t.cfg.Rest)
	if r.Empty() {
		r = s.LargestFree(in, limit, true, t.out.Now(), t.cfg.Rest)
	}
	switch {
	case !r.Empty():
		return wire.Answer{Verdict: wire.Granted, Range: r, Free: free - r.Size()}
	case t.IsLeaving(p.Key, in):
		return wire.Answer{Verdict: wire.RefusedNow} // a decision is under way
	}
	t.begged[p.Key] = true
	return wire.Answer{Verdict: wire.RefusedFull}
}

// Give notes that a range becomes another peer's, and returns what the caller proposes for that. Nothing in it is held.
func (t *Trade) Give(p *chronicle.Pool, r addr.Range, to peer.ID) chronicle.Action {
	*t.out.Note() = effect.Note{Kind: effect.NoteGiven, Pool: p.CIDR, Address: addr.Nth(p.CIDR, r.Start), Holder: t.peers.NameOf(to)}
	return chronicle.Give{Pool: p.Key, Range: r, To: to}
}

// IsLeaving reports whether a command of this peer that takes some of the range from it is under way.
func (t *Trade) IsLeaving(k chronicle.PoolKey, r addr.Range) bool {
	return t.log.IsUnderWay(func(a chronicle.Action) bool {
		from, taken, takes := chronicle.Takes(a)
		return takes && from == k && taken.Overlaps(r)
	})
}
