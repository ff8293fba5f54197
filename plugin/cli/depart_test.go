package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
)

// at is the status of a peer that owns so many addresses of one pool.
func at(state ipam.State, owned int, held uint64) ipam.Status {
	st := ipam.Status{Verdict: ipam.Fine, State: state, Self: ipam.PeerStatus{ID: "aa"}}
	pool := ipam.PoolStatus{Pool: prefix("10.50.0.0/24"), Size: 256, Held: held, HeldHere: held}
	if owned > 0 {
		first := ip("10.50.0.1")
		last := first
		for range owned - 1 {
			last = last.Next()
		}
		pool.Holders = []ipam.RangeStatus{{Start: first, End: last, Owner: "aa", Held: held}}
	}
	st.Pools = []ipam.PoolStatus{pool}
	return st
}

// without adds peers to the status, of whom two are missing.
func without(st ipam.Status) ipam.Status {
	st.Peers = []ipam.PeerStatus{
		{ID: "aa", Name: "host-a"},
		{ID: "bb", Name: "host-b", State: "active"},
		{ID: "cc", Name: "host-c", State: "draining"},
		{ID: "dd", Name: "host-d", State: "active", Reachable: true},
		{ID: "ee", Name: "host-e", State: "evicted"},
	}
	return st
}

func resting(st ipam.Status, n uint64) ipam.Status {
	st.Pools[0].RestingHere = n
	return st
}

const inUse = " in use (ringlet ip ls shows them)\n"

