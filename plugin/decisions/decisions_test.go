package decisions

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
)

// sameText compares subnets and addresses.
var sameText = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

var some = ipam.Decided{Peers: 3, Pools: []ipam.DecidedPool{
	{Pool: netip.MustParsePrefix("10.50.0.0/24"), Name: "lab", Origin: "network", Reserved: []ipam.ReservationStatus{{
		Pool: netip.MustParsePrefix("10.50.0.0/24"), First: netip.MustParseAddr("10.50.0.1"), Last: netip.MustParseAddr("10.50.0.9"),
		Addresses: 9, Kind: "excluded", Note: "Drucker <im Flur> & \u2028mehr",
	}}},
	{Pool: netip.MustParsePrefix("fd00::/64"), Origin: "operator"},
}}

// What was written is read again, whatever a note says. One changed byte that means something is found, and no file is no error.
func TestFileKeepsDecisions(t *testing.T) {
	path := filepath.Join(t.TempDir(), FileName)
	if f, err := Read(path); f != nil || err != nil {
		t.Fatalf("without a file: %v, %v", f, err)
	}
	f := File{At: time.Unix(1_700_000_000, 5).UTC(), Version: "1", Host: "host-a", Lost: time.Unix(1_700_000_000, 5).UTC(), Unsure: "00ff"}
	f.Put(&some)
	if err := f.Write(path); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&f, got, sameText); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	if diff := cmp.Diff(&some, got.Decided(), sameText); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		changed := bytes.Clone(whole)
		changed[i] ^= 1
		if err := os.WriteFile(path, changed, 0o600); err != nil {
			t.Fatal(err)
		}
		if other, err := Read(path); err == nil && !cmp.Equal(other, got, sameText) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("with byte %d (%q) changed: %v, %v", i, whole[i], other, err)
		}
	}
	for _, n := range []int{0, 1, len(whole) / 2} {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}
