package formation_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

var (
	one  = peer.ID{1}
	two  = peer.ID{2}
	tre  = peer.ID{3}
	list = formation.Plan{Size: 3, List: 5, Seat: 1}
)

// host is a new peer that seeks a cluster.
type host struct {
	w    effect.Writer
	out  effect.Out
	view cluster.View
	*formation.Seeker
}

func start(cfg formation.Config) *host {
	h := &host{}
	h.w = effect.NewWriter(&h.out)
	h.view = cluster.View{Contacts: cluster.New(&h.w), Self: one, State: &chronicle.State{}}
	h.Seeker = formation.NewSeeker(&h.w)
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	h.Configure(cfg)
	h.at(0)
	h.Start(one)
	return h
}

func (h *host) at(d time.Duration) {
	h.view.Now = time.Unix(100, 0).Add(d)
	h.w.Reset(h.view.Now)
}

// meets has a peer in a seat say hello, with this plan.
func (h *host) meets(id peer.ID, seat int, plan formation.Plan) {
	h.view.TakeSeat(id, seat)
	h.view.Hear(h.view, &wire.Header{From: id, Boot: 1})
	h.view.Introduce(h.view, id, "host", 0, 1)
	h.Meet(h.view, id, wire.Formation{Size: uint32(plan.Size), List: plan.List}, plan.Observer)
}

func (h *host) founds() int {
	founding, _ := h.Found(h.view, chronicle.Founder{ID: h.view.Self, Name: "nas", Boot: 1})
	return len(founding.Peers)
}

// Hosts with one list found a cluster once a majority has met. Those with lower IDs go first, and wait for all.
func TestFoundTogether(t *testing.T) {
	h := start(formation.Config{Plan: list})
	if h.Begin(false) || h.founds() > 0 || h.Met(h.view) != 1 {
		t.Error("one of three hosts founds a cluster")
	}
	h.meets(two, 2, list)
	if h.founds() > 0 || h.Met(h.view) != 2 {
		t.Errorf("two of three hosts do not wait for the third, or %d have met", h.Met(h.view))
	}
	h.at(time.Second)
	if got := h.founds(); got != 2 || !h.IsFounding() {
		t.Errorf("%d hosts found a cluster", got)
	}
	h = start(formation.Config{Plan: list})
	h.Begin(false)
	h.meets(two, 2, list)
	h.meets(tre, 3, list)
	if got := h.founds(); got != 3 {
		t.Errorf("all have met, and %d hosts found a cluster", got)
	}
}

// A host counts once: two peers in one seat are one founder, the one that was heard from last (R39).
func TestSeats(t *testing.T) {
	h := start(formation.Config{Plan: list})
	h.meets(two, 2, list)
	h.at(time.Millisecond)
	h.meets(tre, 2, list)
	if h.Met(h.view) != 2 || h.Seated(h.view, paxos.Seat(2)) != tre || h.Seated(h.view, paxos.Seat(1)) != one {
		t.Errorf("%d hosts have met; in seat 2 is %v", h.Met(h.view), h.Seated(h.view, paxos.Seat(2)))
	}
	if got := h.SeatOf(h.view, peer.ID{9}); got != peer.None {
		t.Errorf("a peer that is in no list has seat %v", got)
	}
	h.meets(peer.ID{4}, 3, formation.Plan{Size: 3, List: 6})
	if f := h.Misfits(); len(f) != 1 || f[peer.ID{4}].List != 6 {
		t.Errorf("with other lists are %v", f)
	}
	// With a bare number just so many hosts take part.
	h = start(formation.Config{Plan: formation.Plan{Size: 2}})
	h.meets(two, 0, formation.Plan{Size: 2})
	h.meets(tre, 0, formation.Plan{Size: 2})
	if h.SeatOf(h.view, two) != paxos.Seat(2) || h.SeatOf(h.view, tre) != peer.None || len(h.Misfits()) != 1 {
		t.Error("a third host takes part in founding a cluster of two")
	}
}

// A peer that knows a cluster turns from it only when nobody there was heard from for a minute: it may be admitted by then.
func TestHasStrayed(t *testing.T) {
	h := start(formation.Config{Join: true})
	h.view.State.Apply([]chronicle.Command{{Author: two, Number: 1, Action: chronicle.Found{
		Cluster: [16]byte{9}, Peers: []chronicle.Founder{{ID: two, Name: "desk", Boot: 1}},
	}}})
	for _, c := range []struct {
		at           time.Duration
		live, strays bool
	}{
		{0, true, false},
		{10 * time.Second, false, false},
		{40 * time.Second, false, false},
		{50 * time.Second, true, false},
		{60 * time.Second, false, false},
		{2*time.Minute - 1, false, false},
		{2 * time.Minute, false, true},
	} {
		h.at(c.at)
		h.view.TakePresence(h.view, two, c.live, "desk", "")
		if h.HasStrayed(h.view) != c.strays {
			t.Errorf("after %v it has strayed: %v", c.at, !c.strays)
		}
	}
}

