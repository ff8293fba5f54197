package cluster_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

var (
	home = [16]byte{9}
	one  = peer.ID{1}
	two  = peer.ID{2}
	tre  = peer.ID{3}
)

// meet returns the view of peer one in a cluster of these peers, and what it wants written.
func meet(t *testing.T, roster ...peer.ID) (*cluster.View, *effect.Out) {
	t.Helper()
	out := &effect.Out{}
	w := effect.NewWriter(out)
	state := &chronicle.State{}
	var founders []chronicle.Founder
	for _, id := range roster {
		founders = append(founders, chronicle.Founder{ID: id, Name: peer.Name(id.Short()), Boot: 1})
	}
	if len(founders) > 0 {
		state.Apply([]chronicle.Command{{Author: one, Number: 1, Action: chronicle.Found{Cluster: home, Peers: founders}}})
		if state.Slot != 1 || len(state.Roster) != len(roster) {
			t.Fatalf("the state has %d peers at slot %d", len(state.Roster), state.Slot)
		}
	}
	return &cluster.View{Contacts: cluster.New(&w), Self: one, Name: "nas", State: state, Now: time.Unix(100, 0)}, out
}

// What the carrier says counts until a frame says otherwise, and a frame until the carrier does.
func TestPresent(t *testing.T) {
	v, _ := meet(t)
	check := func(what string, want bool) {
		t.Helper()
		if v.Present(two) != want {
			t.Errorf("%s: present is %v", what, !want)
		}
	}
	check("never met", false)
	v.TakePresence(*v, two, true, "desk", "")
	v.Now = v.Now.Add(time.Hour)
	check("the carrier sees it", true)
	v.Hear(*v, &wire.Header{From: two})
	v.TakePresence(*v, two, false, "", "")
	check("the carrier lost it", false)
	v.Now = v.Now.Add(time.Second)
	v.Hear(*v, &wire.Header{From: two})
	check("a frame came since", true)
	v.Now = v.Now.Add(cluster.ReachTime)
	check("a frame came long ago", false)
}

// A peer of another cluster is there, and not live: it counts nowhere in this one.
func TestForeign(t *testing.T) {
	v, _ := meet(t, one, two)
	v.Hear(*v, &wire.Header{From: two, Cluster: home})
	if !v.Live(two) || v.CutOff() {
		t.Error("a peer of the cluster that was heard from does not count")
	}
	v.HearForeign(*v, &wire.Header{From: two, Cluster: [16]byte{8}}, "desk")
	if v.Live(two) || !v.Present(two) || v.NameOf(two) != "desk" {
		t.Error("a peer that is in another cluster counts in this one")
	}
	if got := v.Foreign(); !slices.Equal(got, [][16]byte{{8}}) {
		t.Errorf("other clusters are %v", got)
	}
	v.Hear(*v, &wire.Header{From: two, Cluster: home})
	if got := v.Foreign(); len(got) > 0 {
		t.Errorf("another cluster without a peer is shown: %v", got)
	}
}

// A later start of a peer becomes the latest, and is written down. A frame of any other start does not count.
func TestTakeStart(t *testing.T) {
	v, out := meet(t, one, two)
	for _, c := range []struct {
		is            cluster.Start
		counts, later bool
	}{
		{cluster.Start{Boot: 3, Nonce: 7}, true, true},
		{cluster.Start{Boot: 3, Nonce: 7}, true, false},
		{cluster.Start{Boot: 3, Nonce: 8}, false, false},
		{cluster.Start{Boot: 2, Nonce: 9}, false, false},
		{cluster.Start{Boot: 4, Nonce: 1}, true, true},
	} {
		before := len(out.Save)
		counts, later := v.TakeStart(*v, two, c.is)
		if counts != c.counts || later != c.later || len(out.Save)-before != map[bool]int{true: 1}[later] {
			t.Errorf("%v: counts %v, later %v, %d records", c.is, counts, later, len(out.Save)-before)
		}
	}
	again, _ := meet(t, one, two)
	for _, r := range out.Save {
		if err := again.Restore(r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	if got := again.Of(two).Start; got != (cluster.Start{Boot: 4, Nonce: 1}) {
		t.Errorf("after a restart the latest start is %v", got)
	}
	if err := again.Restore([]byte("short"), nil); err == nil {
		t.Error("a key that is no ID was taken in")
	}
}

// Of two peers the first has the deciding vote, so it goes on alone, and the second has no veto.
func TestVotes(t *testing.T) {
	for self, want := range map[peer.ID]bool{one: true, two: false} {
		v, _ := meet(t, one, two)
		v.Self = self
		if v.HasVeto() != want || v.CutOff() == want {
			t.Errorf("%s: veto %v, cut off %v", self.Short(), v.HasVeto(), v.CutOff())
		}
	}
	v, _ := meet(t, one, two, tre)
	v.Self = tre
	if !v.CutOff() || v.KeepsMajority(two) {
		t.Error("one of three has a majority")
	}
	v.Hear(*v, &wire.Header{From: one, Cluster: home})
	if v.CutOff() || !v.KeepsMajority(two) || v.KeepsMajority(one) {
		t.Error("two of three have no majority, or the second of two has one alone")
	}
}

// The peer whose state differs from that of a majority is the one that stops.
func TestCompare(t *testing.T) {
	v, _ := meet(t, one, two, tre)
	say := func(id peer.ID, digest uint64) bool {
		h := &wire.Header{From: id, Cluster: home, Slot: v.State.Slot, Digest: digest}
		v.Hear(*v, h)
		return digest != 5 && v.Compare(*v, h, 5)
	}
	if say(two, 5) || say(tre, 6) {
		t.Error("a peer stops that is with the majority")
	}
	if got := v.Differing(); len(got) != 1 || got[tre] != v.State.Slot {
		t.Errorf("differing are %v", got)
	}
	if !say(two, 6) {
		t.Error("a peer goes on that is alone with its state")
	}
}

// All that are known are known once, whether they are of the roster, or were met, or both.
func TestKnown(t *testing.T) {
	v, _ := meet(t, one, tre)
	v.TakePresence(*v, two, true, "", "10.0.0.2")
	v.TakePresence(*v, tre, true, "", "10.0.0.3")
	if got := v.Known(); !slices.Equal(got, []peer.ID{two, tre}) {
		t.Errorf("known are %v", got)
	}
	if got := v.NamesOf(v.Known()); !slices.Equal(got, []string{"peer " + two.Short(), tre.Short()}) {
		t.Errorf("names are %q", got)
	}
}
