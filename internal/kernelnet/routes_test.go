package kernelnet

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/internal/namespace"
)

// Routes of both kinds are read as the kernel has them.
func TestRoutes(t *testing.T) {
	namespace.Enter(t)
	for _, args := range [][]string{
		{"link", "add", "eth0", "type", "veth", "peer", "name", "eth1"},
		{"link", "set", "eth0", "up"},
		{"link", "set", "eth1", "up"},
		{"address", "add", "192.168.1.10/24", "dev", "eth0"},
		{"route", "add", "default", "via", "192.168.1.1", "metric", "100"},
		{"route", "add", "10.32.0.0/12", "via", "192.168.1.7", "metric", "4294967295"},
		{"route", "add", "10.8.0.1/32", "dev", "eth1"},
		{"route", "add", "10.9.0.0/24", "nexthop", "via", "192.168.1.2", "nexthop", "dev", "eth1"},
		{"route", "add", "10.10.0.0/24", "nexthop", "via", "192.168.1.2", "nexthop", "via", "192.168.1.3"},
		{"route", "add", "unreachable", "10.99.0.0/16"},
		{"route", "add", "blackhole", "10.98.0.0/16"},
		{"route", "add", "10.97.0.0/16", "dev", "eth1", "table", "7"}, // of another table
	} {
		namespace.IP(t, args...)
	}
	six := !isMissing("/proc/sys/net/ipv6/conf/eth0")
	if six {
		for _, args := range [][]string{
			{"address", "add", "fd00:60::9/64", "dev", "eth0", "nodad"},
			{"-6", "route", "add", "fd00:61::/48", "via", "fd00:60::1", "metric", "7"},
			{"-6", "route", "add", "default", "via", "fd00:60::1", "metric", "8"},
			{"-6", "route", "add", "unreachable", "fd00:62::/48", "metric", "9"},
		} {
			namespace.IP(t, args...)
		}
	}
	index := map[string]int{}
	all, err := Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		index[i.Name] = i.Index
	}
	gateway := netip.MustParseAddr
	want := map[string]Route{
		"0.0.0.0/0":      {Interface: index["eth0"], Gateway: gateway("192.168.1.1"), Metric: 100},
		"192.168.1.0/24": {Interface: index["eth0"]},
		"10.32.0.0/12":   {Interface: index["eth0"], Gateway: gateway("192.168.1.7"), Metric: 4294967295},
		"10.8.0.1/32":    {Interface: index["eth1"]},
		"10.9.0.0/24":    {Interface: index["eth1"]},
		"10.10.0.0/24":   {Interface: index["eth0"], Gateway: gateway("192.168.1.2")},
		"10.99.0.0/16":   {Reject: true},
		"10.98.0.0/16":   {Reject: true},
	}
	if six {
		want["fd00:60::/64"] = Route{Interface: index["eth0"], Metric: 256}
		want["fd00:61::/48"] = Route{Interface: index["eth0"], Gateway: gateway("fd00:60::1"), Metric: 7}
		want["::/0"] = Route{Interface: index["eth0"], Gateway: gateway("fd00:60::1"), Metric: 8}
		want["fd00:62::/48"] = Route{Interface: index["lo"], Reject: true, Metric: 9}
	}
	got := map[string]Route{}
	for r, err := range Routes() {
		if err != nil {
			t.Fatal(err)
		}
		if to := r.To.String(); !r.To.Addr().IsLinkLocalUnicast() && !r.To.Addr().IsMulticast() {
			r.To = netip.Prefix{}
			got[to] = r
		}
	}
	for to, r := range want {
		if got[to] != r {
			t.Errorf("%s: got %+v, want %+v", to, got[to], r)
		}
		delete(got, to)
	}
	if len(got) > 0 {
		t.Errorf("there are others: %+v", got)
	}
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// Who has enough of the routes gets no more.
func TestRoutesThatAreNotAllRead(t *testing.T) {
	namespace.Enter(t)
	namespace.IP(t, "link", "set", "lo", "up")
	namespace.IP(t, "route", "add", "10.8.0.0/24", "dev", "lo")
	namespace.IP(t, "route", "add", "10.9.0.0/24", "dev", "lo")
	var got []string
	for r, err := range Routes() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.To.String())
		break
	}
	if !slices.Equal(got, []string{"10.8.0.0/24"}) {
		t.Errorf("got %q", got)
	}
}
