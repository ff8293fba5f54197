package doubt_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/doubt"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
)

var address = netip.MustParseAddr("10.50.0.7")

// host has doubts, and what they have written.
type host struct {
	*doubt.Doubts
	out    effect.Out
	w      effect.Writer
	engine *engine.Engine
	disk   map[string][]byte
}

func newHost(lists bool) *host {
	h := &host{disk: map[string][]byte{}}
	h.w = effect.NewWriter(&h.out)
	h.w.Reset(time.Unix(1000, 0))
	h.engine = engine.New(&h.w)
	h.engine.Configure(engine.Config{Lists: lists})
	h.engine.Start(1)
	h.Doubts = doubt.New(&h.w, h.engine)
	return h
}

// at begins a step at a time after the start.
func (h *host) at(d time.Duration) {
	for _, r := range h.out.Save {
		if r.Value == nil {
			delete(h.disk, string(r.Key))
		} else {
			h.disk[string(r.Key)] = slices.Clone(r.Value)
		}
	}
	h.w.Reset(time.Unix(1000, 0).Add(d))
}

// settle has a list say of each address that it lacks the holder, or that it has it, and returns what is freed.
func (h *host) settle(absent bool) (freed []netip.Addr) {
	mark := h.engine.Mark(h.w.Now())
	h.Resolve(mark, func(netip.Addr) (bool, bool) { return absent, absent }, func(a netip.Addr) { freed = append(freed, a) })
	return freed
}

// A release of an address in doubt frees nothing. The list that follows does, unless it has the holder.
func TestListTells(t *testing.T) {
	t.Parallel()
	for _, absent := range []bool{true, false} {
		h := newHost(true)
		h.Add(address)
		h.at(time.Second)
		if freed := h.settle(true); freed != nil {
			t.Errorf("without a release, %v is freed", freed)
		}
		h.TakeRelease(address)
		if !h.MayBeReleased(address) {
			t.Error("the release is not known")
		}
		if freed := h.settle(absent); (len(freed) == 1) != absent {
			t.Errorf("absent %v: freed is %v", absent, freed)
		}
		h.TakeHolder(address)
		if h.MayBeReleased(address) || !h.Has(address) {
			t.Error("another holder has it: the release says nothing of that one, and the doubt stays")
		}
		h.at(time.Hour)
		h.settle(false)
		h.at(time.Hour)
		if h.Any() || len(h.disk) > 0 {
			t.Errorf("after an hour %v is left", h.disk)
		}
	}
}

// Without lists every release is believed.
func TestWithoutLists(t *testing.T) {
	t.Parallel()
	h := newHost(false)
	if h.Add(address); h.Any() {
		t.Error("there is a doubt that nothing could end")
	}
}

// After a loss of a database what is granted is in doubt. A restart changes nothing of it, and a freeze has it last anew.
func TestLoss(t *testing.T) {
	t.Parallel()
	h := newHost(true)
	h.Grant(address)
	if h.Has(address) {
		t.Fatal("nothing was lost")
	}
	h.TakeLoss()
	h.Grant(address)
	h.at(time.Second)
	again := newHost(true)
	for key, value := range h.disk {
		if err := again.Restore([]byte(key), value); err != nil {
			t.Fatal(err)
		}
		if again.Restore([]byte(key), value[:len(value)-1]) == nil || again.Restore([]byte("none"+key), value) == nil {
			t.Errorf("a damaged record of %q is accepted", key)
		}
	}
	if !again.Has(address) || !again.HasLoss() {
		t.Error("a restart forgets")
	}
	h.at(11 * time.Minute)
	if h.Has(address) {
		t.Error("it is in doubt for more than ten minutes")
	}
	h.engine.SetClock(h.w.Now().Add(-5 * time.Minute))
	if !h.Has(address) {
		t.Error("the time before a freeze counts")
	}
}
