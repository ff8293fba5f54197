package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// sameText compares subnets and addresses.
var sameText = cmp.Options{
	cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
}

// decidedOn has an operator decide something on a host, and returns it.
func decidedOn(t *testing.T, h *machinetest.Host) ipam.Decided {
	t.Helper()
	for _, r := range []ipam.Request{
		&ipam.PoolCreation{CIDR: prefix("10.50.0.0/24"), Name: "lab"},
		&ipam.PoolCreation{CIDR: prefix("fd00:50::/64")},
		&ipam.ReserveRequest{First: address("10.50.0.1"), Last: address("10.50.0.9"), Kind: chronicle.KindExcluded, Note: "printers"},
		&ipam.ReserveRequest{First: address("10.50.0.20"), Last: address("10.50.0.20"), Kind: chronicle.KindKeptForName, Note: "db"},
		&ipam.ReserveRequest{First: address("fd00:50::1"), Last: address("fd00:50::ff"), Kind: chronicle.KindExcluded},
	} {
		if reply := h.Call(r); reply.Err != nil {
			t.Fatal(reply.Err)
		}
	}
	network(t, h, "10.51.0.0/24") // which makes its pool again
	n := network(t, h, "10.52.0.0/24")
	if reply := h.Call(&ipam.ReserveRequest{First: address("10.52.0.1"), Last: address("10.52.0.3"), Kind: chronicle.KindExcluded}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if got := run(t, h, n, "one"); got != address("10.52.0.4") {
		t.Fatalf("it got %v", got)
	}
	d := h.Machine().Decided()
	if len(d.Pools) != 3 || d.Pools[0].Name != "lab" || len(d.Pools[0].Reserved) != 2 || len(d.Pools[1].Reserved) != 1 || d.Peers != 1 {
		t.Fatalf("decided is %+v", d)
	}
	return d
}

// A host that has lost its database founds its cluster with what people had decided: from the first request on nobody gets
// what is excluded, whether the engine's list has come or not.
func TestDecidedOutlivesTheDatabase(t *testing.T) {
	for _, lists := range []bool{false, true} {
		was := decidedOn(t, machinetest.NewHost(t, ipam.Config{}))
		h := machinetest.NewHost(t, ipam.Config{Decided: &was, AwaitInventory: lists})
		h.Call(&ipam.Greeting{})
		is := h.Machine().Decided()
		if is.Slot == 0 {
			t.Errorf("it is at slot %d of cluster %x", is.Slot, is.Cluster)
		}
		if diff := cmp.Diff(was.Pools, is.Pools, sameText); diff != "" {
			t.Errorf("pools (-had +has):\n%s", diff)
		}
		n := network(t, h, "10.52.0.0/24")
		if lists {
			h.Call(&ipam.Inventory{Networks: []ipam.InventoryNetwork{{ID: "n", Name: "net", Subnets: []netip.Prefix{prefix("10.52.0.0/24")}}}})
		}
		if got := run(t, h, n, "one"); got != address("10.52.0.4") {
			t.Errorf("it got %v", got)
		}
		lab := network(t, h, "10.50.0.0/24")
		if got := run(t, h, lab, "db"); got != address("10.50.0.20") {
			t.Errorf("db got %v", got)
		}
		if err := h.Machine().Check(h.Now); err != nil {
			t.Error(err)
		}
		h.Restart()
		if diff := cmp.Diff(was.Pools, h.Machine().Decided().Pools, sameText); diff != "" {
			t.Errorf("pools after a restart (-had +has):\n%s", diff)
		}
	}
}

// A host that joins a cluster learns what is decided there, and brings nothing with it.
func TestDecidedElsewhereCounts(t *testing.T) {
	was := decidedOn(t, machinetest.NewHost(t, ipam.Config{}))
	c, _ := lab(t)
	before := c.peers[0].machine.Decided()
	c.reinstall(2, func(cfg *ipam.Config) {
		cfg.Formation, cfg.Join, cfg.Decided = ipam.Formation{}, true, &was
	})
	c.run(time.Minute, c.agreed)
	is := c.peers[2].machine.Decided()
	if is.Cluster != before.Cluster {
		t.Fatalf("it is in cluster %x", is.Cluster)
	}
	if diff := cmp.Diff(before.Pools, is.Pools, sameText); diff != "" {
		t.Errorf("pools (-of the cluster +has):\n%s", diff)
	}
}
