package networks

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

func TestNetworkNames(t *testing.T) {
	four, six := netip.MustParsePrefix("10.50.0.0/24"), netip.MustParsePrefix("fd00:50::/64")
	var k Names
	if k.Of(four) != nil || k.Pools("lab") != nil {
		t.Error("it knows networks that no list has shown")
	}
	k.See(&dockerd.Inventory{Complete: true, Networks: []dockerd.Network{
		{Name: "web", Subnets: []dockerd.Subnet{{Prefix: four}}},
		{Name: "lab", Subnets: []dockerd.Subnet{{Prefix: six}, {Prefix: four}, {}}},
	}})
	k.See(&dockerd.Inventory{}) // that lacks them says nothing
	status := []ipam.PoolStatus{{Pool: four}, {Pool: netip.MustParsePrefix("10.51.0.0/24")}}
	got := k.Complete(status)
	if !reflect.DeepEqual(got[0].NetworkNames, []string{"lab", "web"}) || got[1].NetworkNames != nil || status[0].NetworkNames != nil {
		t.Errorf("%+v, of %+v", got, status)
	}
	if got := k.Pools("lab"); !reflect.DeepEqual(got, []netip.Prefix{four, six}) {
		t.Errorf("lab has %v", got)
	}
	k.See(&dockerd.Inventory{Complete: true})
	if k.Pools("lab") != nil {
		t.Error("the network is gone")
	}
}
