package poolid_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam/poolid"
)

// Pool IDs lie in the engines' databases for years: these never change.
func TestIDsAreFrozen(t *testing.T) {
	for _, c := range []struct {
		n    poolid.Network
		want poolid.ID
	}{
		{poolid.Network{Space: poolid.Local, Pool: netip.MustParsePrefix("10.50.0.0/16"), Range: netip.MustParsePrefix("10.50.0.0/16")}, "ringlet1/local/10.50.0.0/16"},
		{poolid.Network{Space: poolid.Global, Pool: netip.MustParsePrefix("fd00::/64"), Range: netip.MustParsePrefix("fd00::/64")}, "ringlet1/global/fd00::/64"},
		{
			poolid.Network{Space: poolid.Local, Pool: netip.MustParsePrefix("10.50.0.0/16"), Range: netip.MustParsePrefix("10.50.1.0/24"), Gateway: poolid.GatewayFirst, Sticky: poolid.StickyMAC, PoolName: "lab"},
			"ringlet1/local/10.50.0.0/16;gateway=first;pool=lab;range=10.50.1.0/24;sticky=mac",
		},
		{
			poolid.Network{Space: poolid.Local, Pool: netip.MustParsePrefix("10.50.0.0/16"), Range: netip.MustParsePrefix("10.50.1.0/24"), PoolName: "lab", Probe: poolid.ProbeARP},
			"ringlet1/local/10.50.0.0/16;pool=lab;probe=arp;range=10.50.1.0/24",
		},
		{
			poolid.Network{Space: poolid.Local, Pool: netip.MustParsePrefix("fd00::/64"), Range: netip.MustParsePrefix("fd00::/64"), Gateway: poolid.GatewayAddr, GatewayAddr: netip.MustParseAddr("fd00::5"), Sticky: poolid.StickyNone},
			"ringlet1/local/fd00::/64;gateway=fd00::5;sticky=none",
		},
		{
			poolid.Network{Space: poolid.Local, Pool: netip.MustParsePrefix("fd00:0:a::/64"), Range: netip.MustParsePrefix("fd00:0:a::/64"), Sticky: poolid.StickyMAC, Subnet: netip.MustParsePrefix("fd00::/32")},
			"ringlet1/local/fd00:0:a::/64;sticky=mac;subnet=fd00::/32",
		},
	} {
		if got := c.n.ID(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		if back, err := poolid.Parse(c.want); err != nil || back != c.n {
			t.Errorf("%s: %+v, %v", c.want, back, err)
		}
	}
}

func TestIDsOfOthers(t *testing.T) {
	for _, id := range []poolid.ID{
		"", "LocalDefault/10.0.0.0/8", "ringlet1/", "ringlet1/local", "ringlet1/other/10.0.0.0/8", "ringlet1/local/10.0.0.1/8",
		"ringlet1/local/10.0.0.0/8;range=11.0.0.0/24", "ringlet1/local/10.0.0.0/8;range=10.0.0.0/8", "ringlet1/local/10.0.0.0/8;",
		"ringlet1/local/10.0.0.0/8;sticky=name", "ringlet1/local/10.0.0.0/8;sticky=mac;gateway=first", "ringlet1/local/10.0.0.0/8;gateway=11.0.0.1",
		"ringlet1/local/10.0.0.0/8;pool=a;pool=b", "ringlet1/local/10.0.0.0/8;pool=a/b", "ringlet1/local/fd00::/48", "ringlet1/local/10.0.0.0/8;x=1",
		"ringlet1/local/10.0.0.0/8;probe=none", "ringlet1/local/10.0.0.0/8;probe=icmp", "ringlet1/local/10.0.0.0/8;probe=arp;pool=a",
		"ringlet1/local/fd00:0:a::/64;subnet=fd01::/32", "ringlet1/local/fd00:0:a::/64;subnet=fd00::/64", "ringlet1/local/fd00:0:a::/64;subnet=fd00::1/32",
		"ringlet1/local/fd00:0:a::/64;range=fd00:0:a::/65;subnet=fd00::/32", "ringlet1/local/10.1.0.0/16;subnet=10.0.0.0/8",
	} {
		if n, err := poolid.Parse(id); err == nil {
			t.Errorf("%q is %+v", id, n)
		}
	}
}

func TestIDsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(0, 32).Draw(t, "bits")
		pool := netip.PrefixFrom(netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "pool"))), bits).Masked()
		n := poolid.Network{Space: rapid.SampledFrom([]poolid.Space{poolid.Local, poolid.Global}).Draw(t, "space"), Pool: pool}
		n.Range = netip.PrefixFrom(pool.Addr(), rapid.IntRange(bits, 32).Draw(t, "range"))
		n.Gateway = rapid.SampledFrom([]poolid.GatewayMode{poolid.GatewayHost, poolid.GatewayFirst, poolid.GatewayLast, poolid.GatewayNone, poolid.GatewayAddr}).Draw(t, "gateway")
		if n.Gateway == poolid.GatewayAddr {
			n.GatewayAddr = pool.Addr()
		}
		n.Sticky = rapid.SampledFrom([]poolid.Sticky{poolid.StickyName, poolid.StickyMAC, poolid.StickyNone}).Draw(t, "sticky")
		n.Probe = rapid.SampledFrom([]poolid.Probe{poolid.ProbeNone, poolid.ProbeARP}).Draw(t, "probe")
		n.PoolName = rapid.SampledFrom([]string{"", "lab", "a.b_c-9"}).Draw(t, "name")
		if back, err := poolid.Parse(n.ID()); err != nil || back != n {
			t.Fatalf("%+v has ID %s, which is %+v, %v", n, n.ID(), back, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("ringlet1/local/10.50.0.0/16;gateway=first;pool=lab;range=10.50.1.0/24;sticky=mac")
	f.Add("ringlet1/local/10.50.0.0/16;pool=lab;probe=arp")
	f.Add("ringlet1/global/fd00::/64;gateway=fd00::5")
	f.Fuzz(func(t *testing.T, id string) {
		if n, err := poolid.Parse(poolid.ID(id)); err == nil && n.ID() != poolid.ID(id) {
			t.Errorf("%q is taken for %+v, whose ID is %s", id, n, n.ID())
		}
	})
}
