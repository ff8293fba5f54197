package cli

import (
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// --wait names the hosts that have not applied a change: those that lag, and those
// that cannot be reached. An evicted host has nothing to apply.
func TestUnapplied(t *testing.T) {
	st := ipam.Status{Self: ipam.PeerStatus{ID: "a"}, Slot: 9, Peers: []ipam.PeerStatus{
		{ID: "a", Name: "host-a", Reachable: true, Slot: 9},
		{ID: "b", Name: "host-b", Reachable: true, Slot: 9},
		{ID: "c", Name: "host-c", Reachable: true, Slot: 8},
		{ID: "d", Name: "host-d", Slot: 8},
		{ID: "e", Name: "host-e", Slot: 9},
		{ID: "f", Name: "host-f", Slot: 3, State: "evicted"},
	}}
	late, silent := unapplied(&st, 9)
	if strings.Join(late, " ") != "host-c" || strings.Join(silent, " ") != "host-d" {
		t.Errorf("late: %v, silent: %v", late, silent)
	}
}

// A change with --wait is answered as without it, and the exit code says whether all
// hosts have it.
func TestWaitApplied(t *testing.T) {
	for _, command := range []string{"exclude add 10.50.0.5", "reserve add 10.50.0.6 --for db", "pool create 10.70.0.0/24"} {
		f := alone()
		socket := serve(t, f)
		plain := ringlet(t, Config{}, append(strings.Fields(command), "--socket", socket)...)
		waited := ringlet(t, Config{}, append(strings.Fields(command), "--wait", "--socket", socket)...)
		if plain.code != 0 || waited != plain {
			t.Errorf("%s: %+v, and with --wait %+v", command, plain, waited)
		}
	}
}
