package ipam_test

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam"
)

// Pool IDs lie in the engines' databases for years: these never change.
func TestPoolIDsAreFrozen(t *testing.T) {
	for _, c := range []struct {
		n    ipam.Network
		want ipam.PoolID
	}{
		{ipam.Network{Space: ipam.Local, Pool: prefix("10.50.0.0/16"), Range: prefix("10.50.0.0/16")}, "ringlet1/local/10.50.0.0/16"},
		{ipam.Network{Space: ipam.Global, Pool: prefix("fd00::/64"), Range: prefix("fd00::/64")}, "ringlet1/global/fd00::/64"},
		{
			ipam.Network{Space: ipam.Local, Pool: prefix("10.50.0.0/16"), Range: prefix("10.50.1.0/24"), Gateway: ipam.GatewayFirst, Sticky: ipam.StickyMAC, PoolName: "lab"},
			"ringlet1/local/10.50.0.0/16;gateway=first;pool=lab;range=10.50.1.0/24;sticky=mac",
		},
		{
			ipam.Network{Space: ipam.Local, Pool: prefix("10.50.0.0/16"), Range: prefix("10.50.1.0/24"), PoolName: "lab", Probe: ipam.ProbeARP},
			"ringlet1/local/10.50.0.0/16;pool=lab;probe=arp;range=10.50.1.0/24",
		},
		{
			ipam.Network{Space: ipam.Local, Pool: prefix("fd00::/64"), Range: prefix("fd00::/64"), Gateway: ipam.GatewayAddr, GatewayAddr: address("fd00::5"), Sticky: ipam.StickyNone},
			"ringlet1/local/fd00::/64;gateway=fd00::5;sticky=none",
		},
	} {
		if got := c.n.ID(); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		if back, err := ipam.ParsePoolID(c.want); err != nil || back != c.n {
			t.Errorf("%s: %+v, %v", c.want, back, err)
		}
	}
}

func TestPoolIDsOfOthers(t *testing.T) {
	for _, id := range []ipam.PoolID{
		"", "LocalDefault/10.0.0.0/8", "ringlet1/", "ringlet1/local", "ringlet1/other/10.0.0.0/8", "ringlet1/local/10.0.0.1/8",
		"ringlet1/local/10.0.0.0/8;range=11.0.0.0/24", "ringlet1/local/10.0.0.0/8;range=10.0.0.0/8", "ringlet1/local/10.0.0.0/8;",
		"ringlet1/local/10.0.0.0/8;sticky=name", "ringlet1/local/10.0.0.0/8;sticky=mac;gateway=first", "ringlet1/local/10.0.0.0/8;gateway=11.0.0.1",
		"ringlet1/local/10.0.0.0/8;pool=a;pool=b", "ringlet1/local/10.0.0.0/8;pool=a/b", "ringlet1/local/fd00::/48", "ringlet1/local/10.0.0.0/8;x=1",
		"ringlet1/local/10.0.0.0/8;probe=none", "ringlet1/local/10.0.0.0/8;probe=icmp", "ringlet1/local/10.0.0.0/8;probe=arp;pool=a",
	} {
		if n, err := ipam.ParsePoolID(id); err == nil {
			t.Errorf("%q is %+v", id, n)
		}
	}
}

func TestPoolIDsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(0, 32).Draw(t, "bits")
		pool := netip.PrefixFrom(netip.AddrFrom4([4]byte(rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "pool"))), bits).Masked()
		n := ipam.Network{Space: rapid.SampledFrom([]ipam.Space{ipam.Local, ipam.Global}).Draw(t, "space"), Pool: pool}
		n.Range = netip.PrefixFrom(pool.Addr(), rapid.IntRange(bits, 32).Draw(t, "range"))
		n.Gateway = rapid.SampledFrom([]ipam.GatewayMode{ipam.GatewayHost, ipam.GatewayFirst, ipam.GatewayLast, ipam.GatewayNone, ipam.GatewayAddr}).Draw(t, "gateway")
		if n.Gateway == ipam.GatewayAddr {
			n.GatewayAddr = pool.Addr()
		}
		n.Sticky = rapid.SampledFrom([]ipam.Sticky{ipam.StickyName, ipam.StickyMAC, ipam.StickyNone}).Draw(t, "sticky")
		n.Probe = rapid.SampledFrom([]ipam.Probe{ipam.ProbeNone, ipam.ProbeARP}).Draw(t, "probe")
		n.PoolName = rapid.SampledFrom([]string{"", "lab", "a.b_c-9"}).Draw(t, "name")
		if back, err := ipam.ParsePoolID(n.ID()); err != nil || back != n {
			t.Fatalf("%+v has ID %s, which is %+v, %v", n, n.ID(), back, err)
		}
	})
}

func FuzzParsePoolID(f *testing.F) {
	f.Add("ringlet1/local/10.50.0.0/16;gateway=first;pool=lab;range=10.50.1.0/24;sticky=mac")
	f.Add("ringlet1/local/10.50.0.0/16;pool=lab;probe=arp")
	f.Add("ringlet1/global/fd00::/64;gateway=fd00::5")
	f.Fuzz(func(t *testing.T, id string) {
		if n, err := ipam.ParsePoolID(ipam.PoolID(id)); err == nil && n.ID() != ipam.PoolID(id) {
			t.Errorf("%q is taken for %+v, whose ID is %s", id, n, n.ID())
		}
	})
}

// What people are told of networks on a pool counts also those that a new database was never
// asked for, and none twice.
func TestNetworksOfAPool(t *testing.T) {
	h := withSocket(t)
	networks := func() int {
		t.Helper()
		pools := h.Machine().Status(h.Now).Pools
		if len(pools) != 1 {
			t.Fatalf("there are %d pools", len(pools))
		}
		return pools[0].Networks
	}
	look(h, on("10.50.0.0/24"))
	if got := networks(); got != 1 {
		t.Errorf("%d networks are told of, the engine has 1", got)
	}
	n := network(t, h, "10.50.0.0/24") // the engine asks for it again
	look(h, on("10.50.0.0/24"))
	if got := networks(); got != 1 {
		t.Errorf("%d networks are told of after a replay, the engine has 1", got)
	}
	wantErr(t, h.Call(&ipam.PoolRemoval{Pool: "10.50.0.0/24"}).Err, ipam.ErrPoolInUse, "has 1 network of this host on it")
	h.Call(&ipam.PoolRelease{Network: n})
	look(h)
	if got := networks(); got != 0 {
		t.Errorf("%d networks are told of, the engine has none", got)
	}
}
