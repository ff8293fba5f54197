package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/plugin/admin"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func ip(s string) netip.Addr       { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// fixture is a peer with a fixed state, on which writes are only recorded.
type fixture struct {
	crash  string // of the last process
	st     ipam.Status
	list   []ipam.AddressStatus
	broken []string
	err    error // of every call

	// What becomes of the status after a drain or a leave: each look takes one.
	then    []ipam.Status
	departs bool
	leaving error // of a leave

	rejoining  admin.Rejoining
	forgetting ipam.Forgetting // of any peer
	met        []admin.Met     // instead of host-b

	reservations []ipam.ReservationStatus
	stories      []ipam.Explanation
	findings     []ipam.Finding
	unlisted     bool // the engine has not listed what it has
	about        admin.About
	keys         admin.Keys
	reserving    error // of a reservation

	calls []string
	fails string // what a call begins with that is refused; empty: none
}

func (f *fixture) call(format string, args ...any) error {
	call := fmt.Sprintf(format, args...)
	f.calls = append(f.calls, call)
	if f.fails != "" && strings.HasPrefix(call, f.fails) {
		return &ipam.Error{Kind: ipam.ErrNotReady, Text: "not ready"}
	}
	return f.err
}

func (f *fixture) in(pool string) []ipam.AddressStatus {
	return slices.DeleteFunc(slices.Clone(f.list), func(s ipam.AddressStatus) bool {
		return pool != "" && s.Pool.String() != pool && (pool != "lab" || s.Pool != prefix("10.50.0.0/24"))
	})
}

func (f *fixture) Client(_ context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error) {
	a := r.Address
	if !a.IsValid() {
		a = ip("10.50.0.9")
	}
	return ipam.AddressGrant{Address: netip.PrefixFrom(a, 24)}, f.call("client %s %v %s", r.Pool, r.Address, r.ID)
}

func (f *fixture) Free(_ context.Context, r ipam.FreeRequest) ([]ipam.AddressStatus, error) {
	hits := slices.DeleteFunc(f.in(r.Pool), func(s ipam.AddressStatus) bool {
		return s.State != "held" || r.ID != "" && s.Name != r.ID && s.Container != r.ID || r.Address.IsValid() && s.Address != r.Address
	})
	return hits, f.call("free %q %q %v", r.Pool, r.ID, r.Address)
}

func (f *fixture) Status(context.Context) (ipam.Status, error) {
	if f.departs && len(f.then) > 0 {
		f.st, f.then = f.then[0], f.then[1:]
	}
	return f.st, f.call("status")
}

func (f *fixture) Snapshot(ctx context.Context) (ipam.Status, error) { return f.Status(ctx) }

func (f *fixture) Drain(_ context.Context, r ipam.DrainRequest) error {
	f.departs = true
	if r.Also {
		return f.call("drain also")
	}
	return f.call("drain undo=%v", r.Undo)
}

func (f *fixture) Leave(_ context.Context, force bool) error {
	f.departs = true
	if err := f.call("leave force=%v", force); err != nil {
		return err
	}
	return f.leaving
}

func (f *fixture) Join(_ context.Context, address string) ([]admin.Met, error) {
	met := []admin.Met{{ID: "bb02bb02bb02bb02bb02bb02bb02bb02", Name: "host-b", Address: "10.0.0.2:7950"}}
	if f.met != nil {
		met = f.met
	}
	return met, f.call("join %s", address)
}

func (f *fixture) Evict(_ context.Context, peer string) error {
	for i, p := range f.st.Peers {
		if p.Name == peer {
			f.st.Peers[i].State = stateEvicted
		}
	}
	return f.call("evict %s", peer)
}

func (f *fixture) Forget(_ context.Context, peer string, dryRun bool) (ipam.Forgetting, error) {
	out := f.forgetting
	out.Peer = peer
	return out, f.call("forget %s dryRun=%v", peer, dryRun)
}

func (f *fixture) Recover(context.Context) error {
	for i, p := range f.st.Peers {
		if p.ID != f.st.Self.ID {
			f.st.Peers[i].State = stateEvicted
		}
	}
	return f.call("recover")
}

func (f *fixture) Rejoin(_ context.Context, dryRun bool) (admin.Rejoining, error) {
	out := f.rejoining
	if out.Former == "" {
		out = admin.Rejoining{
			Former: "00112233445566778899aabbccddeeff", Peers: []string{"host-b at 192.0.2.2:7950", "host-c at 192.0.2.3:7950"}, InUse: 7,
			Clients: []admin.Claim{{Address: netip.MustParseAddr("10.50.0.3"), Pool: "10.50.0.0/24", For: "printer-3"}},
		}
	}
	if !dryRun {
		out.Kept = "ringlet.db.former-20261121T120000.000Z"
	}
	return out, f.call("rejoin dryRun=%v", dryRun)
}

