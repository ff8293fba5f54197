package departure_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

var (
	one  = peer.ID{1}
	two  = peer.ID{2}
	tre  = peer.ID{3}
	home = [16]byte{9}
)

// host is the first of three peers.
type host struct {
	out  effect.Out
	w    effect.Writer
	view cluster.View
	*departure.Departures
	number uint64 // of the last question and command
}

func begin(t *testing.T) *host {
	t.Helper()
	h := &host{}
	h.w = effect.NewWriter(&h.out)
	h.view = cluster.View{Contacts: cluster.New(&h.w), Self: one, Name: "nas", State: &chronicle.State{}}
	h.Departures = departure.New(&h.w)
	h.at(0)
	h.view.Undisturbed = h.view.Now
	h.decide(chronicle.Found{Cluster: home, Peers: []chronicle.Founder{
		{ID: one, Name: "nas", Boot: 1, Machine: 7}, {ID: two, Name: "desk", Boot: 1, Machine: 8}, {ID: tre, Name: "pi", Boot: 1, Machine: 7},
	}})
	if len(h.view.State.Roster) != 3 {
		t.Fatal("no cluster was founded")
	}
	return h
}

func (h *host) at(d time.Duration) {
	h.view.Now = time.Unix(1000, 0).Add(d)
	h.w.Reset(h.view.Now)
}

func (h *host) decide(a chronicle.Action) {
	h.number++
	h.view.State.Apply([]chronicle.Command{{Author: one, Number: h.number, Action: a}})
}

func (h *host) hears(id peer.ID) {
	h.view.TakeStart(h.view, id, cluster.Start{Boot: 1})
	h.view.Hear(h.view, &wire.Header{From: id, Cluster: home, Slot: h.view.State.Slot})
}

func (h *host) ask(id peer.ID) departure.Reports {
	return h.Ask(h.view, id, func() uint64 { h.number++; return h.number })
}

// A peer is forgotten only once all that can be reached have reported, and a majority can (R29).
func TestAsk(t *testing.T) {
	h := begin(t)
	h.decide(chronicle.Evict{Peer: tre})
	if r := h.ask(tre); r.IsClear() != r.Majority || len(r.Open) > 0 {
		t.Errorf("nobody else can be reached: %+v", r)
	}
	h = begin(t)
	h.hears(two)
	h.decide(chronicle.Evict{Peer: tre})
	r := h.ask(tre)
	question := h.number
	if r.IsClear() || !slices.Equal(r.Open, []peer.ID{two}) || !r.Majority || !h.w.Unposted() {
		t.Errorf("a peer has yet to report: %+v", r)
	}
	if h.TakeReport(two, wire.Report{ID: question + 1, Peer: tre}) || h.TakeReport(two, wire.Report{ID: question, Peer: two}) {
		t.Error("a report counts that nobody asked for")
	}
	if !h.TakeReport(two, wire.Report{ID: question, Peer: tre}) || !h.ask(tre).IsClear() {
		t.Error("a report does not count")
	}
	h.at(10 * time.Second)
	h.hears(two)
	if h.ask(tre).IsClear() {
		t.Error("a report counts that is too old")
	}
	h.TakeReport(two, wire.Report{ID: h.number, Peer: tre, Heard: true})
	if r := h.ask(tre); r.IsClear() || r.By != two {
		t.Errorf("a peer hears from it: %+v", r)
	}
}

// A quarantine belongs to one eviction, and begins anew when this peer hears from the evicted one (R28).
func TestEndQuarantine(t *testing.T) {
	h := begin(t)
	ends := func() bool {
		return len(h.EndQuarantine(h.view, time.Hour, func(peer.ID) bool { return true })) > 0
	}
	h.decide(chronicle.Evict{Peer: tre})
	if ends() {
		t.Error("it ends at once")
	}
	h.at(time.Hour)
	h.hears(tre)
	if ends() {
		t.Error("it ends for a peer that is heard")
	}
	h.at(2*time.Hour - 1)
	if ends() {
		t.Error("it ends before its time")
	}
	h.at(2 * time.Hour)
	if !ends() {
		t.Error("it does not end")
	}
	h.decide(chronicle.Admit{Founder: chronicle.Founder{ID: tre, Name: "pi", Boot: 2, Machine: 7}, Speaks: chronicle.Spoken})
	h.decide(chronicle.Evict{Peer: tre})
	if ends() {
		t.Error("that of a later eviction ends with the earlier one's time")
	}
	h.decide(chronicle.Forget{Peer: tre, Evicted: h.view.State.Gone(tre).Evicted})
	if h.at(9 * time.Hour); ends() {
		t.Error("that of a forgotten peer ends")
	}
}

