package bootcheck_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

const (
	wait     = 18 * time.Second
	question = 7
)

var home = [16]byte{9}

// start is one peer of three that starts.
type start struct {
	out   effect.Out
	w     effect.Writer
	view  cluster.View
	check *bootcheck.Check
}

func begin(t *testing.T) *start {
	t.Helper()
	s := &start{}
	s.w = effect.NewWriter(&s.out)
	state := &chronicle.State{}
	var all []chronicle.Founder
	for n := range byte(3) {
		all = append(all, chronicle.Founder{ID: peer.ID{n + 1}, Name: "host", Boot: 1})
	}
	state.Apply([]chronicle.Command{{Author: peer.ID{1}, Number: 1, Action: chronicle.Found{Cluster: home, Peers: all}}})
	if state.Slot != 1 {
		t.Fatal("no cluster was founded")
	}
	s.view = cluster.View{Contacts: cluster.New(&s.w), Self: peer.ID{1}, State: state}
	s.check = bootcheck.New(&s.w)
	s.at(0)
	s.check.Begin(s.view.Self, wait, question)
	return s
}

func (s *start) at(d time.Duration) {
	s.view.Now = time.Unix(100, 0).Add(d)
	s.w.Reset(s.view.Now)
}

// hears has a peer that knows a slot be heard from, and answer.
func (s *start) hears(id peer.ID, slot uint64, undecided bool, q uint64) {
	s.view.Hear(s.view, &wire.Header{From: id, Cluster: home, Slot: slot})
	s.check.Take(id, q, slot, undecided)
}

func (s *start) ends(undecided, outdated, mayAlone bool) bool {
	return s.check.Look(s.view, undecided, outdated, mayAlone)
}

// Each row is what a majority has answered, and whether that ends the check at once and behind the wait.
func TestLook(t *testing.T) {
	for name, c := range map[string]struct {
		slot      uint64
		undecided bool // of the answer
		question  uint64
		late      time.Duration // after the answer
		own       bool          // this peer is undecided
		outdated  bool
		mayAlone  bool
		ends      bool
	}{
		"the other knows as much":                             {slot: 1, question: question, ends: true},
		"the other knows more":                                {slot: 2, question: question},
		"the other may know more":                             {slot: 1, undecided: true, question: question},
		"this peer may have missed a decision":                {slot: 1, question: question, own: true},
		"an answer to an earlier question":                    {slot: 1, question: question - 1},
		"the other has gone again":                            {slot: 1, question: question, late: cluster.ReachTime},
		"the other knows more, in words not spoken here":      {slot: 2, question: question, outdated: true, ends: true},
		"the wait is over, and the other knows more":          {slot: 2, question: question, late: wait},
		"the wait is over, and this peer may go on alone":     {slot: 1, question: question - 1, late: wait, mayAlone: true, ends: true},
		"the wait is over, and this peer may not go on alone": {slot: 1, question: question - 1, late: wait},
		"the wait is not over":                                {slot: 1, question: question - 1, late: wait - 1, mayAlone: true},
	} {
		s := begin(t)
		s.hears(peer.ID{2}, c.slot, c.undecided, c.question)
		s.at(c.late)
		if got := s.ends(c.own, c.outdated, c.mayAlone); got != c.ends || s.check.IsRunning() == got {
			t.Errorf("%s: ends is %v", name, got)
		}
		if alone := c.mayAlone && c.ends; s.check.IsAlone() != alone || len(s.out.Note) != map[bool]int{true: 1}[alone] {
			t.Errorf("%s: alone is %v", name, s.check.IsAlone())
		}
	}
}

// A peer that went on alone is not alone any more once a majority has spoken to it.
func TestMeetMajority(t *testing.T) {
	s := begin(t)
	s.at(wait)
	if !s.ends(false, false, true) || s.check.MeetMajority(s.view) {
		t.Error("a peer that heard nobody has met a majority")
	}
	s.view.Hear(s.view, &wire.Header{From: peer.ID{3}, Cluster: home, Slot: 2})
	if s.check.MeetMajority(s.view) {
		t.Error("it counts before this peer knows what the others know")
	}
	s.view.Hear(s.view, &wire.Header{From: peer.ID{3}, Cluster: home, Slot: 1})
	if !s.check.MeetMajority(s.view) || s.check.IsAlone() || s.check.MeetMajority(s.view) {
		t.Error("a majority was met other than once")
	}
}

// What this peer has accepted is to be decided as soon as a majority has answered.
func TestCompletes(t *testing.T) {
	s := begin(t)
	if s.check.Completes(s.view, true) {
		t.Error("a peer that heard nobody votes")
	}
	s.hears(peer.ID{2}, 1, false, question)
	if !s.check.Completes(s.view, true) || s.check.Completes(s.view, false) {
		t.Error("a peer votes other than to complete what it has accepted")
	}
	s.check.Stop()
	if s.check.Completes(s.view, true) {
		t.Error("a check that does not run lets a peer vote")
	}
}

// A step is late behind the time that the machine asked for, or the next alarm behind a grant.
func TestWatch(t *testing.T) {
	var out effect.Out
	w := effect.NewWriter(&out)
	start := time.Unix(100, 0)
	at := func(d time.Duration) { w.Reset(start.Add(d)) }
	at(0)
	watch := bootcheck.New(&w)
	watch.Expect(time.Time{}, time.Time{})
	at(time.Hour)
	if watch.Late() > 0 || watch.IsOn() {
		t.Error("a machine that waits for nothing is late")
	}
	watch.Granted()
	alarms := 0
	for d := time.Hour; watch.IsOn(); d = out.WakeAt.Sub(start) {
		at(d)
		if watch.Late() > 0 {
			t.Errorf("at %v it is late by %v", d, watch.Late())
		}
		if watch.Expect(time.Time{}, time.Time{}); out.WakeAt.IsZero() {
			break
		}
		alarms++
	}
	if alarms != 4 || watch.IsOn() {
		t.Errorf("%d alarms behind a grant", alarms)
	}
	at(2 * time.Hour)
	watch.Expect(start.Add(time.Minute), start.Add(3*time.Hour))
	at(2*time.Hour + time.Second)
	if watch.Late() != time.Second {
		t.Errorf("behind a time that was over it is late by %v", watch.Late())
	}
}