func (f *fixture) Trust(context.Context) (admin.Trusted, error) {
	return admin.Trusted{Peer: f.st.Self.Name, ID: f.st.Self.ID, State: f.st.State}, f.call("trust")
}

func (f *fixture) List(_ context.Context, q ipam.Listing) (ipam.Portion, error) {
	hits := slices.DeleteFunc(f.in(q.Pool), func(s ipam.AddressStatus) bool {
		return q.Holder != "" && s.Name != q.Holder && s.Container != q.Holder
	})
	slices.SortStableFunc(hits, func(a, b ipam.AddressStatus) int { return a.Address.Compare(b.Address) })
	if q.Holder != "" {
		return ipam.Portion{Addresses: hits}, f.call("lookup %q %s", q.Pool, q.Holder)
	}
	return ipam.Portion{Addresses: hits}, f.call("addresses %q", q.Pool)
}

func (f *fixture) Who(_ context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	for _, s := range f.list {
		if s.Address == a {
			return s, f.call("who %v", a)
		}
	}
	for _, p := range f.st.Pools {
		if p.Pool.Contains(a) {
			return ipam.AddressStatus{Address: a, Pool: p.Pool, State: stateReady}, nil
		}
	}
	return ipam.AddressStatus{}, &ipam.Error{Kind: ipam.ErrPoolNotFound, Text: fmt.Sprintf("address %v lies in no pool", a)}
}

func (f *fixture) Explain(_ context.Context, a netip.Addr) (ipam.Explanation, error) {
	for _, e := range f.stories {
		if e.Address == a {
			return e, f.call("explain %v", a)
		}
	}
	return ipam.Explanation{}, &ipam.Error{Kind: ipam.ErrPoolNotFound, Text: fmt.Sprintf("address %v lies in no pool", a)}
}

func (f *fixture) Table(_ context.Context, q ipam.TableListing) (ipam.TablePortion, error) {
	var out ipam.TablePortion
	for _, p := range f.st.Pools {
		if q.Pool != "" && p.Pool.String() != q.Pool && p.Name != q.Pool {
			continue
		}
		for i := range min(p.Size/8, 80) {
			r := ipam.TableRow{Pool: p.Pool, Start: addr.Nth(p.Pool, addr.Offset(8*i)), End: addr.Nth(p.Pool, addr.Offset(8*i+7))}
			for j, at := range []**ipam.TablePeer{&r.Primary, &r.Secondary} {
				if n := len(f.st.Peers); j < n {
					peer := f.st.Peers[(int(i*i)+j)%n]
					*at = &ipam.TablePeer{ID: peer.ID, Name: peer.Name, Zone: peer.Zone}
				}
			}
			out.Rows = append(out.Rows, r)
		}
	}
	return out, f.call("table %q", q.Pool)
}

func (f *fixture) CreatePool(_ context.Context, cidr netip.Prefix, name string) (ipam.PoolStatus, bool, error) {
	for _, p := range f.st.Pools {
		if p.Pool == cidr {
			return p, false, f.call("create %v %q", cidr, name)
		}
	}
	return ipam.PoolStatus{Pool: cidr, Name: name, Origin: "operator", Size: 256, Free: 256}, true, f.call("create %v %q", cidr, name)
}

func (f *fixture) RemovePool(_ context.Context, pool string) error { return f.call("remove %s", pool) }

func (f *fixture) Reserve(_ context.Context, r ipam.ReserveRequest) (ipam.Reserving, error) {
	did := ipam.Reserving{
		Pool: prefix("10.50.0.0/24"), First: r.First, Last: r.Last, Kind: r.Kind.String(), Note: r.Note,
		Addresses: 1, Collisions: []ipam.Collision{},
	}
	if r.First != r.Last {
		did.Addresses = 7
		did.Collisions = []ipam.Collision{
			{First: ip("10.50.0.2"), Last: ip("10.50.0.2"), Why: "is held by container web (0123456789ab) on host-a since 2026-11-21 11:58 UTC"},
			{First: ip("10.50.0.4"), Last: ip("10.50.0.6"), Why: "is held by \"evil\x1b[2J\nname\" on host-a since 2026-11-18 12:00 UTC"},
		}
	}
	if f.reserving != nil {
		return ipam.Reserving{}, f.reserving
	}
	return did, f.call("reserve %q %v-%v %v %q", r.Pool, r.First, r.Last, r.Kind, r.Note)
}