// What is told while a peer gives its space back: each change once.
func TestDeparting(t *testing.T) {
	refused := &ipam.Error{Kind: ipam.ErrPoolInUse, Text: "host-a still holds 2 addresses: remove its containers first"}
	underWay := &ipam.Error{Kind: ipam.ErrNotReady, Text: "host-a is draining"}
	cutOff := &ipam.Error{Kind: ipam.ErrUnreachable, Text: "host-a cannot reach host-b"}
	holders := "\n  10.50.0.2  web\n  10.50.0.3  printer-3\n  10.50.0.4  evil\\x1b[2J\\nname\n  10.50.0.7  a container with MAC 02:42:0a:32:00:07\n  fd00:50::2  web\n"
	stayed := "ringlet: this host no longer gives its addresses to others: that was undone, or no other host is left to take them; see ringlet status\n"
	const drained = "drained: this host owns no addresses any more; ringlet drain --undo ends that\n"
	const left = "left: this host is out of the cluster and hands out no addresses; remove the plugin, or run ringlet\n      rejoin to join again\n"
	kept := strings.TrimSuffix(left, "\n") + "; its addresses are quarantined. When the plugin here is removed, run\n      ringlet forget on another host to free them\n"
	tests := []struct {
		name, args string
		then       []ipam.Status
		leaving    error
		code       int
		out, err   string
	}{
		{"drained at once", "drain", []ipam.Status{at(ipam.Leaving, 0, 0)}, nil, 0, drained, ""},
		{
			"draining takes a while", "drain",
			[]ipam.Status{at(ipam.Leaving, 9, 2), at(ipam.Leaving, 9, 2), at(ipam.Leaving, 1, 1), at(ipam.Checking, 1, 0), at(ipam.Leaving, 0, 0)},
			nil, 0,
			"giving addresses to the others: 9 addresses are left, 2" + inUse + "giving addresses to the others: 1 address is left, 1" + inUse +
				"giving addresses to the others: 1 address is left, none in use\n" + drained, "",
		},
		{
			"what was freed rests first", "drain",
			[]ipam.Status{resting(at(ipam.Leaving, 9, 0), 3), resting(at(ipam.Leaving, 1, 0), 1), at(ipam.Leaving, 0, 0)},
			nil, 0,
			"giving addresses to the others: 9 addresses are left, none in use; 3 rest for a while\n  (RINGLET_REST), until 12:04:00 UTC at the latest\n" +
				"giving addresses to the others: 1 address is left, none in use; 1 rests for a while (RINGLET_REST),\n  until 12:04:00 UTC at the latest\n" + drained, "",
		},
		{"not waited for", "drain --no-wait", []ipam.Status{at(ipam.Leaving, 9, 0)}, nil, 0, "draining: 9 addresses are left, none in use\n", ""},
		{"undone meanwhile", "drain", []ipam.Status{at(ipam.Leaving, 9, 0), at(ipam.Ready, 9, 0)}, nil, 1, "giving addresses to the others: 9 addresses are left, none in use\n", stayed},
		{"in JSON, the end alone", "drain -o json", []ipam.Status{at(ipam.Leaving, 9, 0), at(ipam.Leaving, 0, 0)}, nil, 0, "{\n  \"state\": \"leaving\",\n  \"owned\": 0,\n  \"resting\": 0,\n  \"held\": 0\n}\n", ""},
		{"left at once", "leave", []ipam.Status{at(ipam.Left, 0, 0)}, nil, 0, left, ""},
		{"left at once, with what it knew last", "leave --force", []ipam.Status{at(ipam.Left, 4, 4)}, nil, 0, kept, ""},
		{"left at once, with nothing", "leave --force", []ipam.Status{at(ipam.Left, 0, 0)}, nil, 0, left, ""},
		{
			"leaving takes a while", "leave",
			[]ipam.Status{at(ipam.Leaving, 2, 0), at(ipam.Leaving, 0, 0), at(ipam.Left, 0, 0)},
			underWay, 0,
			"giving addresses to the others: 2 addresses are left, none in use\ngiving addresses to the others: no address is left; the other hosts have to agree\n" + left, "",
		},
		{
			"others are missing", "leave",
			[]ipam.Status{at(ipam.Leaving, 2, 0), without(at(ipam.Leaving, 2, 0)), at(ipam.Left, 0, 0)},
			underWay, 0,
			"giving addresses to the others: 2 addresses are left, none in use\ngiving addresses to the others: 2 addresses are left, none in use; unreachable: host-b, host-c\n" + left, "",
		},
		{"leaving, not waited for", "leave --no-wait", []ipam.Status{at(ipam.Leaving, 2, 0)}, underWay, 0, "leaving: 2 addresses are left, none in use\n", ""},
		{"stays, as the others left", "leave", []ipam.Status{at(ipam.Leaving, 2, 0), at(ipam.Alone, 2, 0)}, underWay, 1, "giving addresses to the others: 2 addresses are left, none in use\n", stayed},
		{"refused", "leave", nil, refused, 1, "", "ringlet: " + refused.Text + holders},
		{"cut off", "leave", []ipam.Status{at(ipam.Leaving, 2, 0)}, cutOff, 1, "", "ringlet: " + cutOff.Text + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := alone()
			f.then, f.leaving = tt.then, tt.leaving
			cfg := Config{lookEvery: time.Nanosecond, columns: 100, Getenv: env("RINGLET_SOCKET", serve(t, f))}
			got := ringlet(t, cfg, strings.Fields(tt.args)...)
			if diff := cmp.Diff(result{tt.out, tt.err, tt.code}, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(f.then) > 0 && tt.code == 0 {
				t.Errorf("did not wait for %d more changes", len(f.then))
			}
		})
	}
}

// Ten holders are named, and the others counted.
func TestManyHoldersKeepAPeer(t *testing.T) {
	f := alone()
	for i := range 8 {
		s := f.list[3]
		s.Name = fmt.Sprintf("vm-%d", i)
		f.list = append(f.list, s)
	}
	f.leaving = &ipam.Error{Kind: ipam.ErrPoolInUse, Text: "no"}
	got := ringlet(t, Config{}, "leave", "--socket", serve(t, f))
	if lines := strings.Split(strings.TrimSpace(got.err), "\n"); len(lines) != 1+maxHolders+1 || lines[len(lines)-1] != "  and 3 more" {
		t.Errorf("said %s", got.err)
	}
}

