package ipam_test

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// A label set keeps its number over a start of the process, and gets a new one once it was collected. What can have no
// number is refused, and the others of the request have theirs.
func TestIdentities(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	number := func(text string) uint64 {
		t.Helper()
		if r := h.Call(&ipam.IdentityRequest{Labels: []string{text, text}}); r.Err != nil {
			t.Fatal(r.Err)
		}
		return h.Machine().State().Identities.Number(text)
	}
	if web, db := number("app=web"), number("app=db"); web != identity.First || db != web+1 || number("app=web") != web {
		t.Errorf("the numbers are %d and %d", web, db)
	}
	slot := h.Machine().State().Slot
	if h.Restart(); number("app=web") != identity.First || h.Machine().State().Slot != slot {
		t.Error("a start of the process costs a number")
	}
	for range 2 {
		if r := h.Call(&ipam.IdentityRequest{Collect: []uint64{identity.First, 77}}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if got := number("app=web"); got != identity.First+2 {
		t.Errorf("a collected set gets number %d", got)
	}
	r := h.Call(&ipam.IdentityRequest{Labels: []string{"app=" + strings.Repeat("x", identity.MaxText), "app=cache"}})
	if r.Err == nil || !strings.Contains(r.Err.Error(), "1028 bytes, and at most 1024 count") {
		t.Errorf("a long label set: %v", r.Err)
	}
	if ids := h.Machine().Identities(); len(ids.Sets) != 3 || ids.Sets[2].Text != "app=cache" {
		t.Errorf("the label sets are %+v", ids)
	}
}
