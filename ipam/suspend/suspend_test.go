package suspend_test

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/suspend"
	"github.com/ringlet/ringlet/ipam/wire"
)

var (
	one = peer.ID{1}
	two = peer.ID{2}
	own = cluster.Start{Boot: 5, Nonce: 7}
)

// host is peer one of two.
type host struct {
	out  effect.Out
	w    effect.Writer
	view cluster.View
	*suspend.Suspension
}

func begin() *host {
	h := &host{}
	h.w = effect.NewWriter(&h.out)
	h.view = cluster.View{Contacts: cluster.New(&h.w), Self: one, Name: "nas", State: &chronicle.State{}}
	h.Suspension = suspend.New(&h.w)
	h.Begin(own)
	h.view.State.Apply([]chronicle.Command{{Author: one, Number: 1, Action: chronicle.Found{Cluster: [16]byte{9}, Peers: []chronicle.Founder{
		{ID: one, Name: "nas", Boot: 1, Machine: 7}, {ID: two, Name: "desk", Boot: 1, Machine: 7},
	}}}})
	return h
}

// again returns the peer behind a restart, from what it has on disk.
func (h *host) again(t *testing.T) *host {
	t.Helper()
	next := begin()
	for _, r := range h.out.Save {
		if err := next.Restore(string(r.Key), r.Value); err != nil {
			t.Fatal(err)
		}
	}
	return next
}

// The gravest reason counts, and stays if it stays true.
func TestReasons(t *testing.T) {
	h := begin()
	for _, c := range []struct {
		reason  suspend.Reason
		changes bool
		stays   suspend.Reason
	}{
		{suspend.Differs, true, suspend.None},
		{suspend.Copied, true, suspend.None},
		{suspend.Differs, false, suspend.None},
		{suspend.OldDatabase, true, suspend.OldDatabase},
		{suspend.OtherPlace, false, suspend.OldDatabase},
		{suspend.GivenUp, true, suspend.GivenUp},
		{suspend.OldDatabase, false, suspend.GivenUp},
	} {
		notes := len(h.out.Note)
		if got := h.Suspend(c.reason, "of a test"); got != c.changes || (len(h.out.Note) > notes) != c.changes {
			t.Errorf("reason %d: suspends %v, %d notes", c.reason, got, len(h.out.Note)-notes)
		}
		if after := h.again(t); !after.For(c.stays) {
			t.Errorf("reason %d: behind a restart it is %d", c.reason, after.Reason())
		}
	}
	if err := begin().Restore(suspend.KeyOld, nil); err == nil {
		t.Error("a record without a reason was taken in")
	}
}

// A batch that gives up the space of this peer suspends it, and only if the command has an effect (R54).
func TestLookFor(t *testing.T) {
	batch := func(author peer.ID, number uint64, actions ...chronicle.Action) (out []chronicle.Command) {
		for _, a := range actions {
			out = append(out, chronicle.Command{Author: author, Number: number, Action: a})
			number++
		}
		return out
	}
	for name, c := range map[string]struct {
		batch []chronicle.Command
		why   string
	}{
		"forgotten":              {batch(two, 1, chronicle.Evict{Peer: one}, chronicle.Forget{Peer: one, Evicted: 2}), "ringlet forget on desk"},
		"inherited from":         {batch(two, 1, chronicle.Evict{Peer: one}, chronicle.Inherit{Former: one}), "a new peer on the same machine, desk,"},
		"evicted":                {batch(two, 1, chronicle.Evict{Peer: one}), ""},
		"forgotten of old":       {batch(two, 1, chronicle.Evict{Peer: one}, chronicle.Forget{Peer: one, Evicted: 1}), ""},
		"another is forgotten":   {batch(one, 2, chronicle.Evict{Peer: two}, chronicle.Forget{Peer: two, Evicted: 2}), ""},
		"not evicted, forgotten": {batch(two, 1, chronicle.Forget{Peer: one, Evicted: 2}), ""},
	} {
		h := begin()
		got, err := h.LookFor(h.view, c.batch)
		if err != nil || got != (c.why != "") || got != h.For(suspend.GivenUp) || !strings.Contains(h.Why(), c.why) {
			t.Errorf("%s: %v, %v, because %q", name, got, err, h.Why())
		}
		if h.view.State.Slot != 1 {
			t.Errorf("%s: the batch was applied", name)
		}
	}
}

