package ipam

import (
	"errors"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/wire"
)

// question is something that only other peers can do: give space, or let an
// address be reserved.
type question struct {
	want wire.Want
	pool chronicle.PoolKey
	in   addr.Range
	kind chronicle.Kind
}

// asking is how far this peer has come with a question. One peer is asked at
// a time (protocol, 3.5).
type asking struct {
	id      uint64
	peer    peer.ID // who is being asked; peer.None: nobody
	since   time.Time
	granted addr.Range // what it said is on its way
	refused map[peer.ID]refusal
	silent  map[peer.ID]time.Time // who did not answer, and when
	used    time.Time             // when somebody last wanted to know
}

const (
	// answerTime is how long a peer that is asked has to answer, grantTime
	// how long what it granted may take to be decided.
	answerTime = time.Second
	grantTime  = 3 * time.Second
	// askAgain is after how long one who did not answer is asked again.
	askAgain = 2 * time.Second
	// forgetAsking is after how long nobody wants to know any more, and a
	// refusal is of no use to anybody.
	forgetAsking = 30 * time.Second
)

// refusal is an answer that says no, and when the question was put.
type refusal struct {
	wire.Answer
	asked time.Time
}

// stale reports whether a refusal is too old to end a call with: its question was put
// before the call asked for the first time, for one that waits no longer or for one that
// waited already, and what was in use then may have been freed. That a peer announces what
// there is again is no reason to believe it for longer: an announcement may be on the way.
func (m *Machine) stale(r refusal) bool {
	return m.current != nil && r.asked.Before(m.current.askedAt)
}

// errRefused is returned when everybody who could do it has refused.
var errRefused = errors.New("refused")

// ask asks the owners of a range for something. It makes the call wait while there
// is hope, and errRefused, with the last answer, when all have refused. When
// what was asked for is there the caller finds it before it asks.
func (m *Machine) ask(p *pool, want wire.Want, in addr.Range, kind chronicle.Kind) (wire.Answer, error) {
	q := question{want, p.Key, in, kind}
	a := m.questions[q]
	if a == nil {
		a = &asking{refused: map[peer.ID]refusal{}, silent: map[peer.ID]time.Time{}}
		m.questions[q] = a
	}
	a.used = m.now
	if c := m.current; c != nil && c.askedAt.IsZero() {
		c.askedAt = m.now
	}
	m.giveUp(q, a)
	if !a.granted.Empty() && want != wire.WantReserved && p.Ring.Owns(m.self, a.granted) {
		a.peer = peer.None // it came, and was not enough
	}
	owners := m.concerned(p, want, in)
	if want == wire.WantVacant && !slices.Contains(owners, a.peer) {
		a.peer = peer.None // it has gone
	}
	if a.peer != peer.None {
		return wire.Answer{}, m.waitForPeers(p, q, []peer.ID{a.peer})
	}
	var candidates, away []peer.ID
	var last wire.Answer
	for _, id := range owners {
		at, silent := a.silent[id]
		no, refused := a.refused[id]
		switch {
		case refused && !m.stale(no):
			last = no.Answer
		case !m.live(id), silent && m.now.Sub(at) < askAgain:
			away = append(away, id)
		default:
			candidates = append(candidates, id)
		}
	}
	if want == wire.WantVacant && last.Verdict != 0 {
		delete(m.questions, q)
		return last, errRefused // one who uses it is enough
	}
	if want == wire.WantVacant {
		// Those who will refuse come first: what others give up may be theirs to hand
		// out, and be an address that the other host has itself.
		if i := slices.IndexFunc(away, func(id peer.ID) bool { return !m.live(id) }); i >= 0 {
			return wire.Answer{}, m.waitForPeers(p, q, away[i:i+1])
		}
		if users := slices.DeleteFunc(slices.Clone(candidates), func(id peer.ID) bool { return !p.UsedBy(id) }); len(users) > 0 {
			candidates = users
		}
	}
	if len(candidates) > 0 {
		m.question(q, a, m.pick(p, a.due(candidates)))
		return wire.Answer{}, m.waitForPeers(p, q, []peer.ID{a.peer})
	}
	if len(away) > 0 {
		return wire.Answer{}, m.waitForPeers(p, q, away)
	}
	if want != wire.WantSpace {
		delete(m.questions, q) // the next one may hear otherwise
	}
	return last, errRefused
}

// giveUp stops waiting for an answer that should have come.
func (m *Machine) giveUp(q question, a *asking) {
	limit := answerTime
	if !a.granted.Empty() {
		limit = grantTime
	}
	if since := m.now.Sub(a.since); a.peer != peer.None && (since >= limit || since < 0) {
		a.silent[a.peer] = m.now
		m.noteAnswer(q.pool, a.peer, "silent")
		a.peer = peer.None
	}
}

