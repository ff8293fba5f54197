package arp

import (
	"net/netip"
	"strings"
	"testing"
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

const routeTable = `Iface	Destination	Gateway 	Flags	RefCnt	Use	Metric	Mask		MTU	Window	IRTT                                                       
down0	00000000	0101A8C0	0002	0	0	0	00000000	0	0	0
none0	00000000	00000000	0201	0	0	1	00000000	0	0	0
wlan0	00000000	0101A8C0	0003	0	0	600	00000000	0	0	0
eth0	00000000	0101A8C0	0003	0	0	100	00000000	0	0	0
half0	00000000	0101A8C0	0003	0	0	0	00000080	0	0	0
eth0	0001A8C0	00000000	0001	0	0	100	00FFFFFF	0	0	0
`

func TestDefaultRoute(t *testing.T) {
	for text, want := range map[string]string{
		routeTable: "eth0",
		strings.ReplaceAll(routeTable, "\t100\t", "\t700\t"): "wlan0",
		"":                     "",
		"Iface\tDestination\n": "",
		"eth0\t00000000\t0101A8C0\tx\t0\t0\t100\t00000000\n": "",
	} {
		if got, err := routeName(strings.NewReader(text)); got != want || err != nil {
			t.Errorf("got %q, %v; want %q of\n%s", got, err, want, text)
		}
	}
}
