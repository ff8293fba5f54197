package ipam_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// A conflict that lasts is told once, with the time at which it was seen first, however
// many lists show it; and again when it comes back, or is another one.
func TestConflictIsToldOnce(t *testing.T) {
	h := withSocket(t)
	network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	if r := h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/24", Address: address("10.50.0.9"), ID: "printer"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	problem := func() string {
		for _, p := range h.Machine().Status(h.Now).Problems {
			if p.Code == "conflict" {
				return p.Text
			}
		}
		return ""
	}
	shows := func(told bool, endpoints ...ipam.InventoryEndpoint) string {
		t.Helper()
		h.Now = h.Now.Add(10 * time.Minute)
		h.Call(&ipam.Inventory{Networks: []ipam.InventoryNetwork{on("10.50.0.0/24", endpoints...)}})
		got := slices.ContainsFunc(h.Notes, func(n ipam.Note) bool { return n.Kind == ipam.NoteConflict })
		if got != told || (problem() == "") != (len(endpoints) == 0) {
			t.Errorf("told of it: %t, want %t; the problem is %q", got, told, problem())
		}
		return problem()
	}
	first := shows(true, listed("10.50.0.9", "web", 9))
	hostHas(h, "192.168.1.10/24")
	for range 3 {
		if again := shows(false, listed("10.50.0.9", "web", 9)); again != first {
			t.Errorf("it was %q, and is %q", first, again)
		}
	}
	shows(true, listed("10.50.0.9", "db", 8))
	shows(false)
	shows(true, listed("10.50.0.9", "db", 8))
	h.Call(&ipam.FreeRequest{ID: "printer"})
	if problem() != "" {
		t.Errorf("the other holder has gone, and the problem is %q", problem())
	}
}

// The host has an address that a container has, which is a conflict for as long as both have
// it, also where no list of an engine ever comes.
func TestConflictWithTheHostEnds(t *testing.T) {
	const a = "10.50.0.9"
	for what, end := range map[string]func(h *machinetest.Host, n ipam.Network, ticket ipam.Ticket){
		"the interface goes":  func(h *machinetest.Host, _ ipam.Network, _ ipam.Ticket) { hostHas(h, "192.168.1.10/24") },
		"the container stops": func(h *machinetest.Host, n ipam.Network, _ ipam.Ticket) { release(h, n, address(a)) },
		"the answer is not delivered": func(h *machinetest.Host, _ ipam.Network, ticket ipam.Ticket) {
			h.Call(&ipam.Withdrawal{Ticket: ticket})
		},
	} {
		h := machinetest.NewHost(t, ipam.Config{})
		n := network(t, h, "10.50.0.0/24")
		g := mustAsk(t, h, n, "web", 7, a)
		for range 2 {
			hostHas(h, a+"/24")
		}
		if s := h.Machine().Status(h.Now); s.Verdict != ipam.Failed {
			t.Errorf("both have it, and the verdict is %s", s.Verdict)
		}
		end(h, n, g.Ticket)
		if s := h.Machine().Status(h.Now); s.Verdict != ipam.Fine {
			t.Errorf("%s, and the problems are %+v", what, s.Problems)
		}
	}
}
