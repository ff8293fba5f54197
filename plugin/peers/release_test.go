package peers

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// The database of a host of the first release is opened, says what it said, and
// is served from: the host, whose cluster is lost, goes on alone with all that
// its containers have.
func TestDatabaseOfTheFirstRelease(t *testing.T) {
	kept := golden.Kept(t, "v1/ringlet.db.gz", func() []byte { return pack(t, writeRelease(t)) })
	path := filepath.Join(t.TempDir(), plugintest.Database)
	if err := os.WriteFile(path, unpack(t, kept), 0o600); err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		store := openRelease(t, path)
		defer store.Close()
		says := describe(t, store)
		golden.Check(t, "v1/ringlet.txt", []byte(says))

		n, err := node.New(node.Config{Machine: releaseConfig(), Store: store, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(time.Minute) // to know that the others do not answer
		if err := n.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			g, err := n.RequestAddress(ctx, ipam.AddressRequest{Network: releaseNetwork, Purpose: ipam.ForContainer, Name: fmt.Sprint("new-", i)})
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(says, "address "+g.Address.Addr().String()+" held") || strings.Contains(says, "address "+g.Address.Addr().String()+" reserved") {
				t.Errorf("%v was handed out, and the database has it", g.Address)
			}
		}
		if audit, err := n.Check(ctx); err != nil || len(audit.Broken)+len(audit.Database) > 0 {
			t.Errorf("the check says %+v, %v", audit, err)
		}
	})
	if err := persist.CheckFile(path); err != nil {
		t.Error(err)
	}
}

// releaseConfig is that of the host whose database is kept.
func releaseConfig() ipam.Config {
	return ipam.Config{Name: "host-1", Machine: 1, Marks: ipam.Marks{Label: "ringlet"}, Rand: rand.New(rand.NewPCG(1, 2))}
}

// releaseNetwork is the network that the kept database has most of.
var releaseNetwork = ipam.Network{
	Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/24"), Range: netip.MustParsePrefix("10.50.0.0/24"),
	Gateway: ipam.GatewayFirst, PoolName: "lab",
}

// writeRelease returns a database that has at least one of all that this
// release writes down: of a host that founded a cluster with two others, one
// more of which was evicted, and that crashed with commands undecided.
func writeRelease(t *testing.T) (database []byte) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		c := found(&cluster{t: t, net: memnet.New(), change: func(host int, cfg *ipam.Config) {
			cfg.Machine, cfg.HostBoot.ID, cfg.Place = uint64(host), fmt.Sprint("boot of host-", host), "a file"
		}}, 4)
		w := writer{t, c.hosts[0].Node}
		w.networks(c.hosts[1].Node)
		w.addresses()

		c.hosts[3].end()
		c.until(time.Minute, "unreachable", func() bool {
			return slices.ContainsFunc(c.status(c.hosts[0]).Peers, func(p ipam.PeerStatus) bool { return p.Name == "host-4" && !p.Reachable })
		})
		w.must(w.Evict(t.Context(), "host-4"))
		c.hosts[1].end()
		c.hosts[2].end()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		mine := w.last()
		if r, err := w.Reserve(ctx, ipam.ReserveRequest{First: mine, Last: mine, Kind: chronicle.KindExcluded, Note: "undecided"}); err == nil {
			t.Errorf("one host of three has decided %+v", r)
		}
		c.hosts[0].end()
		var err error
		if database, err = os.ReadFile(filepath.Join(c.hosts[0].dir, plugintest.Database)); err != nil {
			t.Fatal(err)
		}
	})
	return database
}

// writer asks a host for whatever there is.
type writer struct {
	t *testing.T
	*node.Node
}

func (w writer) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w writer) network(r ipam.PoolRequest) ipam.Network {
	w.t.Helper()
	g, err := w.RequestPool(w.t.Context(), r)
	w.must(err)
	return g.Network
}

