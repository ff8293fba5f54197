package paxos

import (
	"fmt"
	"iter"
	"slices"
	"testing"
)

// model is a small world that is explored to its end: every order in which
// every message of a few ballots can arrive, be repeated or be lost.
//
// Three things are left out that add states but no outcome. An answer arrives
// at once or never: what it says was settled when it was given, and a proposer
// that counts it sooner only has more to send. An acceptance always arrives:
// counting it changes nothing but what is known. A refusal never does: a
// proposer that gives up is one that is not heard of again. Nor are there
// restarts, since an acceptor whose disk is its memory does not notice any.
type model struct {
	voters  int
	direct  int // how many of the ballots are at round 0, each of the voter of its number
	rules   rules
	seen    map[uint64]bool
	decided bool // somewhere a value is
}

// world is one state of a model. Ballot i is proposer i's only one and is for
// the value i, a single byte.
type world struct {
	acceptors []Acceptor
	proposers []Proposer
}

// explore returns the first breach in the worlds of that many ballots.
func (m *model) explore(t *testing.T, ballots int) error {
	t.Helper()
	m.seen = make(map[uint64]bool)
	w := world{acceptors: make([]Acceptor, m.voters)}
	e := electorateOf(t, m.voters)
	if m.rules.electorate != nil {
		e = m.rules.electorate(0, e)
	}
	for i := range ballots {
		proposer := id(self)
		if i < m.direct {
			proposer = id(byte(i + 1))
		}
		p, err := NewProposer(proposer, 1, e)
		if err != nil {
			t.Fatal(err)
		}
		value := []byte{byte(i + 1)}
		if i < m.direct {
			// That it begins before all others leaves out nothing: until it does,
			// nothing of its own acceptor is asked for either.
			if _, ok := p.StartUnprepared(proposer, value, &w.acceptors[i]); !ok {
				t.Fatal("round 0 cannot be used")
			}
		} else if _, err := p.Start(value, uint64(i-m.direct)); err != nil {
			t.Fatal(err)
		}
		w.proposers = append(w.proposers, *p)
	}
	return m.visit(w)
}

// visit checks a world and goes on to all that can follow it.
func (m *model) visit(w world) error {
	key := w.key()
	if m.seen[key] {
		return nil
	}
	m.seen[key] = true
	if err := m.check(w); err != nil {
		return err
	}
	for i := range w.proposers {
		for j := range w.acceptors {
			for next := range m.next(w, i, j) {
				if err := m.visit(next); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// next yields the worlds in which acceptor j gets what proposer i is asking.
func (m *model) next(w world, i, j int) iter.Seq[world] {
	return func(yield func(world) bool) {
		if w.proposers[i].phase == Preparing {
			unheard := w.clone()
			a, _ := unheard.acceptors[j].Prepare(w.proposers[i].ballot)
			if promise, ok := a.(Promise); ok {
				heard := unheard.clone()
				if m.rules.heard != nil {
					promise = m.rules.heard(&heard.proposers[i], promise).(Promise)
				}
				heard.proposers[i].OnPromise(id(byte(j+1)), promise)
				_ = yield(unheard) && yield(heard)
			}
			return
		}
		accept := (*Acceptor).Accept
		if m.rules.accept != nil {
			accept = m.rules.accept
		}
		after := w.clone()
		p := &after.proposers[i]
		a, _ := accept(&after.acceptors[j], p.ballot, p.value)
		if accepted, ok := a.(Accepted); ok {
			p.OnAccepted(id(byte(j+1)), accepted)
			yield(after)
		}
	}
}

func (m *model) check(w world) error {
	var value []byte
	for i, p := range w.proposers {
		if p.phase != Decided {
			continue
		}
		m.decided = true
		if value != nil && !slices.Equal(value, p.value) {
			return fmt.Errorf("%w: %x, and %x at ballot %d", errTwoValues, value, p.value, i+1)
		}
		value = p.value
	}
	return nil
}

func (w world) clone() world {
	w.acceptors = slices.Clone(w.acceptors)
	w.proposers = slices.Clone(w.proposers)
	for i := range w.proposers {
		p := &w.proposers[i]
		p.promised, p.accepted = slices.Clip(p.promised), slices.Clip(p.accepted) // append copies
	}
	return w
}

// key packs all that matters of a world into 64 bits, which is enough for 3
// ballots of 3 voters and 2 ballots of 5 (584,423 worlds, some 10 s).
func (w world) key() uint64 {
	var key, bits uint64
	add := func(v, width uint64) {
		key = key<<width | v
		bits += width
	}
	value := func(v []byte) uint64 {
		if len(v) == 0 {
			return 0
		}
		return uint64(v[0])
	}
	for _, a := range w.acceptors {
		add(a.Promised.Round, 2)
		add(a.Accepted.Round, 2)
		add(value(a.Value), 2)
	}
	for _, p := range w.proposers {
		var promised, accepted uint64
		for j := range w.acceptors {
			if slices.Contains(p.promised, id(byte(j+1))) {
				promised |= 1 << j
			}
			if slices.Contains(p.accepted, id(byte(j+1))) {
				accepted |= 1 << j
			}
		}
		add(promised, uint64(len(w.acceptors)))
		add(value(p.value), 2)
		add(p.adopted.Round, 2)
		// No acceptance is counted before all of promised, so that the phase
		// follows from the two sets.
		add(accepted, uint64(len(w.acceptors)))
	}
	if bits > 64 {
		panic("the world is too large for its key")
	}
	return key
}

func TestOneValueIsDecidedInEverySmallWorld(t *testing.T) {
	for _, tc := range []struct{ voters, ballots, direct int }{
		{1, 3, 0},
		{2, 3, 0},
		{3, 2, 0},
		{3, 3, 0},
		{4, 2, 0},
		{1, 3, 1},
		{2, 3, 1},
		{3, 2, 1},
		{3, 3, 1},
		{4, 2, 1},
	} {
		t.Run(fmt.Sprintf("voters=%d/ballots=%d/direct=%d", tc.voters, tc.ballots, tc.direct), func(t *testing.T) {
			if testing.Short() && tc.voters > 3 {
				t.Skip("takes a second, and ten with the race detector")
			}
			t.Parallel()
			m := model{voters: tc.voters, direct: tc.direct}
			if err := m.explore(t, tc.ballots); err != nil {
				t.Error(err)
			}
			if !m.decided {
				t.Error("no value is decided in any world")
			}
			t.Logf("%d worlds", len(m.seen))
		})
	}
}