func (f *fixture) Unreserve(_ context.Context, r ipam.UnreserveRequest) (ipam.Reserving, error) {
	did := ipam.Reserving{Pool: prefix("10.50.0.0/24"), First: r.First, Last: r.Last, Kind: r.Kind.String(), Collisions: []ipam.Collision{}}
	if r.First != r.Last {
		did.Addresses = 10
	}
	return did, f.call("unreserve %q %v-%v %v", r.Pool, r.First, r.Last, r.Kind)
}

func (f *fixture) Reservations(_ context.Context, pool string) ([]ipam.ReservationStatus, error) {
	return f.reservations, f.call("reservations %q", pool)
}

func (f *fixture) Check(context.Context) (ipam.Audit, error) {
	a := ipam.Audit{
		Verdict: ipam.Fine, At: now, Peer: "host-a", PeerID: "3f2a9c0d11e4", Slot: 7, Broken: append([]string{}, f.broken...), Database: []string{},
		Looked: new(now.Add(-time.Second)), Listed: 3, Held: 3, Findings: append([]ipam.Finding{}, f.findings...),
	}
	if f.unlisted {
		a.Looked, a.Listed, a.Held = nil, 0, 0
	}
	switch {
	case len(f.broken) > 0:
		a.Verdict = ipam.Failed
	case len(f.findings) > 0:
		a.Verdict = ipam.Degraded
	}
	return a, f.call("check")
}

func (f *fixture) Collect(_ context.Context, r ipam.CollectRequest) ([]ipam.Collected, error) {
	var out []ipam.Collected
	for i, found := range r.Findings {
		c := ipam.Collected{Address: found.Address, Pool: found.Pool, Outcome: ipam.CollectedFreed, Why: "the engine's lists lack it since 2026-11-21 11:58 UTC"}
		switch i {
		case 1:
			c.Outcome, c.Why = ipam.CollectedKept, "only lists of less than 20s lack it: ask again after that"
		case 2:
			c.Outcome, c.Why = ipam.CollectedFree, "nobody holds it any more"
		}
		out = append(out, c)
	}
	return out, f.call("collect %d dryRun=%v", len(r.Findings), r.DryRun)
}

