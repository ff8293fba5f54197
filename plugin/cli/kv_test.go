package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/events"
)

// library is a fixture that says where it is in a cluster, and in whose
// directory its status and addresses are.
type library struct{ *fixture }

func (l library) Who(ctx context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	s, err := l.fixture.Who(ctx, a)
	if a == ip("10.50.0.200") {
		return ipam.AddressStatus{Address: a, Pool: prefix("10.50.0.0/24"), Peer: "host-b", State: "elsewhere"}, nil
	}
	return s, err
}

// List lists what is in use on this host, if only that is asked for.
func (l library) List(ctx context.Context, q ipam.Listing) (out ipam.Portion, err error) {
	if !q.Held {
		return l.fixture.List(ctx, q)
	}
	for _, s := range l.list {
		if slices.Contains([]string{stateHeld, stateGateway, stateHost}, s.State) {
			out.Addresses = append(out.Addresses, s)
		}
	}
	return out, nil
}

// elsewhere is a directory whose other peer holds an address.
type elsewhere struct{ *directory.Directory }

func (d elsewhere) Holdings(a netip.Addr) []directory.Holding {
	if b := d.other(); a == b.IP {
		return []directory.Holding{b}
	}
	return nil
}

func (d elsewhere) Places(func(owner string) bool) []directory.Place {
	return []directory.Place{{IP: d.other().IP, Owner: d.other().Owner}}
}

func (d elsewhere) Said(places []directory.Place) (out []directory.Holding) {
	for range places {
		out = append(out, d.other())
	}
	return out
}

func (elsewhere) Labels(uint64) (map[string]string, bool) {
	return map[string]string{"com.docker.compose.service": "db\x1b[2J", "com.docker.compose.project": "shop"}, true
}

func (elsewhere) other() directory.Holding {
	return directory.Holding{
		Address: directory.Address{
			Pool: prefix("10.50.0.0/24"), Node: "host-b", State: "held", Kind: "container", Name: "db",
			Container: strings.Repeat("fedcba98", 8), MAC: "02:42:0a:32:00:c8", Identity: 256, Since: now.Add(-time.Hour),
		},
		IP: ip("10.50.0.200"), Owner: "bb02", ConfirmedAt: now.Add(-90 * time.Second),
	}
}

func (d elsewhere) List(prefix, after string, limit, bytes int) ([]directory.Item, bool) {
	list, more := d.Directory.List(prefix, after, limit, bytes)
	for i := range list {
		if !list[i].ConfirmedAt.IsZero() {
			list[i].ConfirmedAt = now.Add(-2 * time.Minute) // the one thing in them that is of the clock
		}
	}
	return list, more
}

// serveDirectory serves the directory of a peer that publishes what the fixture
// has, once it has.
func serveDirectory(t *testing.T) string {
	t.Helper()
	f := library{alone()}
	f.forgetting = ipam.Forgetting{ID: "bb02", Ranges: 1, Addresses: 8}
	f.st.Peers = append(f.st.Peers, ipam.PeerStatus{ID: "bb02", Name: "host-b", State: "active"})
	d, err := directory.New(directory.Config{
		Self: ipam.Identity{ID: peer.ID{0x3f}, Name: "host-a", Boot: 3}, Cluster: "ringlet", Source: f, Log: events.New(3, 0, 0),
		About: func() directory.Node { return directory.Node{Version: "v1.2.3"} }, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	reader := d.Watch(events.ID{})
	for seen := 0; seen < 1+5+7+1; { // the peer, pools and their names, addresses, heartbeat
		list, _, err := reader.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen += len(list)
	}
	cancel() // nothing changes any more
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return serveConfig(t, admin.Config{Backend: f, Directory: elsewhere{d}})
}

func TestKV(t *testing.T) {
	socket := serveDirectory(t)
	for file, args := range map[string][]string{
		"kv-get.txt":            {"kv", "get", "ringlet/state/ip/v1/ringlet/10.50.0.2"},
		"kv-list.txt":           {"kv", "get", "--recursive", "ringlet/state/ip/"},
		"kv-pools.txt":          {"kv", "get", "--recursive", "/ringlet/state/pools/"},
		"kv-nothing.txt":        {"kv", "get", "-r", "nothing/"},
		"ip-ls-every.txt":       {"ip", "ls", "--all"},
		"who-confirmed.txt":     {"who", "10.50.0.200"},
		"who-confirmed.json":    {"who", "10.50.0.200", "-o", "json"},
		"release-confirmed.txt": {"release", "10.50.0.200"},
		"lookup-confirmed.txt":  {"lookup", "--for", "db"},
		"lookup-every.txt":      {"lookup", "--all", "--for", "db"},
		"lookup-none.txt":       {"lookup", "--all", "--for", "nobody", "--pool", "10.50.0.0/24"},
		"free-confirmed.txt":    {"free", "--for", "db"},
	} {
		got := ringlet(t, Config{}, append(args, "--socket", socket)...)
		if got.code != 0 || got.err != "" {
			t.Errorf("%s: code %d, said %s", file, got.code, got.err)
		}
		if strings.Contains(got.out, "\x1b") {
			t.Errorf("%s has control characters", file)
		}
		golden.Check(t, file, []byte(got.out))
	}
	got := ringlet(t, Config{}, "kv", "get", "ringlet/nothing", "--socket", socket)
	if got.code != 1 || !strings.Contains(got.err, `no key "ringlet/nothing" now`) {
		t.Errorf("code %d, said %s", got.code, got.err)
	}
	got = ringlet(t, Config{}, "kv", "get", "ringlet/.heartbeat/ringlet", "-o", "json", "--socket", socket)
	var items []struct{ Value directory.Heartbeat }
	if err := json.Unmarshal([]byte(got.out), &items); err != nil || len(items) != 1 || items[0].Value.Node != "host-a" || items[0].Value.Slot != 7 {
		t.Errorf("the heartbeat is %s (%v)", got.out, err)
	}
}

// Who watches sees what there is, and stops when told to.
func TestKVWatch(t *testing.T) {
	socket := serveDirectory(t)
	for _, format := range []string{"table", "json"} {
		ctx, stop := context.WithCancel(t.Context())
		out := &watched{want: "10.50.0.7", seen: make(chan struct{})}
		ended := make(chan int)
		go func() {
			ended <- Execute(ctx, Config{Out: out, Err: t.Output(), Getenv: func(string) string { return "" }},
				[]string{"ringlet", "kv", "watch", "ringlet/state/ip/", "-o", format, "--socket", socket})
		}()
		<-out.seen
		stop()
		if code := <-ended; code != 0 {
			t.Errorf("%s: exit code %d", format, code)
		}
		lines := strings.Split(strings.TrimSpace(out.text.String()), "\n")
		want := "put ringlet/state/ip/v1/ringlet/10.50.0.1 {"
		if format == "json" {
			want = `{"event":"put","key":"ringlet/state/ip/v1/ringlet/10.50.0.1","value":{`
			if diff := cmp.Diff(`{"event":"reset"}`, lines[0]); diff != "" {
				t.Error(diff)
			}
			lines = lines[1:]
		}
		if !strings.HasPrefix(lines[0], want) {
			t.Errorf("%s: the first of %d lines is %s", format, len(lines), fmt.Sprint(lines[0]))
		}
	}
}
