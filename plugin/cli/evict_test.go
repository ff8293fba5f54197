package cli

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
)

// Before a host is forgotten, what it reported to hold is listed.
func TestForgettingListsHolders(t *testing.T) {
	got := ringlet(t, Config{}, "forget", "host-b", "--dry-run", "--socket", serveDirectory(t))
	if want := "it reported to hold:\n  10.50.0.200  db\n"; got.code != 0 || !strings.HasSuffix(got.out, want) {
		t.Errorf("%+v", got)
	}
}

// What is told of hosts that are lost, and what it is wrong of.
func TestLost(t *testing.T) {
	const recovered = "recovered: this host is now the only one of its cluster, which has the new ID\n  00112233445566778899aabbccddeeff\n"
	tests := []struct {
		name, args string
		forgetting ipam.Forgetting
		out        string
	}{
		{
			"evicted, with addresses", "evict host-c",
			ipam.Forgetting{},
			"evicted host-c: 8 addresses that it may use are quarantined until it returns, or until you state\n  with ringlet forget host-c that it is gone for good\n",
		},
		{"evicted, with none", "evict host-e", ipam.Forgetting{}, "evicted host-e: it has no quarantined addresses\n"},
		{
			"evicted before", "evict host-d",
			ipam.Forgetting{},
			"evicted host-d: 4 addresses that it may use are quarantined until it returns, or until you state\n  with ringlet forget host-d that it is gone for good\n",
		},
		{
			"would be forgotten", "forget host-d --dry-run",
			ipam.Forgetting{ID: "99ff", Ranges: 1, Addresses: 4},
			"would free: 4 addresses in 1 range of host-d (ID 99ff)\n" +
				"only if it is gone for good: if host-d still runs cut off, or starts again with its data, its\n  containers use addresses that other hosts hand out\n",
		},
		{
			"forgotten", "forget host-d",
			ipam.Forgetting{ID: "99ff", Ranges: 2, Addresses: 1},
			"forgot host-d: 1 address in 2 ranges is free for the other hosts\n" +
				"it must not come back as it was: if host-d ever starts again, keep it off the network until you have\n  removed its containers, and the plugin there with its data\n",
		},
		{
			"forgotten, with more than can be counted", "forget host-d",
			ipam.Forgetting{ID: "99ff", Ranges: 8, Addresses: 1<<64 - 1},
			"forgot host-d: 2^64 addresses in 8 ranges are free for the other hosts\n" +
				"it must not come back as it was: if host-d ever starts again, keep it off the network until you have\n  removed its containers, and the plugin there with its data\n",
		},
		{"with a name that steers", "forget a\x1b[2Jb", ipam.Forgetting{}, "nothing to free: no address of a\\x1b[2Jb is quarantined\n"},
		{
			"recovered", "recover --i-know-the-others-are-gone",
			ipam.Forgetting{},
			recovered + "evicted: host-b.a-rather-long-domain.example.org, host-c, host-d, host-e; 32 addresses are\n" +
				"         quarantined until ringlet forget frees them\n" +
				"next: on each of those hosts that will return, remove the plugin with its data before it starts, and\n" +
				"      install it with RINGLET_JOIN naming this host\n" +
				"then: repeat what was requested here without a majority, if it is missing now: see ringlet pool ls,\n" +
				"      exclude ls and reserve ls\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := troubled()
			f.forgetting = tt.forgetting
			cfg := Config{columns: 100, Getenv: env("RINGLET_SOCKET", serve(t, f))}
			got := ringlet(t, cfg, strings.Fields(tt.args)...)
			if diff := cmp.Diff(result{tt.out, "", 0}, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// What the plugin refuses is told in its own words, and is a failure.
func TestLostRefused(t *testing.T) {
	areRefused(t, troubled, "host-b can be reached: use ringlet leave on that host",
		"evict host-b", "forget host-b", "forget host-b --dry-run", "recover --i-know-the-others-are-gone")
}

// areRefused asserts that what the plugin refuses is told in its own words, and that each of the commands fails by that, and where
// the answer cannot be written.
func areRefused(t *testing.T, plugin func() *fixture, text string, commands ...string) {
	t.Helper()
	for _, args := range commands {
		f := plugin()
		f.err = &ipam.Error{Kind: ipam.ErrBadRequest, Text: text}
		got := ringlet(t, Config{}, append(strings.Fields(args), "--socket", serve(t, f))...)
		if diff := cmp.Diff(result{"", "ringlet: " + f.err.Error() + "\n", 1}, got, cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
		f.err = errors.New("disk")
		if got := ringlet(t, Config{Out: fullDisk{}}, append(strings.Fields(args), "--socket", serve(t, f))...); got.code != 1 || got.err == "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

// The tab key offers the peers that a command is for: by name, or by ID where
// two have the same name.
func TestLostPeersAreOffered(t *testing.T) {
	f := troubled()
	f.st.Peers = append(f.st.Peers,
		ipam.PeerStatus{ID: "bb22", Name: "host-d", State: "active", Reachable: true}, // the same host, rebuilt
		ipam.PeerStatus{ID: "cc33", Name: "bad name\x1b", State: "evicted"},
	)
	cfg := Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}
	for args, want := range map[string]string{
		"evict ":        "host-b.a-rather-long-domain.example.org\tdraining\nhost-e\tactive\n:4\n",
		"evict host-e":  "host-e\tactive\n:4\n",
		"evict host-e ": ":4\n",
		"forget ":       "cc33\tbad name\\x1b, evicted\n99ff\thost-d, evicted\n:4\n",
	} {
		argv := append([]string{"__complete"}, strings.Fields(args)...)
		if strings.HasSuffix(args, " ") {
			argv = append(argv, "")
		}
		if got := ringlet(t, cfg, argv...); got.out != want || got.code != 0 {
			t.Errorf("%q: got %q, want %q", args, got.out, want)
		}
	}
}