// alone is one peer on one engine, with nothing wrong.
func alone() *fixture {
	self := ipam.PeerStatus{ID: "3f2a9c0d11e4", Name: "host-a", State: "active", Boot: 3, Voter: true, Reachable: true, Slot: 7}
	web := strings.Repeat("0123456789abcdef", 4)
	lab := prefix("10.50.0.0/24")
	return &fixture{
		st: ipam.Status{
			Verdict: ipam.Fine, State: ipam.Alone, Cluster: "00112233445566778899aabbccddeeff", Slot: 7, Self: self,
			Peers: []ipam.PeerStatus{self}, Voters: []string{self.ID},
			Pools: []ipam.PoolStatus{{
				Pool: lab, Name: "lab", Origin: "operator", Networks: 2, Gateway: netip.MustParseAddr("10.50.0.1"), NetworkNames: []string{"front", "lab"}, Size: 256, Held: 6, HeldHere: 6, Resting: 1, RestingHere: 1, Ready: 121, Free: 126, Reserved: 2, Mine: 122,
				Holders: []ipam.RangeStatus{
					{Start: ip("10.50.0.0"), End: ip("10.50.0.0"), Owner: "reserved", Version: 1, Kind: "network"},
					{Start: ip("10.50.0.1"), End: ip("10.50.0.128"), Owner: self.ID, Version: 3, Held: 6},
					{Start: ip("10.50.0.129"), End: ip("10.50.0.254"), Owner: "free", Version: 1},
					{Start: ip("10.50.0.255"), End: ip("10.50.0.255"), Owner: "reserved", Version: 1, Kind: "broadcast"},
				},
			}, {
				Pool: prefix("10.51.0.0/24"), Name: "spare", Origin: "operator", Size: 256, Ready: 127, Free: 127, Reserved: 2, Mine: 127,
				Holders: []ipam.RangeStatus{
					{Start: ip("10.51.0.0"), End: ip("10.51.0.0"), Owner: "reserved", Version: 1, Kind: "network"},
					{Start: ip("10.51.0.1"), End: ip("10.51.0.127"), Owner: self.ID, Version: 1},
					{Start: ip("10.51.0.128"), End: ip("10.51.0.254"), Owner: "free", Version: 1},
					{Start: ip("10.51.0.255"), End: ip("10.51.0.255"), Owner: "reserved", Version: 1, Kind: "broadcast"},
				},
			}, {
				Pool: prefix("fd00:50::/64"), Size: 1<<64 - 1, Held: 1, HeldHere: 1, Ready: 1<<63 - 1, Free: 1<<63 - 2, Reserved: 1, Mine: 1<<63 - 1,
				Chosen: true, Origin: "choice", Networks: 1, NetworkNames: []string{"web\x1b[2J"},
				Holders: []ipam.RangeStatus{
					{Start: ip("fd00:50::"), End: ip("fd00:50::"), Owner: "reserved", Version: 1, Kind: "router"},
					{Start: ip("fd00:50::1"), End: ip("fd00:50::8000:0:0:0"), Owner: self.ID, Version: 2, Held: 1},
					{Start: ip("fd00:50::8000:0:0:1"), End: ip("fd00:50::ffff:ffff:ffff:fffe"), Owner: "free", Version: 1},
				},
			}},
			Networks: []ipam.NetStatus{
				{ID: "ringlet1/local/10.50.0.0/24?pool=lab", Pool: lab, Range: lab, Count: 2},
				{ID: "ringlet1/local/fd00:50::/64", Pool: prefix("fd00:50::/64"), Range: prefix("fd00:50::/64"), Count: 1},
			},
		},
		stories: stories(lab, web), about: wellAbout(),
		reservations: []ipam.ReservationStatus{
			{Pool: lab, PoolName: "lab", First: ip("10.50.0.0"), Last: ip("10.50.0.0"), Addresses: 1, Kind: "network address"},
			{Pool: lab, PoolName: "lab", First: ip("10.50.0.10"), Last: ip("10.50.0.19"), Addresses: 10, Kind: "excluded", Note: "printers and the coffee machine\x1b"},
			{Pool: lab, PoolName: "lab", First: ip("10.50.0.20"), Last: ip("10.50.0.20"), Addresses: 1, Kind: "kept for a name", Note: "db"},
			{Pool: lab, PoolName: "lab", First: ip("10.50.0.21"), Last: ip("10.50.0.21"), Addresses: 1, Kind: "kept for a name", Note: "02:42:0a:32:00:15", Peer: "host-a"},
			{Pool: prefix("fd00:50::/64"), First: ip("fd00:50::8000:0:0:0"), Last: ip("fd00:50::ffff:ffff:ffff:fffe"), Addresses: 1<<63 - 1, Kind: "excluded"},
		},
		list: []ipam.AddressStatus{
			{Address: ip("10.50.0.0"), Pool: lab, State: "reserved", Kind: "network"},
			{Address: ip("10.50.0.1"), Pool: lab, Peer: "host-a", State: "gateway", Kind: "gateway", Since: now.Add(-26 * time.Hour)},
			{Address: ip("10.50.0.2"), Pool: lab, Peer: "host-a", State: "held", Kind: "container", Container: web, Name: "web", MAC: "02:42:0a:32:00:02", Since: now.Add(-2 * time.Minute)},
			{Address: ip("10.50.0.3"), Pool: lab, Peer: "host-a", State: "held", Kind: "client", Name: "printer-3", Since: now.Add(-90 * time.Second)},
			{Address: ip("10.50.0.4"), Pool: lab, Peer: "host-a", State: "held", Kind: "client", Name: "evil\x1b[2J\nname", Since: now.Add(-72 * time.Hour)},
			{Address: ip("10.50.0.5"), Pool: lab, Peer: "host-a", State: "resting", Kind: "container", Container: web, Name: "batch", MAC: "02:42:0a:32:00:05", Since: now.Add(-5 * time.Second)},
			{Address: ip("10.50.0.6"), Pool: lab, Peer: "host-a", State: "ready", Kind: "container", Container: web, Name: "old web", MAC: "02:42:0a:32:00:06", Since: now.Add(-3 * time.Hour)},
			{Address: ip("10.50.0.7"), Pool: lab, Peer: "host-a", State: "held", Kind: "unmarked", MAC: "02:42:0a:32:00:07", Since: now.Add(-4 * time.Second)},
			{Address: ip("10.50.0.128"), Pool: lab, Peer: "host-a", State: "host", Kind: "host", Since: now.Add(-26 * time.Hour)},
			{Address: ip("10.50.0.255"), Pool: lab, State: "reserved", Kind: "broadcast"},
			{Address: ip("fd00:50::2"), Pool: prefix("fd00:50::/64"), Peer: "host-a", State: "held", Kind: "container", Container: web, Name: "web", MAC: "02:42:0a:32:00:02", Since: now.Add(-2 * time.Minute)},
		},
	}
}