func (w writer) address(r ipam.AddressRequest) ipam.AddressGrant {
	w.t.Helper()
	g, err := w.RequestAddress(w.t.Context(), r)
	w.must(err)
	return g
}

// networks makes one of each kind, on this host and on another.
func (w writer) networks(other *node.Node) {
	w.t.Helper()
	for _, on := range []writer{w, {w.t, other}} {
		lab := on.network(ipam.PoolRequest{Space: ipam.Local, Pool: releaseNetwork.Pool, Gateway: ipam.GatewayFirst, PoolName: "lab"})
		if lab != releaseNetwork {
			w.t.Fatalf("got the network %+v, want %+v", lab, releaseNetwork)
		}
		on.network(ipam.PoolRequest{Space: ipam.Local, Sticky: ipam.StickyMAC})
	}
	w.network(ipam.PoolRequest{Space: ipam.Local, Pool: releaseNetwork.Pool, Range: netip.MustParsePrefix("10.50.0.128/26"), Gateway: ipam.GatewayFirst, PoolName: "lab", Probe: ipam.ProbeARP})
	six := w.network(ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("fd00:50::/64"), V6: true})
	w.address(ipam.AddressRequest{Network: six, Purpose: ipam.ForGateway})
	w.address(ipam.AddressRequest{Network: six, Purpose: ipam.ForContainer, Name: "web"})
	_, _, err := w.CreatePool(w.t.Context(), netip.MustParsePrefix("10.51.0.0/26"), "by-hand")
	w.must(err)
}

// addresses has them held in every way, and kept back.
func (w writer) addresses() {
	w.t.Helper()
	ctx := w.t.Context()
	w.address(ipam.AddressRequest{Network: releaseNetwork, Purpose: ipam.ForUnmarked, Address: netip.MustParseAddr("10.50.0.250")})
	var listed []ipam.InventoryEndpoint
	for i, name := range []string{"web", "db", "left"} {
		g := w.address(ipam.AddressRequest{Network: releaseNetwork, Purpose: ipam.ForContainer, Name: name, MAC: ipam.MAC{2, 0xaa, 0, 0, 0, byte(i)}})
		listed = append(listed, ipam.InventoryEndpoint{Address: g.Address.Addr(), Container: strings.Repeat(fmt.Sprint(i), 64), Name: name, MAC: ipam.MAC{2, 0xaa, 0, 0, 0, byte(i)}})
	}
	mark, err := w.Mark(ctx)
	w.must(err)
	_, err = w.Inventory(ctx, ipam.Inventory{After: mark, Networks: []ipam.InventoryNetwork{{ID: "n1", Name: "lan", Subnets: []netip.Prefix{releaseNetwork.Pool}, Endpoints: listed}}})
	w.must(err)
	w.must(w.ReleaseAddress(ctx, releaseNetwork, listed[2].Address))
	_, err = w.Client(ctx, ipam.ClientRequest{Pool: "lab", ID: "vm-1"})
	w.must(err)
	probed := w.address(ipam.AddressRequest{Network: releaseNetwork, Purpose: ipam.ForContainer, Name: "probed"})
	w.must(w.Stranger(ctx, probed.Ticket, ipam.MAC{2, 0xbb}))
	for _, r := range []ipam.ReserveRequest{
		{First: netip.MustParseAddr("10.50.0.200"), Last: netip.MustParseAddr("10.50.0.209"), Kind: chronicle.KindExcluded, Note: "printers"},
		{First: netip.MustParseAddr("10.50.0.220"), Last: netip.MustParseAddr("10.50.0.220"), Kind: chronicle.KindKeptForName, Note: "queue"},
		{First: netip.MustParseAddr("10.50.0.221"), Last: netip.MustParseAddr("10.50.0.221"), Kind: chronicle.KindKeptForName, Note: "later"},
	} {
		_, err = w.Reserve(ctx, r)
		w.must(err)
	}
	if g := w.address(ipam.AddressRequest{Network: releaseNetwork, Purpose: ipam.ForContainer, Name: "queue"}); g.Address.Addr() != netip.MustParseAddr("10.50.0.220") {
		w.t.Errorf("the container queue has %v, not what is kept for it", g.Address)
	}
}

