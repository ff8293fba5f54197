package leave_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/leave"
	"github.com/ringlet/ringlet/ipam/peer"
)

var (
	one = peer.ID{1}
	two = peer.ID{2}
)

// host is peer one of two.
type host struct {
	out    effect.Out
	w      effect.Writer
	view   cluster.View
	number uint64
	*leave.Wish
}

func begin(t *testing.T) *host {
	t.Helper()
	h := &host{}
	h.w = effect.NewWriter(&h.out)
	h.view = cluster.View{Contacts: cluster.New(&h.w), Self: one, State: &chronicle.State{}}
	h.Wish = leave.New(&h.w)
	h.decide(t, chronicle.Found{Cluster: [16]byte{9}, Peers: []chronicle.Founder{{ID: one, Name: "nas", Boot: 1}, {ID: two, Name: "desk", Boot: 1}}})
	return h
}

func (h *host) decide(t *testing.T, a chronicle.Action) {
	t.Helper()
	h.number++
	for _, o := range h.view.State.Apply([]chronicle.Command{{Author: one, Number: h.number, Action: a}}) {
		if o.Refused != "" {
			t.Fatalf("%v: %s", a, o.Refused)
		}
	}
}

// own gives this peer a range.
func (h *host) own(t *testing.T) {
	t.Helper()
	cidr := netip.MustParsePrefix("10.50.0.0/24")
	h.decide(t, chronicle.CreatePool{CIDR: cidr, Origin: chronicle.FromOperator, Deal: chronicle.DealNone})
	h.decide(t, chronicle.Open{Pool: h.view.State.Pools[0].Key, Range: addr.Whole(cidr), Size: 8})
	if h.view.State.OwnedBy(one) == 0 {
		t.Fatal("it owns nothing")
	}
}

// again returns the wish behind a restart.
func (h *host) again(t *testing.T) *leave.Wish {
	t.Helper()
	disk := map[string][]byte{}
	for _, r := range h.out.Save {
		if disk[string(r.Key)] = r.Value; r.Value == nil {
			delete(disk, string(r.Key))
		}
	}
	next := leave.New(&h.w)
	for key, value := range disk {
		if err := next.Restore(key, value); err != nil {
			t.Fatal(err)
		}
	}
	return next
}

// A peer that owns something does not leave before it has given that up, unless it is forced to.
func TestNext(t *testing.T) {
	h := begin(t)
	if h.own(t); h.Next(h.view, true) != nil {
		t.Error("a peer leaves that nobody wished to")
	}
	h.Leave(false)
	if h.Next(h.view, true) != nil || h.TakeDismissal(h.view) || h.HasLeft() {
		t.Error("a peer leaves that owns addresses")
	}
	h.Leave(true)
	if got := h.Next(h.view, true); len(got) != 1 || got[0] != (chronicle.Evict{Peer: one}) {
		t.Errorf("a peer that is forced to leave: %v", got)
	}
	if !h.TakeDismissal(h.view) || !h.again(t).HasLeft() || !h.again(t).IsForced() {
		t.Error("a peer that was forced to leave has not left")
	}
	if h.Return(); h.again(t).HasLeft() || h.again(t).IsLeaving() {
		t.Error("a peer that is in its cluster again has left")
	}
	h = begin(t)
	h.decide(t, chronicle.Evict{Peer: two})
	if h.Leave(false); h.Next(h.view, false) != nil || h.IsLeaving() || h.again(t).IsLeaving() {
		t.Error("a peer leaves that is the whole cluster")
	}
}

// An admitted peer becomes active once it has space, or goes on with its drain.
func TestGrow(t *testing.T) {
	h := begin(t)
	if h.SetDrained(true); h.Grow(h.view) != nil || h.Drained() || h.again(t).Drained() {
		t.Error("a peer that is active drains on")
	}
	h.decide(t, chronicle.SetState{Peer: one, Phase: chronicle.Filling})
	if h.Grow(h.view) != nil {
		t.Error("a peer becomes active that owns nothing")
	}
	h.SetDrained(true)
	if got := h.Grow(h.view); !h.again(t).Drained() || !slices.Equal(got, h.view.State.Drain(one, true)) {
		t.Errorf("a peer that was draining: %v", got)
	}
	h.SetDrained(false)
	h.own(t)
	if got := h.Grow(h.view); len(got) != 1 || got[0] != (chronicle.SetState{Peer: one, Phase: chronicle.Active}) {
		t.Errorf("a peer that owns addresses: %v", got)
	}
	if err := h.Restore(leave.KeyLeft, []byte{2}); err == nil {
		t.Error("a record of another format was taken in")
	}
}