// troubled is one peer of several, with all that can be seen of peers and in a
// pool.
func troubled() *fixture {
	f := alone()
	f.stories = nil
	f.st.Verdict, f.st.State = ipam.Degraded, ipam.CutOff
	f.st.Peers = append(f.st.Peers,
		ipam.PeerStatus{
			ID: "77aa00bb11cc", Name: "host-b.a-rather-long-domain.example.org", State: "draining", Boot: 1, Voter: true,
			Slot: 4, Address: "192.168.1.11:7950", Heard: now.Add(-40 * time.Second),
		},
		ipam.PeerStatus{ID: "88dd00ee11ff", Name: "host-c", State: "filling", Boot: 9, Reachable: true, Slot: 8, Address: "[fd00::12]:7950", Heard: now},
		ipam.PeerStatus{ID: "99ff", Name: "host-d", State: "evicted", Boot: 2, Slot: 3, Heard: now.Add(-3 * time.Hour)},
		ipam.PeerStatus{ID: "aa11", Name: "host-e", State: "active", Boot: 1, Voter: true},
	)
	f.st.Voters = append(f.st.Voters, "77aa00bb11cc", "aa11")
	f.st.Pools = []ipam.PoolStatus{{
		Pool: prefix("10.60.0.0/26"), Origin: "network", Size: 64, Held: 20, HeldHere: 10, Resting: 2, RestingHere: 2, Ready: 26, Free: 8, Reserved: 2, Quarantined: 6, Mine: 10,
		Holders: []ipam.RangeStatus{
			{Start: ip("10.60.0.0"), End: ip("10.60.0.0"), Owner: "reserved", Version: 1, Kind: "network"},
			{Start: ip("10.60.0.1"), End: ip("10.60.0.20"), Owner: "3f2a9c0d11e4", Version: 3, Held: 10},
			{Start: ip("10.60.0.21"), End: ip("10.60.0.40"), Owner: "77aa00bb11cc", Version: 5},
			{Start: ip("10.60.0.41"), End: ip("10.60.0.48"), Owner: "88dd00ee11ff", Version: 2},
			{Start: ip("10.60.0.49"), End: ip("10.60.0.52"), Owner: "99ff", Version: 2},
			{Start: ip("10.60.0.53"), End: ip("10.60.0.54"), Owner: "55ee", Version: 2}, // of a peer that nobody knows
			{Start: ip("10.60.0.55"), End: ip("10.60.0.62"), Owner: "free", Version: 1},
			{Start: ip("10.60.0.63"), End: ip("10.60.0.63"), Owner: "reserved", Version: 1, Kind: "broadcast", Note: "for the fire alarm"},
		},
	}}
	f.st.Networks = nil
	f.st.Problems = []ipam.Problem{{
		Code: "conflict", Level: "failed",
		Text: "container web (0123456789ab) uses 10.60.0.5, which is held by \"printer-3\" on host-a since 2026-11-21 09:00 UTC",
		Next: "stop that container, or remove the other holder",
	}, {
		Code: "broken-invariant", Level: "failed", Text: "I5: 10.60.0.9 is held, and the ring does not give it to this peer",
		Next: "keep the database, and report what ringlet check says",
	}}
	return f
}

// serve answers for the backend on a unix socket until the test ends, and
// returns its path.
func serve(t *testing.T, b admin.Backend) string {
	t.Helper()
	cfg := admin.Config{Backend: b}
	if p, ok := b.(admin.Process); ok {
		cfg.Process = p
	}
	return serveConfig(t, cfg)
}

// serveConfig is serve for an API with more than a backend.
func serveConfig(t *testing.T, cfg admin.Config) string {
	t.Helper()
	cfg.Logger = slog.New(slog.DiscardHandler)
	s, err := admin.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// result is what a run of the program left.
type result struct {
	out, err string
	code     int
}

// ringlet runs the program.
func ringlet(t *testing.T, cfg Config, args ...string) result {
	t.Helper()
	return program(t, cfg, append([]string{"/usr/local/bin/ringlet"}, args...))
}

func program(t *testing.T, cfg Config, argv []string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cfg.Version = "v1.2.3"
	cfg.Err = &errs
	if cfg.Out == nil {
		cfg.Out = &out
	}
	if cfg.Now == nil {
		cfg.Now = func() time.Time { return now }
	}
	if cfg.Getenv == nil {
		cfg.Getenv = func(string) string { return "" }
	}
	code := Execute(t.Context(), cfg, argv)
	return result{out.String(), errs.String(), code}
}