// No host founds a cluster, and none votes for one, while it sees another one (R36).
func TestSeesCluster(t *testing.T) {
	h := start(formation.Config{Plan: list})
	h.Begin(false)
	h.meets(two, 2, list)
	h.meets(tre, 3, list)
	asks := wire.Formation{Size: 3, List: 5}
	if !h.MayFound(h.view, two, asks) || h.MayFound(h.view, two, wire.Formation{Size: 3, List: 6}) {
		t.Error("a host votes other than for its own list")
	}
	h.view.Hear(h.view, &wire.Header{From: peer.ID{9}, Boot: 1, Cluster: [16]byte{9}})
	if h.MayFound(h.view, two, asks) || h.founds() > 0 {
		t.Error("a cluster is founded beside one that is seen")
	}
}

// What the engine has decides whether a host that defers founds a cluster alone.
func TestTakeNetworks(t *testing.T) {
	for name, c := range map[string]struct {
		cfg      formation.Config
		networks int
		founds   bool
		lost     int
	}{
		"none":                          {formation.Config{Hesitate: true}, 0, true, 0},
		"some: it was in a cluster":     {formation.Config{Hesitate: true}, 2, false, 2},
		"it does not defer":             {formation.Config{}, 0, false, 0},
		"it joins":                      {formation.Config{Hesitate: true, Join: true}, 2, false, 0},
		"it founds one with others":     {formation.Config{Hesitate: true, Plan: list}, 0, false, 0},
		"some, and an operator ordered": {formation.Config{Hesitate: true, FoundAlone: true}, 2, false, 0},
	} {
		h := start(c.cfg)
		h.Begin(false)
		if got := h.TakeNetworks(h.view, c.networks); got != c.founds || h.LostNetworks() != c.lost {
			t.Errorf("%s: founds %v, lost %d networks", name, got, h.LostNetworks())
		}
	}
	// An operator's order counts after a look around.
	h := start(formation.Config{Hesitate: true, FoundAlone: true})
	h.Begin(false)
	h.TakeNetworks(h.view, 2)
	for at, looked := range map[time.Duration]bool{44 * time.Second: false, 45 * time.Second: true} {
		if h.at(at); h.HasLooked(h.view) != looked {
			t.Errorf("after %v: has looked is %v", at, !looked)
		}
	}
}

// Of two clusters without anything the one with the higher ID gives way, and this one anyhow if the other does not.
func TestGivesWay(t *testing.T) {
	h := start(formation.Config{})
	h.view.State.Cluster = [16]byte{5}
	met := h.view.Now
	if !h.GivesWay(h.view, [16]byte{4}, met) || h.GivesWay(h.view, [16]byte{6}, met) {
		t.Error("the cluster with the lower ID gives way")
	}
	h.at(5 * time.Second)
	if !h.GivesWay(h.view, [16]byte{6}, met) {
		t.Error("no cluster gives way to one that does not")
	}
	h.GiveWay()
	if !h.HasGivenWay() || !h.Joins() || len(h.out.Save) != 1 || string(h.out.Save[0].Key) != formation.KeyGaveWay {
		t.Errorf("a peer that gave way has written %v", h.out.Save)
	}
}

// Only the answer to the last question counts, of the start that was asked, once and in time (R63).
func TestAdmissions(t *testing.T) {
	h := start(formation.Config{})
	h.meets(two, 0, formation.Plan{})
	random := rand.New(rand.NewPCG(3, 4))
	all := formation.Admissions{}
	ask := func() uint64 { return all.Challenge(h.view, two, wire.Join{Name: "desk"}, random) }
	passes := func(question uint64) bool {
		q, passes := all.Answer(h.view, two, question)
		return passes && q.Name == "desk"
	}
	question := ask()
	if ask() != question {
		t.Error("a peer that asks twice gets two questions")
	}
	if passes(question+1) || !passes(question) || passes(question) {
		t.Error("an answer counts other than once")
	}
	question = ask()
	h.at(5 * time.Second)
	if passes(question) {
		t.Error("an answer that comes late counts")
	}
	question = ask()
	h.view.TakeStart(h.view, two, cluster.Start{Boot: 2})
	if passes(question) {
		t.Error("the answer of an earlier start counts")
	}
}

// A peer that does not speak the level of the cluster is not admitted. A former peer of its machine goes with its admission.
func TestAdmit(t *testing.T) {
	h := start(formation.Config{})
	h.view.State.Apply([]chronicle.Command{{Author: one, Number: 1, Action: chronicle.Found{Cluster: [16]byte{9}, Peers: []chronicle.Founder{
		{ID: one, Name: "nas", Boot: 1, Machine: 7}, {ID: two, Name: "desk", Boot: 1, Machine: 8},
	}}}})
	h.meets(tre, 0, formation.Plan{})
	actions := formation.Admit(h.view, tre, wire.Join{Name: "desk", Machine: 8})
	if len(actions) != 2 || actions[0] != (chronicle.Evict{Peer: two}) {
		t.Errorf("the former peer stays: %v", actions)
	}
	h.view.TakeStart(h.view, tre, cluster.Start{Boot: 2})
	if got := formation.Admit(h.view, tre, wire.Join{Name: "desk"}); got != nil {
		t.Errorf("a peer is admitted that has not said what it speaks: %v", got)
	}
}