// Who stops waiting is told that the peer goes on.
func TestNoLongerWaiting(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := alone()
	f.then = []ipam.Status{at(ipam.Leaving, 2, 0)}
	var out stopper = func(string) { cancel() }
	var errs strings.Builder
	code := Execute(ctx, Config{Out: out, Err: &errs}, []string{"ringlet", "drain", "--socket", serve(t, f)})
	if want := "ringlet: no longer waiting: the host continues by itself; ringlet status shows its progress\n"; code != 1 || errs.String() != want {
		t.Errorf("code %d, said %q", code, errs.String())
	}
}

// stopper is called with what is written to it.
type stopper func(string)

func (s stopper) Write(b []byte) (int, error) { s(string(b)); return len(b), nil }

// What an operator drains all the same is asked for as that, and an undo is not.
func TestDrainAlso(t *testing.T) {
	f := alone()
	cfg := Config{Getenv: env("RINGLET_SOCKET", serve(t, f))}
	if got := ringlet(t, cfg, "drain", "--also", "--no-wait"); got.code != 0 || !slices.Contains(f.calls, "drain also") {
		t.Errorf("got %+v, calls %q", got, f.calls)
	}
	want := "ringlet: a drain that ends needs no also: leave out one of undo and also\n"
	if got := ringlet(t, cfg, "drain", "--undo", "--also"); got.code != 1 || got.err != want {
		t.Errorf("got %+v", got)
	}
}

func TestDrainThatCannotBeTold(t *testing.T) {
	f := alone()
	f.then = []ipam.Status{at(ipam.Leaving, 2, 0)}
	got := ringlet(t, Config{Out: fullDisk{}}, "drain", "--socket", serve(t, f))
	if got.code != 1 || !strings.Contains(got.err, "no space left on device") {
		t.Errorf("got %+v", got)
	}
}

// Each key is another one, of the size and in the form that RINGLET_KEY wants.
func TestKeygen(t *testing.T) {
	noPlugin := Config{Getenv: func(string) string { return "/nowhere" }}
	seen := map[string]bool{}
	for range 3 {
		got := ringlet(t, noPlugin, "keygen")
		key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(got.out, "\n"))
		if err != nil || len(key) != 32 || got.code != 0 || got.err != "" || seen[got.out] {
			t.Errorf("got %+v, %v", got, err)
		}
		seen[got.out] = true
	}
	var doc struct{ Key string }
	if got := ringlet(t, noPlugin, "keygen", "-o", "json"); json.Unmarshal([]byte(got.out), &doc) != nil || len(doc.Key) != 44 {
		t.Errorf("got %+v", got)
	}
	if got := ringlet(t, Config{Out: fullDisk{}}, "keygen"); got.code != 1 || got.err == "" {
		t.Errorf("a key that could not be written: %+v", got)
	}
}

// A key goes to a new file for its owner alone, whatever the user's mask, and not to the terminal; what is there already
// stays as it is, also behind a link.
func TestKeygenToAFile(t *testing.T) {
	noPlugin := Config{Getenv: func(string) string { return "/nowhere" }}
	file := filepath.Join(t.TempDir(), "cluster.key")
	got := ringlet(t, noPlugin, "keygen", "--out", file)
	text, err := os.ReadFile(file)
	if err != nil || got.code != 0 || got.err != "" {
		t.Fatalf("got %+v, %v", got, err)
	}
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(string(text), "\n"))
	if err != nil || len(key) != 32 {
		t.Errorf("the file has %d bytes of a key, %v", len(key), err)
	}
	if strings.Contains(got.out, strings.TrimSpace(string(text))) || !strings.Contains(got.out, file) {
		t.Errorf("it prints %q", got.out)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	link := file + ".link"
	if err := os.Symlink(filepath.Join(filepath.Dir(file), "elsewhere"), link); err != nil {
		t.Fatal(err)
	}
	for _, there := range []string{file, link} {
		if got := ringlet(t, noPlugin, "keygen", "--out", there); got.code != 1 || !strings.Contains(got.err, there+" exists") {
			t.Errorf("%s: got %+v", there, got)
		}
	}
	if again, err := os.ReadFile(file); err != nil || string(again) != string(text) {
		t.Errorf("the key that was there is another now, %v", err)
	}
	var doc struct{ File string }
	if got := ringlet(t, noPlugin, "keygen", "--out", file+".2", "-o", "json"); json.Unmarshal([]byte(got.out), &doc) != nil || doc.File != file+".2" {
		t.Errorf("got %+v", got)
	}
	if got := ringlet(t, noPlugin, "keygen", "--out", filepath.Join(file, "below")); got.code != 1 || !strings.Contains(got.err, "no key was made") {
		t.Errorf("got %+v", got)
	}
}

