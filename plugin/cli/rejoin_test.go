package cli

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

const wouldBegin = "would start over: the database of this host is set aside, and peer 00112233445566778899aabbccddeeff\n" +
	"  is replaced by a new one; its containers keep running\n" +
	"other hosts: host-b at 192.0.2.2:7950, host-c at 192.0.2.3:7950\n" +
	"in use: 7 addresses that this host may use are kept from other containers for ten minutes\n" +
	"claimed again: 10.50.0.3 in 10.50.0.0/24 for printer-3\n"

// Without the words that it takes nothing is changed, and it is told what would be.
func TestRejoinIsStated(t *testing.T) {
	for args, want := range map[string]result{
		"rejoin": {
			wouldBegin,
			"ringlet: nothing was changed: this sets the database of this host aside, and nothing undoes it. If that is wanted, add --set-database-aside; see ringlet rejoin --help\n", 2,
		},
		"rejoin --set-database-aside=false --dry-run": {wouldBegin, "", 0},
	} {
		f := alone()
		got := ringlet(t, Config{columns: 100}, append(strings.Fields(args), "--socket", serve(t, f))...)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
		if diff := cmp.Diff([]string{"rejoin dryRun=true"}, f.calls); diff != "" {
			t.Errorf("%s calls (-want +got):\n%s", args, diff)
		}
	}
}

// What is carried over is told in the singular, too, and names that steer a terminal are escaped.
func TestRejoinWithLittle(t *testing.T) {
	f := alone()
	f.rejoining = admin.Rejoining{Former: "aa\x1b", InUse: 1, Clients: []admin.Claim{{Address: netip.MustParseAddr("10.50.0.3"), Pool: "10.50.0.0/24", For: "a\x1b[2Jb"}}}
	got := ringlet(t, Config{columns: 100}, "rejoin", "--dry-run", "--socket", serve(t, f))
	want := "would start over: the database of this host is set aside, and peer aa\\x1b is replaced by a new one;\n  its containers keep running\n" +
		"other hosts: none is known here; another host has to name this one in its RINGLET_JOIN, or this one\n  another in its own\n" +
		"in use: 1 address that this host may use is kept from other containers for ten minutes\n" +
		"claimed again: 10.50.0.3 in 10.50.0.0/24 for a\\x1b[2Jb\n"
	if diff := cmp.Diff(result{want, "", 0}, got, cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The command waits for a new peer that is a member, and tells how far it is.
func TestRejoinWaits(t *testing.T) {
	f := troubled()
	f.rejoining = admin.Rejoining{Former: f.st.Self.ID, Peers: []string{"host-b at 192.0.2.2:7950"}}
	for i, state := range []ipam.State{ipam.Suspended, ipam.Joining, ipam.Joining, ipam.Checking, ipam.Ready} {
		st := f.st
		if st.State = state; i > 0 {
			st.Self.ID = "ff" + st.Self.ID
		}
		f.then = append(f.then, st)
	}
	f.departs = true
	got := ringlet(t, Config{columns: 100, lookEvery: time.Millisecond}, "rejoin", "--set-database-aside", "--socket", serve(t, f))
	for _, line := range []string{"started over: ", "waiting: in no cluster yet\n", "waiting: just started, asking the other hosts for news\n", "member: this host is a member of the cluster of "} {
		if strings.Count(got.out, line) != 1 {
			t.Errorf("%q is not there once:\n%s", line, got.out)
		}
	}
	if got.code != 0 || got.err != "" || len(f.then) > 1 {
		t.Errorf("%+v, %d looks were not taken", got, len(f.then))
	}
}

func TestRejoinRefused(t *testing.T) {
	areRefused(t, alone, "host-a is in its cluster and keeps its addresses",
		"rejoin", "rejoin --set-database-aside", "trust --i-know-no-other-copy-runs")
}

// A note of the status is no problem of the verdict.
func TestNoteIsNoProblem(t *testing.T) {
	f := alone()
	f.st.Problems = []ipam.Problem{{Code: "started-over", Level: string(ipam.Fine), Text: "this host started over", Next: "none is needed"}}
	got := ringlet(t, Config{}, "status", "--socket", serve(t, f))
	if got.code != 0 || strings.Contains(got.out, "1 problem") || !strings.Contains(got.out, "\nfine: this host started over\n  next: none is needed\n") {
		t.Errorf("%+v", got)
	}
}
