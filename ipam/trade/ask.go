package trade

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/wire"
)

// question is something that only other peers can do: give space, or let an address be reserved.
type question struct {
	want wire.Want
	pool chronicle.PoolKey
	in   addr.Range
	kind chronicle.Kind
}

// asking is how far this peer has come with a question. One peer is asked at a time (protocol, 3.5).
type asking struct {
	id      uint64
	peer    peer.ID // who is being asked; peer.None: nobody
	since   time.Time
	granted addr.Range // what it said is on its way
	refused map[peer.ID]refusal
	silent  map[peer.ID]time.Time // who did not answer, and when
	used    time.Time             // when somebody last wanted to know
}

// refusal is an answer that says no, and when the question was put.
type refusal struct {
	wire.Answer
	asked time.Time
}

// outdated reports whether a refusal is too old for a call that first asked at a time: its question was put before that, and
// what was in use then may have been freed. That a peer announces what there is again is no reason to believe it for longer:
// an announcement may be on the way.
func (r refusal) outdated(first time.Time) bool { return r.asked.Before(first) }

const (
	// answerTime is how long a peer that is asked has to answer.
	answerTime = time.Second
	// grantTime is how long what it granted may take to be decided.
	grantTime = 3 * time.Second
	// askAgain is after how long a peer that did not answer is asked again.
	askAgain = 2 * time.Second
	// forgetAsking is after how long a question that nobody asks any more is forgotten, with its refusals.
	forgetAsking = 30 * time.Second
)

// Progress is how far a question has come: all have refused, or there is hope.
type Progress struct {
	Refused bool
	Answer  wire.Answer // the last refusal
	Waits   []peer.ID   // whose answer is waited for, unless all have refused; some may be out of reach
}

func waits(ids ...peer.ID) Progress { return Progress{Waits: ids} }

// Ask asks the peers that can do what is wanted in a range of a pool. first is when the caller first asked; zero where none
// waits. A caller that finds what it wants does not ask.
func (t *Trade) Ask(p *chronicle.Pool, want wire.Want, in addr.Range, kind chronicle.Kind, first time.Time) Progress {
	q := question{want, p.Key, in, kind}
	a := t.questions[q]
	if a == nil {
		a = &asking{refused: map[peer.ID]refusal{}, silent: map[peer.ID]time.Time{}}
		t.questions[q] = a
	}
	a.used = t.out.Now()
	t.giveUp(q, a)
	if !a.granted.Empty() && want != wire.WantReserved && p.Ring.Owns(t.self, a.granted) {
		a.peer = peer.None // it came, and was not enough
	}
	targets := t.targets(p, want, in)
	if want == wire.WantVacant && !slices.Contains(targets, a.peer) {
		a.peer = peer.None // it has gone
	}
	if a.peer != peer.None {
		return waits(a.peer)
	}
	var candidates, away []peer.ID
	var last wire.Answer
	for _, id := range targets {
		at, silent := a.silent[id]
		no, refused := a.refused[id]
		switch {
		case refused && !no.outdated(first):
			last = no.Answer
		case !t.peers.IsLive(id), silent && t.out.Now().Sub(at) < askAgain:
			away = append(away, id)
		default:
			candidates = append(candidates, id)
		}
	}
	if want == wire.WantVacant {
		if last.Verdict != 0 {
			delete(t.questions, q)
			return Progress{Refused: true, Answer: last} // one who uses it is enough
		}
		// Those who will refuse come first: what others give up may be theirs to hand
		// out, and be an address that the other host has itself.
		if i := slices.IndexFunc(away, func(id peer.ID) bool { return !t.peers.IsLive(id) }); i >= 0 {
			return waits(away[i])
		}
		if users := slices.DeleteFunc(slices.Clone(candidates), func(id peer.ID) bool { return !p.UsedBy(id) }); len(users) > 0 {
			candidates = users
		}
	}
	if len(candidates) > 0 {
		t.put(q, a, t.pick(p, a.nextToAsk(candidates)))
		return waits(a.peer)
	}
	if len(away) > 0 {
		return waits(away...)
	}
	if want != wire.WantSpace {
		delete(t.questions, q) // the next one may hear otherwise
	}
	return Progress{Refused: true, Answer: last}
}

// IsAsking reports whether questions are open, or were a moment ago.
func (t *Trade) IsAsking() bool { return len(t.questions) > 0 }