// last returns the last address of the host's space in the pool of the network.
func (w writer) last() netip.Addr {
	w.t.Helper()
	st, err := w.Status(w.t.Context())
	w.must(err)
	var last netip.Addr
	for _, p := range st.Pools {
		for _, r := range p.Holders {
			if p.Pool == releaseNetwork.Pool && r.Owner == st.Self.ID && r.Start != r.End { // one address is borrowed
				last = r.End
			}
		}
	}
	return last
}

func openRelease(t *testing.T, path string) *persist.Store {
	t.Helper()
	store, err := persist.Open(persist.Config{Path: path, Schema: ipam.SchemaVersion, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// describe says what a database holds, as this release understands it: which
// records there are, and what the machine makes of them.
func describe(t *testing.T, store *persist.Store) string {
	t.Helper()
	var b strings.Builder
	records := map[string]int{}
	if err := store.Load(func(bucket string, key, _ []byte) error {
		switch bucket {
		case "identity":
			bucket += " " + string(key)
		case "chronicle":
			bucket += fmt.Sprintf(" %x", key[0])
		}
		records[bucket]++
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, bucket := range slices.Sorted(maps.Keys(records)) {
		fmt.Fprintf(&b, "records %s: %d\n", bucket, records[bucket])
	}
	m, err := ipam.Restore(releaseConfig(), store.Load)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.State().Check(); err != nil {
		t.Error(err)
	}
	now := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC) // in the bubble in which it was written
	st := m.Status(now)
	fmt.Fprintf(&b, "cluster %s, slot %d with digest %x\n", st.Cluster, st.Slot, m.State().Digest())
	for _, p := range m.State().Roster {
		fmt.Fprintf(&b, "peer %s %s machine %d boot %d: %v\n", p.ID, p.Name, p.Machine, p.Boot, p.Phase)
	}
	for _, p := range m.State().Former {
		fmt.Fprintf(&b, "peer %s %s: evicted in slot %d\n", p.ID, p.Name, p.Evicted)
	}
	for _, n := range st.Networks {
		fmt.Fprintf(&b, "network %s: %d\n", n.ID, n.Count)
	}
	for _, p := range st.Pools {
		fmt.Fprintf(&b, "pool %v %q: size %d, free %d, reserved %d, quarantined %d, mine %d, held here %d, resting here %d\n",
			p.Pool, p.Name, p.Size, p.Free, p.Reserved, p.Quarantined, p.Mine, p.HeldHere, p.RestingHere)
		for _, r := range p.Holders {
			fmt.Fprintf(&b, "  %v-%v %s version %d: %d held %s %s\n", r.Start, r.End, r.Owner, r.Version, r.Held, r.Kind, r.Note)
		}
	}
	kept, err := m.Reservations("")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range kept {
		fmt.Fprintf(&b, "reservation %v-%v %s %q %s\n", r.First, r.Last, r.Kind, r.Note, r.Peer)
	}
	all, err := m.Addresses(now, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		fmt.Fprintf(&b, "address %v %s %s container %.12s name %q MAC %s since %s\n", a.Address, a.State, a.Kind, a.Container, a.Name, a.MAC, a.Since.UTC().Format(time.RFC3339))
	}
	usable := false
	for a := releaseNetwork.Pool.Addr(); releaseNetwork.Pool.Contains(a); a = a.Next() {
		if now := m.MayHandOut(releaseNetwork.Pool, a); now != usable {
			usable = now
			fmt.Fprintf(&b, "from %v on may be handed out: %t\n", a, usable)
		}
	}
	return b.String()
}

func pack(t *testing.T, database []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := z.Write(database); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpack(t *testing.T, packed []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	database, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return database
}
