package ipam_test

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// In a full pool the gateway is counted beside what containers use: who has started five containers looks for five.
func TestFullPoolNamesTheGateway(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway})
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		run(t, h, n, name)
	}
	const want = "of 8 addresses 5 are in use, 1 is this host's gateway, and 2 are reserved"
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer}); r.Err == nil || !strings.Contains(r.Err.Error(), want) {
		t.Errorf("refused with %v", r.Err)
	}
	for _, p := range h.Machine().Status(h.Now).Problems {
		if p.Code == "pool-full" && strings.HasSuffix(p.Text, want) {
			return
		}
	}
	t.Errorf("the status has %+v", h.Machine().Status(h.Now).Problems)
}