// Each row is what others say of another start, and what follows (R17, R53).
func TestCopies(t *testing.T) {
	later := wire.Copied{Boot: own.Boot, Nonce: own.Nonce, KnownBoot: 9, KnownNonce: 1}
	for name, c := range map[string]struct {
		said    wire.Copied
		accepts bool // the peer has known this start as the latest
		want    suspend.Reason
	}{
		"of a later start":               {later, false, suspend.OldDatabase},
		"of a later start, since":        {later, true, suspend.Copied},
		"of an earlier start of this":    {wire.Copied{Boot: 4, Nonce: 7, KnownBoot: 9}, false, suspend.None},
		"of a start before this":         {wire.Copied{Boot: own.Boot, Nonce: own.Nonce, KnownBoot: 4}, false, suspend.None},
		"of this very start":             {wire.Copied{Boot: own.Boot, Nonce: own.Nonce, KnownBoot: own.Boot, KnownNonce: own.Nonce}, false, suspend.None},
		"of a start with the same boot":  {wire.Copied{Boot: own.Boot, Nonce: own.Nonce, KnownBoot: own.Boot, KnownNonce: 8}, false, suspend.OldDatabase},
		"of the same boot, and accepted": {wire.Copied{Boot: own.Boot, Nonce: own.Nonce, KnownBoot: own.Boot, KnownNonce: 8}, true, suspend.Copied},
	} {
		h := begin()
		if c.accepts {
			h.TakeLatest(h.view, two, own)
		}
		surpassed, suspends := h.TakeCopied(h.view, two, c.said)
		if !h.For(c.want) || suspends != (c.want != suspend.None) || h.w.Unposted() != suspends {
			t.Errorf("%s: reason %d, suspends %v, tells %v", name, h.Reason(), suspends, h.w.Unposted())
		}
		if latest := h.LatestBoot(); surpassed != (c.want == suspend.Copied) || surpassed && latest != c.said.KnownBoot {
			t.Errorf("%s: surpassed %v, and the next start is above %d", name, surpassed, latest)
		}
	}
	h := begin()
	if h.TakeDouble(own) || h.TakeDouble(cluster.Start{Boot: 4, Nonce: 9}) || !h.TakeDouble(cluster.Start{Boot: 5, Nonce: 8}) {
		t.Error("a frame of its own, or an earlier start, tells of a copy, or that of another start does not")
	}
	h = begin()
	if h.TakeTwin(h.view, two, wire.Twin{OtherBoot: 4}) || !h.TakeTwin(h.view, two, wire.Twin{OtherBoot: own.Boot, OtherNonce: own.Nonce}) {
		t.Error("a twin of an earlier start suspends, or that of this one does not")
	}
}

// Only a database at another place can be trusted, and where it lies is written down once it is (R58).
func TestTrust(t *testing.T) {
	h := begin()
	if h.SavePlace("a"); h.TakePlace("") || h.TakePlace("a") {
		t.Error("the same place, or none, is another")
	}
	if h.TakePlace("b"); !h.For(suspend.OtherPlace) {
		t.Error("another place is the same")
	}
	if h.SavePlace("b"); !h.again(t).TakePlace("b") {
		t.Error("the place was written down before an operator decided")
	}
	if !h.Trust("b") || h.Trust("b") || h.again(t).TakePlace("b") {
		t.Error("the database is trusted other than once, or not after a restart")
	}
	if h.Suspend(suspend.GivenUp, "of a test"); h.Trust("b") || !h.Is() {
		t.Error("a database is trusted whose space was given up")
	}
}