// The first line of the status, for each way to stand among others.
func TestStanding(t *testing.T) {
	self := ipam.PeerStatus{ID: "aa", Name: "host-a", State: "active", Reachable: true}
	b, c := ipam.PeerStatus{ID: "bb", Name: "host-b", State: "active", Reachable: true}, ipam.PeerStatus{ID: "cc", Name: "host-c", State: "active"}
	gone := ipam.PeerStatus{ID: "dd", Name: "host-d", State: "evicted"}
	for _, tt := range []struct {
		st   ipam.Status
		want string
	}{
		{ipam.Status{Verdict: ipam.Fine, State: ipam.Alone, Peers: []ipam.PeerStatus{self}}, "fine: ready, the only peer, 0 pools"},
		{ipam.Status{Verdict: ipam.Fine, State: ipam.Alone, Peers: []ipam.PeerStatus{self, gone}}, "fine: ready, the only peer, 1 evicted, 0 pools"},
		{ipam.Status{Verdict: ipam.Fine, State: ipam.Ready, Peers: []ipam.PeerStatus{self, b}}, "fine: ready, 2 peers, 0 pools"},
		{ipam.Status{Verdict: ipam.Degraded, State: ipam.Ready, Peers: []ipam.PeerStatus{self, b, c, gone}}, "degraded: ready, 3 peers (1 unreachable), 1 evicted, 0 pools"},
		{ipam.Status{Verdict: ipam.Degraded, State: ipam.CutOff, Peers: []ipam.PeerStatus{self, c}, Problems: make([]ipam.Problem, 2)}, "degraded: 2 problems, cut off from a majority, 2 peers (1 unreachable), 0 pools"},
		{ipam.Status{Verdict: ipam.Failed, State: ipam.Forming}, "failed: waiting for the other founders of the cluster, 0 pools"},
		{ipam.Status{Verdict: ipam.Failed, State: ipam.Joining}, "failed: in no cluster yet, 0 pools"},
		{ipam.Status{Verdict: ipam.Degraded, State: ipam.Checking, Peers: []ipam.PeerStatus{self, b}}, "degraded: just started, asking the other hosts for news, 2 peers, 0 pools"},
		{ipam.Status{Verdict: ipam.Fine, State: ipam.Leaving, Peers: []ipam.PeerStatus{self, b}}, "fine: giving its addresses to the other hosts, 2 peers, 0 pools"},
		{ipam.Status{Verdict: ipam.Failed, State: ipam.Left, Peers: []ipam.PeerStatus{b}}, "failed: has left its cluster, 1 peer, 0 pools"},
		{ipam.Status{Verdict: ipam.Failed, State: ipam.Suspended, Peers: []ipam.PeerStatus{self}}, "failed: stopped handing out addresses, 1 peer, 0 pools"},
		{ipam.Status{Verdict: ipam.Fine, State: "new\nword", Peers: []ipam.PeerStatus{self}}, `fine: new\nword, 1 peer, 0 pools`},
		{ipam.Status{Verdict: ipam.Fine, Peers: []ipam.PeerStatus{self}}, "fine: 1 peer, 0 pools"}, // of an older plugin
	} {
		tt.st.Self = self
		var out strings.Builder
		view{out: &out, columns: 200}.verdict(tt.st)
		if want := tt.want + ", 0 addresses held here\n"; out.String() != want {
			t.Errorf("got %swant %s", out.String(), want)
		}
	}
}