// giveUp stops waiting for an answer that should have come.
func (t *Trade) giveUp(q question, a *asking) {
	limit := answerTime
	if !a.granted.Empty() {
		limit = grantTime
	}
	if a.peer != peer.None && t.out.Passed(limit, a.since) {
		a.silent[a.peer] = t.out.Now()
		t.noteAnswer(q.pool, a.peer, "silent")
		a.peer = peer.None
	}
}

// put puts a question to a peer.
func (t *Trade) put(q question, a *asking, to peer.ID) {
	a.id, a.peer, a.since, a.granted = t.NextQuestion(), to, t.out.Now(), addr.Range{}
	delete(a.silent, to) // a refusal of before stays: calls may wait that were told it
	t.out.Send(to, wire.Ask{ID: a.id, Want: q.want, Pool: q.pool, Range: q.in, Kind: q.kind})
}

// targets returns the other peers of the roster that can do what is wanted in a range: its owners, and of a pool that is to be
// left all who use it.
func (t *Trade) targets(p *chronicle.Pool, want wire.Want, in addr.Range) (ids []peer.ID) {
	add := func(id peer.ID) {
		if id != t.self && !slices.Contains(ids, id) && t.log.State().Member(id) != nil {
			ids = append(ids, id)
		}
	}
	if want == wire.WantVacant {
		for _, id := range p.Parties() {
			add(id)
		}
		return ids
	}
	for _, part := range p.Ring.Within(in) {
		if part.Owner != ring.Free && part.Owner != ring.Reserved {
			add(part.Owner)
		}
	}
	return ids
}

// IsLeft reports whether no other peer of the roster owns a part of the pool or has networks on it.
func (t *Trade) IsLeft(p *chronicle.Pool) bool {
	return len(t.targets(p, wire.WantVacant, addr.Range{})) == 0
}

// nextToAsk returns who of the candidates is to be asked before the others: those who have not refused, else the one whose
// refusal is the oldest. So everybody is asked in turn, however many calls come, each of which wants to hear of all.
func (a *asking) nextToAsk(candidates []peer.ID) []peer.ID {
	unasked := slices.DeleteFunc(slices.Clone(candidates), func(id peer.ID) bool {
		_, refused := a.refused[id]
		return refused
	})
	if len(unasked) > 0 {
		return unasked
	}
	return []peer.ID{slices.MinFunc(candidates, func(x, y peer.ID) int {
		return a.refused[x].asked.Compare(a.refused[y].asked)
	})}
}

// pick chooses whom to ask: at random, weighted by what each said it has to spare in the pool, or owns there if it has not
// said.
func (t *Trade) pick(p *chronicle.Pool, candidates []peer.ID) peer.ID {
	weights := make([]uint64, len(candidates))
	var sum uint64
	for i, id := range candidates {
		told, known := t.told[p.Key][id]
		w := told.Free
		if !known {
			for r := range p.Ring.OwnedBy(id) {
				w += r.Size() / 2
			}
		}
		weights[i] = min(uint64(w), 1<<40) + 1
		sum += weights[i]
	}
	i := 0
	for at := t.cfg.Rand.Uint64N(sum); at >= weights[i]; i++ {
		at -= weights[i]
	}
	return candidates[i]
}

// TakeAnswer takes in the answer to a question of this peer, and reports whether it is one.
func (t *Trade) TakeAnswer(from peer.ID, answer wire.Answer) bool {
	for q, a := range t.questions {
		if a.id != answer.ID || a.peer != from {
			continue
		}
		t.noteAnswer(q.pool, from, verdictWord(answer.Verdict))
		switch answer.Verdict {
		case wire.Granted:
			a.granted = answer.Range
			delete(a.refused, from)
			return true
		case wire.RefusedHeld, wire.RefusedFull:
			a.refused[from] = refusal{answer, a.since}
		default:
			a.silent[from] = t.out.Now() // it, or this peer, sees an old ring
		}
		a.peer = peer.None
		return true
	}
	return false
}

// Answers are the words for what comes of asking another peer for space: granted; held, full, not-mine and busy are refusals,
// and silent is no answer.
func Answers() []string { return []string{"granted", "held", "full", "not-mine", "busy", "silent"} }

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

// noteAnswer notes what came of asking a peer.
func (t *Trade) noteAnswer(k chronicle.PoolKey, from peer.ID, word string) {
	n := effect.Note{Kind: effect.NoteAnswered, From: t.peers.NameOf(from), To: word}
	if p := t.log.State().Pool(k); p != nil {
		n.Pool = p.CIDR
	}
	*t.out.Note() = n
}
