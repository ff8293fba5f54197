package history

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// TestHeldHere lists more than is asked for at a time, as the list of the whole
// has it.
func TestHeldHere(t *testing.T) {
	store, n := plugintest.Open(t, t.TempDir())
	defer store.Close()
	for _, cidr := range []string{"10.50.0.0/16", "fd00:50::/64", "10.60.0.0/24"} {
		if _, _, err := n.CreatePool(t.Context(), netip.MustParsePrefix(cidr), ""); err != nil {
			t.Fatal(err)
		}
	}
	const held = 1007 // more than two portions
	for i := range held {
		pool := []string{"10.50.0.0/16", "fd00:50::/64"}[i%2]
		if _, err := n.Client(t.Context(), ipam.ClientRequest{Pool: pool, ID: fmt.Sprint("device-", i)}); err != nil {
			t.Fatal(err)
		}
	}
	want, err := n.Addresses(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	want = slices.DeleteFunc(want, func(a ipam.AddressStatus) bool { return a.State != "held" })
	var got []ipam.AddressStatus
	for a, err := range heldHere(t.Context(), n) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, a)
	}
	if len(got) != held {
		t.Errorf("%d are held, want %d", len(got), held)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }), cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOtherOwner(t *testing.T) {
	at := netip.MustParseAddr
	st := ipam.Status{
		Self:  ipam.PeerStatus{ID: "1"},
		Peers: []ipam.PeerStatus{{ID: "1", Name: "host-a"}, {ID: "2", Name: "host-b"}},
		Pools: []ipam.PoolStatus{
			{Pool: netip.MustParsePrefix("10.50.0.0/24"), Holders: []ipam.RangeStatus{
				{Start: at("10.50.0.0"), End: at("10.50.0.0"), Owner: "reserved"},
				{Start: at("10.50.0.1"), End: at("10.50.0.63"), Owner: "1"},
				{Start: at("10.50.0.64"), End: at("10.50.0.127"), Owner: "2"},
				{Start: at("10.50.0.128"), End: at("10.50.0.255"), Owner: "free"},
			}},
			{Pool: netip.MustParsePrefix("fd00:50::/64"), Holders: []ipam.RangeStatus{
				{Start: at("fd00:50::"), End: at("fd00:50::ffff:ffff:ffff:fffe"), Owner: "2"},
			}},
		},
	}
	for a, want := range map[string]string{
		"10.50.0.0": "", "10.50.0.63": "", "10.50.0.64": "host-b", "10.50.0.127": "host-b", "10.50.0.128": "", "10.60.0.1": "",
		"fd00:50::7": "host-b", "fd00:50::ffff:ffff:ffff:ffff": "",
	} {
		if got := otherOwner(&st, at(a)); got != want {
			t.Errorf("%s: got %q, want %q", a, got, want)
		}
	}
}
