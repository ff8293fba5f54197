package arp

import (
	"errors"
	"iter"
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/plugin/route"
)

func TestChooseTheInterface(t *testing.T) {
	at := func(index int, cidr string) link { return link{index, netip.MustParsePrefix(cidr)} }
	lan := []link{at(2, "192.168.1.10/24"), at(3, "10.0.0.1/8"), at(4, "10.50.0.1/16"), at(5, "10.50.0.9/32")}
	for _, c := range []struct {
		a     string
		links []link
		route int
		want  int
	}{
		{"192.168.1.50", lan, 9, 2},
		{"10.1.1.1", lan, 9, 3},
		{"10.50.3.3", lan, 9, 4},
		{"10.50.0.9", lan, 9, 5},
		{"172.16.0.1", lan, 9, 9},
		{"172.16.0.1", lan, 0, 0},
		{"172.16.0.1", nil, 9, 9},
	} {
		if got := choose(netip.MustParseAddr(c.a), c.links, c.route); got != c.want {
			t.Errorf("%s: interface %d, want %d", c.a, got, c.want)
		}
	}
}

// The default route of a host with wired and wireless interfaces is that with the
// lowest metric.
func TestDefaultRoute(t *testing.T) {
	everywhere := netip.MustParsePrefix("0.0.0.0/0")
	of := func(eth0 uint32) iter.Seq2[route.Route, error] {
		return func(yield func(route.Route, error) bool) {
			for _, r := range []route.Route{
				{Interface: "none0", To: everywhere, Reject: true},
				{Interface: "wlan0", To: everywhere, Gateway: true, Metric: 600},
				{Interface: "eth0", To: everywhere, Gateway: true, Metric: eth0},
				{Interface: "half0", To: netip.MustParsePrefix("0.0.0.0/1"), Gateway: true},
				{Interface: "eth1", To: netip.MustParsePrefix("192.168.1.0/24")},
			} {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	for eth0, want := range map[uint32]string{0: "eth0", 100: "eth0", 700: "wlan0"} {
		if got, err := routeName(of(eth0)); got != want || err != nil {
			t.Errorf("metric %d: got %q, %v; want %q", eth0, got, err, want)
		}
	}
	if got, err := routeName(func(func(route.Route, error) bool) {}); got != "" || err != nil {
		t.Errorf("without routes: %q, %v", got, err)
	}
	gone := errors.New("gone")
	if got, err := routeName(func(yield func(route.Route, error) bool) { yield(route.Route{}, gone) }); got != "" || !errors.Is(err, gone) {
		t.Errorf("a table that cannot be read: %q, %v", got, err)
	}
}
