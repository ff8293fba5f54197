package newdb_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/newdb"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/wire"
)

var self, other = peer.ID{1}, peer.ID{2}

// host is a peer with a new database that sees another peer.
type host struct {
	*newdb.Database
	out      effect.Out
	w        effect.Writer
	engine   *engine.Engine
	contacts *cluster.Contacts
	untaken  bool
	now      time.Time
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{}
	h.w = effect.NewWriter(&h.out)
	h.at(0)
	h.engine, h.contacts = engine.New(&h.w), cluster.New(&h.w)
	h.engine.Configure(engine.Config{Lists: true})
	me := start.New(&h.w)
	me.Begin(rand.New(rand.NewPCG(1, 1)))
	h.Database = newdb.New(&h.w, h.engine, me)
	h.Configure(newdb.Config{AskAt: time.Second, Untaken: func() bool { return h.untaken }})
	h.contacts.TakePresence(h.view(), other, true, "host-b", "")
	return h
}

// at sets the time since the start.
func (h *host) at(d time.Duration) {
	h.now = time.Unix(1000, 0).Add(d)
	h.w.Reset(h.now)
}

func (h *host) view() cluster.View {
	return cluster.View{Contacts: h.contacts, Self: self, State: &chronicle.State{}, Now: h.now}
}

// A peer with a new database waits for the list of another one, asks it once a second, and for two minutes at most.
func TestWaitsForOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		says    wire.Listing
		untaken bool
		until   time.Duration // when it chooses
	}{
		{"listed", wire.Listed, false, time.Second},
		{"has networks", wire.Untaken, false, 2 * time.Minute},
		{"own addresses are another's", wire.Listed, true, 2 * time.Minute},
	} {
		h := newHost(t)
		h.Begin(true)
		if !h.AwaitsOwn() || h.EndWait(h.view()) {
			t.Errorf("%s: it does not wait for its own engine", c.name)
		}
		h.TakeList()
		if asked := h.Ask(h.view(), false); len(asked) != 1 || asked[0] != other {
			t.Errorf("%s: it asks %v", c.name, asked)
		}
		if again := h.Ask(h.view(), false); again != nil {
			t.Errorf("%s: it asks %v again at once", c.name, again)
		}
		h.at(time.Second)
		h.contacts.Hear(h.view(), &wire.Header{From: other, Boot: 1})
		h.contacts.Introduce(h.view(), other, "host-b", 7, 1)
		h.TakeListing(other, c.says)
		h.untaken = c.untaken
		at := time.Second
		for ; !h.EndWait(h.view()); at += time.Second {
			if at > time.Hour {
				t.Fatalf("%s: it waits for ever", c.name)
			}
			h.at(at + time.Second)
		}
		if at != c.until || h.IsUnsure() || h.AwaitsOthers(h.view()) {
			t.Errorf("%s: it chooses after %v, want %v", c.name, at, c.until)
		}
	}
}

// The mark of a new database survives a restart, until nobody is waited for.
func TestMark(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.Begin(true)
	h.Inherit()
	var mark []byte
	for _, r := range h.out.Save {
		if string(r.Key) == newdb.Key {
			mark = r.Value
		}
	}
	again := newHost(t)
	if err := again.Restore(mark); err != nil {
		t.Fatal(err)
	}
	if !again.IsUnlisted() || !again.HasInherited() || !again.IsUnsure() {
		t.Errorf("after a restart: %+v", again.Database)
	}
	for cut := range mark {
		if err := newHost(t).Restore(mark[:cut]); err == nil && cut < 2 {
			t.Errorf("%d bytes of the mark are accepted", cut)
		}
	}
	if err := newHost(t).Restore(append(mark, 0)); err == nil {
		t.Error("a longer mark is accepted")
	}
}
