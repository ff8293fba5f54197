package networks

import (
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// A network on a LAN whose gateway ringlet chose is told, until it is gone. A bridge, an internal network, one with a router's
// address, and one whose gateway is an interface of the host are as they should be.
func TestNetworksWithoutARouter(t *testing.T) {
	cidr, own, typed := netip.MustParsePrefix("192.168.78.0/24"), netip.MustParseAddr("192.168.78.1"), netip.MustParseAddr("192.168.78.254")
	parent := map[string]string{"parent": "eth0"}
	network := func(change func(*dockerd.Network)) dockerd.Network {
		n := dockerd.Network{Name: "lan", Driver: "macvlan", DriverOptions: parent, Options: map[string]string{}, Subnets: []dockerd.Subnet{{Prefix: cidr}}}
		if change != nil {
			change(&n)
		}
		return n
	}
	for name, c := range map[string]struct {
		change  func(*dockerd.Network)
		gateway netip.Addr // this host's own in the pool
		onHost  bool
		want    bool
	}{
		"nobody named a router":   {nil, own, false, true},
		"ipvlan":                  {func(n *dockerd.Network) { n.Driver = "ipvlan" }, own, false, true},
		"the option by its name":  {func(n *dockerd.Network) { n.Options["gateway"] = "host" }, own, false, true},
		"an engine that shows it": {func(n *dockerd.Network) { n.Subnets[0].Gateway = own }, own, false, true},
		"two subnets":             {func(n *dockerd.Network) { n.Subnets = append(n.Subnets, n.Subnets[0]) }, own, false, true},
		"a router was named":      {nil, netip.Addr{}, false, false},
		"on this one":             {func(n *dockerd.Network) { n.Subnets[0].Gateway = typed }, own, false, false},
		"an interface has it":     {nil, own, true, false},
		"bridge":                  {func(n *dockerd.Network) { n.Driver = "bridge" }, own, false, false},
		"internal":                {func(n *dockerd.Network) { n.Internal = true }, own, false, false},
		"no parent":               {func(n *dockerd.Network) { n.DriverOptions = nil }, own, false, false},
		"ipvlan l3": {func(n *dockerd.Network) {
			n.Driver, n.DriverOptions = "ipvlan", map[string]string{"parent": "eth0", "ipvlan_mode": "l3s"}
		}, own, false, false},
		"the option says none": {func(n *dockerd.Network) { n.Options["gateway"] = "none" }, own, false, false},
		"another pool":         {func(n *dockerd.Network) { n.Subnets[0].Prefix = netip.MustParsePrefix("192.168.79.0/24") }, own, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRouters(func() ([]netip.Prefix, error) {
				if c.onHost {
					return []netip.Prefix{netip.PrefixFrom(own, 24)}, nil
				}
				return []netip.Prefix{netip.MustParsePrefix("192.168.78.9/24")}, nil
			})
			pools := []ipam.PoolStatus{{Pool: cidr, Gateway: c.gateway}}
			if got := r.Problems(pools); got != nil {
				t.Errorf("before anything is known: %+v", got)
			}
			r.See([]dockerd.Network{network(c.change)})
			got := r.Problems(pools)
			if len(got) > 1 || len(got) == 1 != c.want {
				t.Errorf("%+v", got)
			}
			r.See(nil)
			if got := r.Problems(pools); got != nil {
				t.Errorf("the network is gone: %+v", got)
			}
		})
	}
}
