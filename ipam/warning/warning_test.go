package warning_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/warning"
)

var (
	own   = peer.ID{1}
	other = peer.ID{2}
)

func address(n byte) netip.Addr { return netip.AddrFrom4([4]byte{10, 50, 0, n}) }

// begin returns warnings in a step at second 0, and a function that begins a step later.
func begin() (*warning.Warnings, *effect.Out, func(time.Duration)) {
	out, start := &effect.Out{}, time.Unix(1000, 0)
	w := effect.NewWriter(out)
	w.Reset(start)
	return warning.New(&w), out, func(d time.Duration) { w.Reset(start.Add(d)) }
}

func never(netip.Addr, peer.ID) bool { return false }

// A warning that nobody repeats counts for ten minutes, and one that is repeated, or lasts, for ten more.
func TestOver(t *testing.T) {
	w, _, at := begin()
	for n := range byte(3) {
		w.Take(address(n), other, own)
	}
	at(6 * time.Minute)
	if _, news := w.Take(address(1), other, own); news || w.AnyOver() {
		t.Error("a warning that is repeated is news, or is over")
	}
	at(10 * time.Minute)
	lasts := func(a netip.Addr, by peer.ID) bool { return a == address(2) && by == other }
	if got := w.Over(lasts); !w.AnyOver() && !slices.Equal(got, []netip.Addr{address(0)}) {
		t.Errorf("over are %v", got)
	}
	w.End(address(0))
	at(16 * time.Minute)
	if got := w.Over(never); !slices.Equal(got, []netip.Addr{address(1)}) {
		t.Errorf("over are %v", got)
	}
	w.End(address(1))
	at(20 * time.Minute)
	if got := w.Over(never); !slices.Equal(got, []netip.Addr{address(2)}) || w.Count(other) != 1 {
		t.Errorf("over are %v of %d", got, w.Count(other))
	}
	if !w.End(address(2)) || w.End(address(2)) || !w.IsEmpty() {
		t.Error("an address has other than one warning")
	}
}

// A peer that sleeps hears nothing, so each warning counts for as much longer.
func TestSleep(t *testing.T) {
	w, _, at := begin()
	w.Take(address(1), other, own)
	at(9 * time.Minute)
	w.Sleep(8 * time.Minute)
	at(17 * time.Minute)
	if w.AnyOver() {
		t.Error("a warning is over that the peer may not have heard again")
	}
	at(18 * time.Minute)
	if !w.AnyOver() {
		t.Error("a warning counts for more than ten minutes and the sleep")
	}
}

// What is on disk counts for the full time after a start.
func TestRestore(t *testing.T) {
	before, out, _ := begin()
	before.Take(address(1), other, own)
	before.Take(address(1), own, own) // this peer has started over, and the address is its former self's
	before.Take(address(2), other, own)
	w, _, at := begin()
	for _, r := range out.Save {
		if err := w.Restore(r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	at(time.Minute)
	w.Extend()
	if !slices.Equal(w.Of(own), []netip.Addr{address(1)}) || !slices.Equal(w.Of(other), []netip.Addr{address(2)}) {
		t.Errorf("this peer warns of %v, the other one of %v", w.Of(own), w.Of(other))
	}
	at(11*time.Minute - 1)
	if w.AnyOver() {
		t.Error("a warning is over before its time")
	}
	if err := w.Restore([]byte{1}, out.Save[0].Value); err == nil {
		t.Error("a key that is no address was taken in")
	}
}

// One peer cannot fill the memory of another. This peer itself can warn of what was in use on its host.
func TestMost(t *testing.T) {
	w, _, _ := begin()
	for i := range 5000 {
		a := netip.AddrFrom4([4]byte{10, 51, byte(i >> 8), byte(i)})
		if heeds, _ := w.Take(a, other, own); heeds != (i < 4096) {
			t.Fatalf("warning %d of one peer is heeded: %v", i+1, heeds)
		}
	}
	if heeds, news := w.Take(address(1), own, own); !heeds || !news {
		t.Error("this peer's own warning is not heeded")
	}
	if got := w.Missing(other, w.Of(other)[1:]); len(got) != 1 || got[0] != w.Of(other)[0] {
		t.Errorf("missing are %v", got)
	}
}