// A peer inherits from one of its machine that it has never heard from, after ten seconds of silence (R27).
func TestInherit(t *testing.T) {
	h := begin(t)
	start := h.view.Now
	if h.at(10*time.Second - 1); departure.Inherit(h.view, 7, start) != nil {
		t.Error("it inherits too early")
	}
	h.at(10 * time.Second)
	if got := departure.Inherit(h.view, 7, start); len(got) != 1 || got[0] != (chronicle.Evict{Peer: tre}) || !departure.HasPredecessor(h.view, 7) {
		t.Errorf("it does not evict its former self: %v", got)
	}
	h.decide(chronicle.Evict{Peer: tre})
	if got := departure.Inherit(h.view, 7, start); len(got) != 1 || got[0] != (chronicle.Inherit{Former: tre}) {
		t.Errorf("it does not inherit from its former self: %v", got)
	}
	if departure.Inherit(h.view, 0, start) != nil || departure.Inherit(h.view, 9, start) != nil {
		t.Error("it inherits from another machine")
	}
	h.hears(tre)
	if h.at(time.Hour); departure.Inherit(h.view, 7, start) != nil || departure.HasPredecessor(h.view, 7) {
		t.Error("it inherits from a peer that lived beside it")
	}
}

// A peer that was silent for the lease time is evicted by the lowest live voter, where the rest keeps a majority.
func TestEvictSilent(t *testing.T) {
	h := begin(t)
	h.at(time.Minute)
	if departure.EvictSilent(h.view, time.Minute) != nil {
		t.Error("one of three evicts without a majority")
	}
	h.hears(two)
	if got := departure.EvictSilent(h.view, time.Minute); len(got) != 1 || got[0] != (chronicle.Evict{Peer: tre}) {
		t.Errorf("a silent peer is not evicted: %v", got)
	}
	if departure.EvictSilent(h.view, time.Minute+1) != nil || departure.EvictSilent(h.view, 0) != nil {
		t.Error("a peer is evicted that was not silent for long enough")
	}
	h.view.Undisturbed = h.view.Now.Add(-time.Second)
	h.hears(two)
	if departure.EvictSilent(h.view, time.Minute) != nil {
		t.Error("a peer is evicted that was silent while this one was frozen")
	}
	h.view.Undisturbed = time.Unix(1000, 0)
	h.view.Self = two
	h.hears(one)
	if departure.EvictSilent(h.view, time.Minute) != nil {
		t.Error("not only the lowest live voter evicts")
	}
}

// What was proposed is taken back once it is not wanted any more.
func TestIsUnwanted(t *testing.T) {
	h := begin(t)
	h.at(time.Minute)
	h.hears(two)
	h.decide(chronicle.Evict{Peer: tre})
	admit := chronicle.Admit{Founder: chronicle.Founder{ID: tre}}
	for _, c := range []struct {
		first, last chronicle.Action
		age         time.Duration
		want        bool
	}{
		{chronicle.Evict{Peer: two}, chronicle.Evict{Peer: two}, 0, true},
		{chronicle.Evict{Peer: tre}, chronicle.Evict{Peer: tre}, time.Hour, false},
		{chronicle.Evict{Peer: one}, chronicle.Evict{Peer: one}, 0, false}, // it leaves
		{chronicle.Forget{Peer: tre}, chronicle.Forget{Peer: tre}, 10*time.Second - 1, false},
		{chronicle.Forget{Peer: tre}, chronicle.Forget{Peer: tre}, 10 * time.Second, true},
		{chronicle.Evict{Peer: tre}, admit, 0, true},
	} {
		if got := departure.IsUnwanted(h.view, c.first, c.last, h.view.Now.Add(-c.age)); got != c.want {
			t.Errorf("%v to %v after %v: unwanted is %v", c.first, c.last, c.age, got)
		}
	}
	h.view.Undisturbed = h.view.Now
	if forget := (chronicle.Forget{Peer: tre}); !departure.IsUnwanted(h.view, forget, forget, h.view.Now.Add(-time.Second)) {
		t.Error("what was said before a freeze has a peer forgotten (R67)")
	}
}

// A name that fits several peers means the one that is as wanted; the beginning of an ID means one in any case.
func TestFind(t *testing.T) {
	h := begin(t)
	h.decide(chronicle.Evict{Peer: tre})
	h.view.TakePresence(h.view, tre, false, "desk", "") // it has another name by now
	for _, c := range []struct {
		ref    string
		wanted departure.Membership
		want   peer.ID
	}{
		{"desk", departure.InRoster, two},
		{"desk", departure.Evicted, tre},
		{"desk", departure.Forgotten, two},
		{strings.ToUpper(tre.String()[:8]), departure.InRoster, tre},
		{"pi", departure.Evicted, peer.None},
		{tre.String()[:7], departure.Evicted, peer.None},
	} {
		if got, err := departure.Find(h.view, c.ref, c.wanted); got != c.want || (err == nil) != (c.want != peer.None) {
			t.Errorf("%s means %v, %v", c.ref, got, err)
		}
	}
	h.view.TakePresence(h.view, one, true, "x", "")
	h.view.Name = "desk"
	if _, err := departure.Find(h.view, "desk", departure.Forgotten); err == nil || !strings.Contains(err.Error(), "can mean several peers") {
		t.Errorf("a name that fits three peers: %v", err)
	}
}
