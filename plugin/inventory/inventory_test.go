package inventory

import (
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// What the engine said reaches the node whole, also when it did not say all;
// what could not be read of it is no subnet.
func TestInventoryIsTranslated(t *testing.T) {
	subnet, router, printer := netip.MustParsePrefix("10.50.0.0/24"), netip.MustParseAddr("10.50.0.1"), netip.MustParseAddr("10.50.0.5")
	in := dockerd.Inventory{
		Begun: time.Unix(1, 0),
		Networks: []dockerd.Network{{
			ID: "n1", Name: "net",
			Subnets: []dockerd.Subnet{{Prefix: subnet, Gateway: router, Aux: []netip.Addr{printer}}, {}},
			Endpoints: []dockerd.Endpoint{
				{Container: "c1", Name: "web", MAC: "02:42:0a:01:00:09", Addresses: []netip.Prefix{netip.MustParsePrefix("10.50.0.9/24"), netip.MustParsePrefix("fd00::9/64")}},
				{Container: "c2", Name: "starting"},
			},
		}},
	}
	mac := ipam.MAC{2, 0x42, 0x0a, 1, 0, 9}
	want := ipam.Inventory{
		Partial: true,
		Networks: []ipam.InventoryNetwork{{
			ID: "n1", Name: "net", Subnets: []netip.Prefix{subnet}, Gateways: []netip.Addr{router}, Auxiliary: []netip.Addr{printer},
			Endpoints: []ipam.InventoryEndpoint{
				{Address: netip.MustParseAddr("10.50.0.9"), Container: "c1", Name: "web", MAC: mac},
				{Address: netip.MustParseAddr("fd00::9"), Container: "c1", Name: "web", MAC: mac},
			},
		}},
	}
	for _, complete := range []bool{false, true} {
		in.Complete, want.Partial = complete, !complete
		if diff := cmp.Diff(want, translate(in), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{}, ipam.Mark{})); diff != "" {
			t.Errorf("complete=%v: -want +got:\n%s", complete, diff)
		}
	}
}
