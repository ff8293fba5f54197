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
)

// Slots as the first release writes them are read as what they meant, one with
// each command, and applying them gives the state that it had.
func TestSlotsOfTheFirstRelease(t *testing.T) {
	s := &chronicle.State{}
	for i, action := range actions()[:19] { // the commands of that release
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
	if err != nil || len(files) < 19 {
		t.Errorf("%d slots are kept, the first release has 19 commands (%v)", len(files), err)
	}
}

// A snapshot as the first release writes it, with whatever a state can have in
// it, is read as the state that it was of.
func TestSnapshotOfTheFirstRelease(t *testing.T) {
	kept := golden.Kept(t, "v1/snapshot.bin", func() []byte { return richState(t).Encode() })
	got, err := chronicle.DecodeState(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Check(); err != nil {
		t.Error(err)
	}
	want := richState(t)
	if got.Slot != want.Slot || got.Digest() != want.Digest() {
		t.Errorf("read as slot %d with digest %x, want %d with %x", got.Slot, got.Digest(), want.Slot, want.Digest())
	}
	if again := got.Encode(); !bytes.Equal(again, kept) {
		t.Errorf("written as %x, it was %x", again, kept)
	}
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
