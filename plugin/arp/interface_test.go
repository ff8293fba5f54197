package arp

import (
	"errors"
	"iter"
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/internal/kernelnet"
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
	const none, wlan0, eth0, half, eth1, six = 1, 2, 3, 4, 5, 6
	everywhere := netip.MustParsePrefix("0.0.0.0/0")
	router := netip.MustParseAddr("192.168.1.1")
	of := func(metric uint32) iter.Seq2[kernelnet.Route, error] {
		return func(yield func(kernelnet.Route, error) bool) {
			for _, r := range []kernelnet.Route{
				{Interface: none, To: everywhere, Reject: true},
				{Interface: wlan0, To: everywhere, Gateway: router, Metric: 600},
				{Interface: eth0, To: everywhere, Gateway: router, Metric: metric},
				{Interface: half, To: netip.MustParsePrefix("0.0.0.0/1"), Gateway: router},
				{Interface: eth1, To: netip.MustParsePrefix("192.168.1.0/24")},
				{Interface: six, To: netip.MustParsePrefix("::/0"), Gateway: netip.MustParseAddr("fd00::1")},
			} {
				if !yield(r, nil) {
					return
				}
			}
		}
	}
	for metric, want := range map[uint32]int{0: eth0, 100: eth0, 700: wlan0} {
		if got, err := defaultRoute(of(metric)); got != want || err != nil {
			t.Errorf("metric %d: got %d, %v; want %d", metric, got, err, want)
		}
	}
	if got, err := defaultRoute(func(func(kernelnet.Route, error) bool) {}); got != 0 || err != nil {
		t.Errorf("without routes: %d, %v", got, err)
	}
	gone := errors.New("gone")
	if got, err := defaultRoute(func(yield func(kernelnet.Route, error) bool) { yield(kernelnet.Route{}, gone) }); got != 0 || !errors.Is(err, gone) {
		t.Errorf("a table that cannot be read: %d, %v", got, err)
	}
}
