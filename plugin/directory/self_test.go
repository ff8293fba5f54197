package directory

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// A peer is told of however many pools it has ranges in: first of fewer ranges, then of
// fewer pools, with how many others there are.
func TestPeerWithManyPools(t *testing.T) {
	for _, c := range []struct {
		pools, ranges int
		all           bool // all pools are told, with some of their ranges
	}{{3, 5, true}, {20, 100, true}, {600, 3, true}, {2_000, 3, false}, {50_000, 1, false}} {
		d, err := New(Config{
			Self: hostA, Cluster: "test", Source: full{}, Log: events.New(1, 0, 0),
			About: func() Node { return Node{Address: "192.0.2.1:7950"} }, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		st := ipam.Status{State: ipam.Ready}
		for i := range c.pools {
			p := ipam.PoolStatus{Pool: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)}
			for range c.ranges {
				p.Holders = append(p.Holders, ipam.RangeStatus{Owner: d.cfg.Self.ID.String(), Start: p.Pool.Addr(), End: p.Pool.Addr()})
			}
			st.Pools = append(st.Pools, p)
		}
		p := &publisher{Directory: d, services: newServices(d.cfg, d.containers)}
		p.self(&st, time.Now())
		items := d.Get(NodeKeys("test") + "host-a")
		if len(items) != 1 {
			t.Fatalf("%+v: %d records", c, len(items))
		}
		var n Node
		if err := json.Unmarshal(items[0].Value, &n); err != nil {
			t.Fatal(err)
		}
		if len(items[0].Value) > replica.MaxValue || len(n.Pools)+n.More != c.pools || (n.More == 0) != c.all || len(n.Pools) == 0 {
			t.Errorf("%+v: %d bytes with %d pools, and %d more", c, len(items[0].Value), len(n.Pools), n.More)
		}
		for _, pool := range n.Pools {
			if len(pool.Ranges)+pool.More != c.ranges {
				t.Fatalf("%+v: %v has %d ranges, and %d more", c, pool.Pool, len(pool.Ranges), pool.More)
			}
		}
	}
}

// A peer says which decision it has applied and where its host is, and of an address
// on which Docker networks it may be.
func TestRealisedState(t *testing.T) {
	all := make([]NodeAddress, maxAddresses+1)
	for i := range all {
		all[i] = NodeAddress{Address: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), Family: "ipv4", Kind: "host"}
	}
	log := events.New(1, 0, 0)
	d, err := New(Config{
		Self: hostA, Cluster: "test", Source: full{held: 1}, Log: log, Logger: slog.New(slog.DiscardHandler),
		About:    func() Node { return Node{Addresses: all} },
		Networks: func(netip.Prefix) []string { return []string{"front", "lab"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &publisher{Directory: d, now: map[netip.Addr]Address{}, services: newServices(d.cfg, d.containers)}
	p.self(&ipam.Status{State: ipam.Ready, Slot: 42}, time.Now())
	var n Node
	if err := json.Unmarshal(d.Get(NodeKeys("test") + "host-a")[0].Value, &n); err != nil {
		t.Fatal(err)
	}
	if n.Slot != 42 || len(n.Addresses) != maxAddresses || n.Addresses[0] != all[0] {
		t.Errorf("slot %d and %d addresses are told", n.Slot, len(n.Addresses))
	}
	if err := p.compareAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.Holdings(netip.AddrFrom4([4]byte{10, 0, 0, 0})); len(got) != 1 || got[0].Network != "front,lab" {
		t.Errorf("the address is told as %+v", got)
	}
}
