package chronicle_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Slots as the first release writes them are read as what they meant, one with
// each command, and applying them gives the state that it had.
func TestSlotsOfTheFirstRelease(t *testing.T) {
	s := &chronicle.State{}
	for i, action := range actions() { // the commands of that release, some of them in two forms
		want := []chronicle.Command{{Author: b, Number: uint64(i + 1), Action: action}}
		file := fmt.Sprintf("v1/%02d-%s.bin", i+1, strings.ToLower(reflect.TypeOf(action).Name()))
		kept := golden.Kept(t, file, func() []byte { return chronicle.EncodeBatch(want) })
		got, err := chronicle.DecodeBatch(kept)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s is read as something else, -want +got:\n%s", file, diff)
		}
		if again := chronicle.EncodeBatch(got); !bytes.Equal(again, kept) {
			t.Errorf("%s is written as %x, it was %x", file, again, kept)
		}
		s.Apply(got)
	}
	files, err := filepath.Glob("testdata/v1/[0-9]*.bin")
	if err != nil || len(files) < len(actions()) {
		t.Errorf("%d slots are kept, the first release has %d forms of commands (%v)", len(files), len(actions()), err)
	}
}

// A snapshot as the first release writes it, with whatever a state can have in
// it, is read as the state that it was of.
func TestSnapshotOfTheFirstRelease(t *testing.T) {
	for file, state := range map[string]func(*testing.T) *chronicle.State{"v1/snapshot.bin": richState, "v1/snapshot-identities.bin": identifiedState, "v1/snapshot-locks.bin": lockedState, "v1/snapshot-zones.bin": zonedState} {
		want := state(t)
		kept := golden.Kept(t, file, want.Encode)
		got, err := chronicle.DecodeState(kept)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if err := got.Check(); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if got.Slot != want.Slot || got.Digest() != want.Digest() {
			t.Errorf("%s is read as slot %d with digest %x, want %d with %x", file, got.Slot, got.Digest(), want.Slot, want.Digest())
		}
		if again := got.Encode(); !bytes.Equal(again, kept) {
			t.Errorf("%s is written as %x, it was %x", file, again, kept)
		}
	}
}

// identifiedState is a cluster with label sets that have numbers.
func identifiedState(t *testing.T) *chronicle.State {
	t.Helper()
	w := found(t, a, b)
	w.pool(a, "10.50.0.0/24", chronicle.DealHalf)
	w.ok(a, chronicle.Identify{Labels: "app=web"})
	w.ok(b, chronicle.Identify{Labels: "app=db;tier=1"})
	w.ok(a, chronicle.Identify{Labels: "app=cache"})
	w.ok(a, chronicle.Collect{Numbers: []uint64{256}})
	return w.s
}

// lockedState is a cluster with locks, and without label sets.
func lockedState(t *testing.T) *chronicle.State {
	t.Helper()
	w := found(t, a, b, c)
	take := func(id peer.ID, name string, token uint64) {
		w.ok(id, chronicle.Lock{Want: lock.Want{Name: name, Holder: "nas: restic", Token: token, Since: 1_700_000_000}})
	}
	take(a, "backup", 1)
	take(b, "report", 2)
	take(c, "mail", 3)
	w.ok(b, chronicle.Unlock{Name: "report", Fence: w.s.Locks.Of("report").Fence})
	w.ok(a, chronicle.Evict{Peer: c})
	return w.s
}

// zonedState is a cluster with zones, one of them of a peer that was evicted, and without label sets and locks.
func zonedState(t *testing.T) *chronicle.State {
	t.Helper()
	w := found(t, a, b, c)
	w.pool(a, "10.50.0.0/24", chronicle.DealHalf)
	w.ok(a, chronicle.SetZone{Zone: "rack-1"})
	w.ok(b, chronicle.SetZone{Zone: "größe/2"})
	w.ok(c, chronicle.SetZone{Zone: "rack-1"})
	w.ok(a, chronicle.Evict{Peer: c})
	return w.s
}

// richState is a cluster to which all has happened that a state remembers.
func richState(t *testing.T) *chronicle.State {
	t.Helper()
	w := found(t, a, b, c)
	lab := w.pool(a, "10.50.0.0/24", chronicle.DealHalf)
	w.ok(a, chronicle.NamePool{Name: "lab", Pool: lab})
	six := w.pool(b, "fd00:50::/64", chronicle.DealNone)
	w.ok(b, chronicle.Use{Pool: lab})
	w.ok(a, chronicle.Reserve{Pool: lab, Reservation: chronicle.Reservation{Range: span(250, 253), Kind: chronicle.KindExcluded, Note: "printers"}})
	w.ok(a, chronicle.Reserve{Pool: lab, Reservation: chronicle.Reservation{Range: span(240, 241), Kind: chronicle.KindKeptForName, Note: "db"}})
	w.ok(c, chronicle.Borrow{Pool: lab, At: 240})
	w.ok(b, chronicle.Open{Pool: six, Range: span(0, 1<<32), Size: 256})
	w.ok(a, chronicle.SetState{Peer: a, Phase: chronicle.Active})
	w.ok(b, chronicle.Evict{Peer: c})
	return w.s
}
