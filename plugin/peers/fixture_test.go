package peers

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/plugintest"
)

// fixture is what a peer said of itself before it ended: testdata/a1d9fa3/NAME.json. make.sh beside it says how the
// databases were made, by the binary of that commit.
type fixture struct {
	Self         string
	Networks     []string
	Reservations []ipam.ReservationStatus
	Holders      []struct {
		Address              netip.Addr
		Container, Name, MAC string
	}
}

// layOut writes the database of a fixture, and its log where one was left, into dir.
func layOut(t *testing.T, name, dir string) fixture {
	t.Helper()
	kept := filepath.Join("testdata", "a1d9fa3", name)
	for suffix, file := range map[string]string{".db.gz": plugintest.Database, ".wal.gz": plugintest.Database + ".wal"} {
		packed, err := os.ReadFile(kept + suffix)
		if os.IsNotExist(err) && suffix == ".wal.gz" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), unpack(t, packed), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(kept + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var f fixture
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	if len(f.Networks) < 2 || len(f.Holders) < 4 || len(f.Reservations) < 2 {
		t.Fatalf("the fixture %s has too little: %+v", name, f)
	}
	return f
}

// A cluster of three whose databases the binary of commit a1d9fa3 wrote, one of them killed, starts again: each peer has
// the networks, reservations and holders that it had, and hands out none of those addresses.
func TestClusterOfCommitA1d9fa3(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: memnet.New(), change: func(_ int, cfg *ipam.Config) { cfg.Join = true }}
		dirs := [3]string{t.TempDir(), t.TempDir(), t.TempDir()} // removed after the hosts have ended
		t.Cleanup(func() {
			for _, h := range c.hosts {
				h.end()
				if err := persist.CheckFile(filepath.Join(h.dir, plugintest.Database)); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(2 * time.Minute) // memberlist's last goroutines end some time after its shutdown
		})
		join := []string{hostAddr(1).String(), hostAddr(2).String(), hostAddr(3).String()}
		var had []fixture
		taken := map[netip.Addr]bool{}
		for i, name := range []string{"three-a", "three-b", "three-c"} {
			had = append(had, layOut(t, name, dirs[i]))
			c.startIn(dirs[i], i+1, join)
			for _, holder := range had[i].Holders {
				taken[holder.Address] = true
			}
		}
		c.until(time.Minute, "ready", func() bool {
			return !slices.ContainsFunc(c.hosts, func(h *clusterHost) bool { return c.status(h).State != ipam.Ready || len(c.status(h).Peers) != 3 })
		})
		for i, h := range c.hosts {
			holds(t, h, had[i])
			lan, err := poolid.Parse(ipam.PoolID(had[i].Networks[0]))
			if err != nil {
				t.Fatal(err)
			}
			g, err := h.RequestAddress(t.Context(), ipam.AddressRequest{Network: lan, Purpose: ipam.ForContainer, Name: "new"})
			if err != nil {
				t.Fatal(err)
			}
			if taken[g.Address.Addr()] {
				t.Errorf("%v was handed out, and a container has it", g.Address)
			}
			taken[g.Address.Addr()] = true
		}
	})
}

// A lone peer's database of commit a1d9fa3, beside a real engine with containers, opens with all that it had.
func TestLonePeerOfCommitA1d9fa3(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: memnet.New()}
		dir := t.TempDir()
		t.Cleanup(func() {
			for _, h := range c.hosts {
				h.end()
			}
			time.Sleep(2 * time.Minute) // as above
		})
		had := layOut(t, "lone", dir)
		holds(t, c.startIn(dir, 1, nil), had)
	})
}

// holds compares what a peer has with what it had.
func holds(t *testing.T, h *clusterHost, had fixture) {
	t.Helper()
	st, err := h.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if st.Self.ID != had.Self {
		t.Errorf("the peer is %s, was %s", st.Self.ID, had.Self)
	}
	var networks []string
	for _, n := range st.Networks {
		networks = append(networks, string(n.ID))
	}
	slices.Sort(networks)
	if diff := cmp.Diff(had.Networks, networks); diff != "" {
		t.Errorf("networks (-had +has):\n%s", diff)
	}
	kept, err := h.Reservations(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range had.Reservations {
		if !slices.ContainsFunc(kept, func(k ipam.ReservationStatus) bool {
			return k.First == r.First && k.Last == r.Last && k.Kind == r.Kind && k.Note == r.Note
		}) {
			t.Errorf("the reservation %v-%v %s %q is lost, of %+v", r.First, r.Last, r.Kind, r.Note, kept)
		}
	}
	for _, was := range had.Holders {
		a, err := h.Who(t.Context(), was.Address)
		if err != nil {
			t.Fatal(err)
		}
		if a.State != "held" || a.Container != was.Container || a.Name != was.Name || a.MAC != was.MAC {
			t.Errorf("%v is now %+v, was held by %+v", was.Address, a, was)
		}
	}
	if audit, err := h.Check(t.Context()); err != nil || len(audit.Broken)+len(audit.Database) > 0 {
		t.Errorf("the check says %+v, %v", audit, err)
	}
}
