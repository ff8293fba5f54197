package ipam_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// What is excluded in pieces is given back in one event.
func TestPiecesEndInOneNote(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	network(t, h, "10.50.0.0/24")
	for _, piece := range []string{"10.50.0.8", "10.50.0.9", "10.50.0.10", "10.50.0.12"} {
		if r := h.Call(exclude(piece, piece)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	h.Trail = nil
	if r := h.Call(&ipam.UnreserveRequest{First: address("10.50.0.8"), Last: address("10.50.0.12"), Kind: chronicle.KindExcluded}); r.Err != nil {
		t.Fatal(r.Err)
	}
	var got strings.Builder
	for _, n := range h.Trail {
		fmt.Fprintf(&got, "%v-%v %s-%s\n", n.Address, n.Last, n.From, n.To)
	}
	if want := "10.50.0.8-10.50.0.10 reserved-free\n10.50.0.12-10.50.0.12 reserved-free\n"; got.String() != want {
		t.Errorf("%s, want %s", got.String(), want)
	}
}