// question puts a question to a peer.
func (m *Machine) question(q question, a *asking, to peer.ID) {
	m.lastQuestion++
	a.id, a.peer, a.since, a.granted = m.lastQuestion, to, m.now, addr.Range{}
	delete(a.silent, to) // a refusal of before stays: calls may wait that were told it
	m.send(to, wire.Ask{ID: a.id, Want: q.want, Pool: q.pool, Range: q.in, Kind: q.kind})
}

// ownersOf returns the other peers of the roster that own a part of the range.
func (m *Machine) ownersOf(p *pool, in addr.Range) []peer.ID {
	var out []peer.ID
	for _, t := range p.Ring.Within(in) {
		if t.Owner != m.self && t.Owner != ring.Free && t.Owner != ring.Reserved && !slices.Contains(out, t.Owner) && m.state.Member(t.Owner) != nil {
			out = append(out, t.Owner)
		}
	}
	return out
}

// due returns who of the candidates is to be asked before the others: those who have not
// refused, else the one whose refusal is the oldest. So everybody is asked in turn, however
// many calls come, each of which wants to hear of all.
func (a *asking) due(candidates []peer.ID) []peer.ID {
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

// concerned returns the other peers of the roster that can do what is wanted in
// a range: its owners, and of a pool that is to be left all who use it.
func (m *Machine) concerned(p *pool, want wire.Want, in addr.Range) []peer.ID {
	if want != wire.WantVacant {
		return m.ownersOf(p, in)
	}
	return slices.DeleteFunc(p.parties(), func(id peer.ID) bool { return id == m.self || m.state.Member(id) == nil })
}

// pick chooses whom to ask: at random, weighted by what each said it has to
// spare in the pool, or owns there if it has not said.
func (m *Machine) pick(p *pool, candidates []peer.ID) peer.ID {
	weights := make([]uint64, len(candidates))
	var sum uint64
	for i, id := range candidates {
		told, known := m.contact(id).spare[p.Key]
		w := told.Free
		if !known {
			for r := range p.Ring.OwnedBy(id) {
				w += r.Size() / 2
			}
		}
		weights[i] = min(uint64(w), 1<<40) + 1
		sum += weights[i]
	}
	at := m.cfg.Rand.Uint64N(sum)
	for i, w := range weights {
		if at < w {
			return candidates[i]
		}
		at -= w
	}
	return candidates[0]
}

// takeAnswer takes in the answer to a question of this peer.
func (m *Machine) takeAnswer(from peer.ID, answer wire.Answer) {
	for q, a := range m.questions {
		if a.id != answer.ID || a.peer != from {
			continue
		}
		m.changed = true
		m.noteAnswer(q.pool, from, verdictWord(answer.Verdict))
		switch answer.Verdict {
		case wire.Granted:
			a.granted = answer.Range
			delete(a.refused, from)
			return
		case wire.RefusedHeld, wire.RefusedFull:
			a.refused[from] = refusal{answer, a.since}
		default:
			a.silent[from] = m.now // it, or this peer, sees an old ring
		}
		a.peer = peer.None
		return
	}
}

func (c *contact) setSpare(s wire.Spare) {
	if c.spare == nil {
		c.spare = map[chronicle.PoolKey]wire.Spare{}
	}
	c.spare[s.Pool] = s
}

// takeAnnounce takes in what a peer has to spare. What it refused before it
// may grant now.
func (m *Machine) takeAnnounce(from peer.ID, c *contact, v wire.Announce) {
	for _, s := range v.Pools {
		if m.pools[s.Pool] == nil && s.Pool.Slot <= m.state.Slot {
			continue // it is no more, and its key never comes again
		}
		c.setSpare(s)
		if s.Free == 0 {
			continue
		}
		for q, a := range m.questions {
			if q.pool == s.Pool {
				delete(a.refused, from)
				m.changed = true
			}
		}
	}
}

// pruneQuestions forgets what nobody wants to know any more, and wakes those
// who wait for an answer that is overdue.
func (m *Machine) pruneQuestions() {
	for q, a := range m.questions {
		if since := m.now.Sub(a.used); since >= forgetAsking || since < 0 {
			delete(m.questions, q)
		}
	}
}

// spaceElsewhere asks for space in a range in which this peer has none left,
// and says why it got none.
func (m *Machine) spaceElsewhere(p *pool, n Network, want addr.Range) error {
	if m.alone() {
		return m.full(p, n, want)
	}
	if _, err := m.ask(p, wire.WantSpace, want, 0); !errors.Is(err, errRefused) {
		return err
	}
	return m.full(p, n, want)
}

// exactly asks the owner of an address of another peer for it, and says who
// holds it if it is refused.
func (m *Machine) exactly(p *pool, o addr.Offset) error {
	t, _ := p.Ring.At(o)
	if m.isPredecessor(t.Owner) {
		return m.waitForSuccession()
	}
	if m.state.Member(t.Owner) == nil {
		return m.errQuarantined(p, o, t.Owner)
	}
	answer, err := m.ask(p, wire.WantExact, addr.One(o), 0)
	if errors.Is(err, errRefused) {
		return m.errHeldBy(p, o, answer.Text)
	}
	return err
}
