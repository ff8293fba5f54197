package decided

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/decisions"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// decides is a node in a cluster.
type decides struct{ now ipam.Decided }

func (d *decides) Decided(_ context.Context, since ipam.Decided) (*ipam.Decided, error) {
	if d.now.Cluster == since.Cluster && d.now.Slot == since.Slot {
		return nil, nil // as the node does
	}
	now := d.now
	return &now, nil
}

// That the decisions were read from the file is noted for a day. Nothing needs to be done about it.
func TestDecidedIsNotedForADay(t *testing.T) {
	t.Parallel()
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		f := decisions.File{Lost: time.Now()}
		if err := f.Write(filepath.Join(dir, decisions.FileName)); err != nil {
			t.Fatal(err)
		}
		d, err := Open(dir, "host-a", "devel", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if p, wrong := d.Problem(); !wrong || p.Level != string(ipam.Fine) || !strings.Contains(p.Next, "this note ends by itself after a day") {
			t.Errorf("the status notes %+v", p)
		}
		time.Sleep(24 * time.Hour)
		if p, wrong := d.Problem(); wrong {
			t.Errorf("a day later the status notes %+v", p)
		}
	})
}

// A host has lost its database and the file with what operators decided: nothing new is handed out on a LAN, also after the
// next start, until an operator says so. Networks that are private to the host go on, and so does a host that is new.
func TestDecidedIsLost(t *testing.T) {
	t.Parallel()
	lan, private, unknown := netip.MustParsePrefix("192.168.1.0/24"), netip.MustParsePrefix("10.9.0.0/24"), netip.MustParsePrefix("10.10.0.0/24")
	network := func(driver string, subnet netip.Prefix) dockerd.Network {
		return dockerd.Network{Name: "net-" + driver, Driver: driver, Subnets: []dockerd.Subnet{{Prefix: subnet}}}
	}
	list := []dockerd.Network{network("bridge", private), network("macvlan", lan)}
	open := func(dir string, n *decides, fresh, awaits bool) *Keeper {
		t.Helper()
		d, err := Open(dir, "host-a", "devel", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		d.Of(t.Context(), n, fresh, awaits)
		return d
	}
	refuses := func(when string, d *Keeper, want bool, pools ...netip.Prefix) {
		t.Helper()
		for _, pool := range pools {
			if got := d.RefusesRequest(&ipam.AddressRequest{Purpose: ipam.ForContainer, Network: ipam.Network{Pool: pool}}); (got != nil) != want {
				t.Errorf("%s: %v: %v", when, pool, got)
			}
		}
		if got := d.RefusesRequest(&ipam.AddressRequest{Purpose: ipam.ForUnmarked, Network: ipam.Network{Pool: lan}}); got != nil {
			t.Errorf("%s: what the engine asks for again: %v", when, got)
		}
	}
	alone := &decides{ipam.Decided{Cluster: [16]byte{1}, Slot: 4, Peers: 1}}

	dir := t.TempDir()
	d := open(dir, alone, true, true)
	refuses("before the first list", d, true, lan, unknown)
	if p, wrong := d.Problem(); wrong {
		t.Errorf("before the first list: %+v", p)
	}
	d.See(list)
	for range 2 {
		refuses("with a LAN", d, true, lan, unknown)
		refuses("with a LAN", d, false, private)
		if p, wrong := d.Problem(); !wrong || p.Level != string(ipam.Failed) || !strings.Contains(p.Text, "net-macvlan") || !strings.Contains(p.Next, "ringlet trust") {
			t.Errorf("the status says %+v", p)
		}
		d = open(dir, alone, false, true)
		d.See(nil) // also where the network was removed meanwhile
		refuses("without the network", d, true, lan)
		d.See(list)
	}
	if err := d.Trust(); err != nil {
		t.Fatal(err)
	}
	refuses("trusted", d, false, lan, private, unknown)
	if p, wrong := d.Problem(); wrong {
		t.Errorf("trusted: %+v", p)
	}
	refuses("trusted and started again", open(dir, alone, false, true), false, lan)

	d = open(t.TempDir(), alone, true, true)
	d.See(list[:1])
	refuses("on a new host", d, false, lan, private, unknown)
	for _, lost := range []bool{false, true} {
		seeks := &decides{} // it lists before it has a cluster
		d = open(t.TempDir(), seeks, true, true)
		if d.See(list[:1]); lost {
			d = open(t.TempDir(), seeks, true, true)
			d.See(list)
		}
		seeks.now = alone.now
		d.Save(t.Context())
		d.See(list) // with a LAN that is new, unless the database was lost
		refuses(fmt.Sprintf("with a list before the cluster, lost %v", lost), d, lost, lan)
	}
	d = open(t.TempDir(), alone, true, false)
	// A later start than the first founds the cluster, since an operator says so.
	later, err := Open(t.TempDir(), "host-a", "devel", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	later.Founded()
	later.Of(t.Context(), alone, false, true)
	later.See(list)
	refuses("founded by a later start", later, true, lan)
	refuses("on a new host without the engine's socket", d, false, lan)
	d = open(t.TempDir(), &decides{ipam.Decided{Cluster: [16]byte{1}, Slot: 4, Peers: 3}}, true, true)
	refuses("in a cluster", d, false, lan)
	other := *alone
	d = open(t.TempDir(), &other, true, true)
	d.See(list)
	other.now.Cluster, other.now.Peers = [16]byte{2}, 2
	d.Save(t.Context())
	refuses("in another cluster", d, false, lan)
}
