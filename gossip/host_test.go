package gossip

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	a := netip.MustParseAddr
	any4, any6 := netip.MustParseAddrPort("0.0.0.0:7950"), netip.MustParseAddrPort("[::]:7950")
	lo, eth := hostAddr{"lo", a("127.0.0.1")}, hostAddr{"eth0", a("10.0.0.5")}
	eth1, eth6 := hostAddr{"eth1", a("192.168.7.5")}, hostAddr{"eth0", a("fd00::5")}
	link6, docker := hostAddr{"eth0", a("fe80::5")}, hostAddr{"docker0", a("172.17.0.1")}
	virt := hostAddr{"virbr0", a("192.168.122.1")}
	bridge, public := hostAddr{"br-1234", a("172.18.0.1")}, hostAddr{"eth2", a("203.0.113.5")}
	for _, tt := range []struct {
		name      string
		bind      netip.AddrPort
		advertise string
		seeds     []string
		addrs     []hostAddr
		routes    map[string]string // from the beginning of an address to its source
		want      string            // or what the error says
	}{
		{name: "the operator's", bind: any4, advertise: "198.51.100.7:1", addrs: []hostAddr{eth}, want: "198.51.100.7"},
		{name: "what is bound", bind: netip.MustParseAddrPort("10.9.9.9:7950"), addrs: []hostAddr{eth}, want: "10.9.9.9"},
		{name: "the only one", bind: any4, addrs: []hostAddr{lo, docker, bridge, eth}, want: "10.0.0.5"},
		{name: "public", bind: any4, addrs: []hostAddr{lo, public}, want: "203.0.113.5"},
		{name: "default route", bind: any4, addrs: []hostAddr{eth, eth1}, routes: map[string]string{"192.0.2.": "192.168.7.5"}, want: "192.168.7.5"},
		{
			name: "the default route is public", bind: any4, addrs: []hostAddr{lo, public, virt, eth1, eth},
			routes: map[string]string{"192.0.2.": "203.0.113.5"}, want: "192.168.7.5",
		},
		{
			name: "public alone, beside IPv6", bind: any6, addrs: []hostAddr{public, eth6, virt},
			routes: map[string]string{"192.0.2.": "203.0.113.5", "2001:": "fd00::5"}, want: "203.0.113.5",
		},
		{
			name: "public towards the first seed", bind: any4, seeds: []string{"198.51.100.9:1"}, addrs: []hostAddr{public, eth},
			routes: map[string]string{"192.0.2.": "203.0.113.5", "198.": "203.0.113.5"}, want: "203.0.113.5",
		},
		{
			name: "towards the first seed", bind: any4, seeds: []string{"10.0.0.9:7950"}, addrs: []hostAddr{eth, eth1},
			routes: map[string]string{"192.0.2.": "192.168.7.5", "10.": "10.0.0.5"}, want: "10.0.0.5",
		},
		{
			name: "the first seed has no route", bind: any4, seeds: []string{"10.0.0.9:1", "192.168.7.9:1"}, addrs: []hostAddr{eth, eth1},
			routes: map[string]string{"192.168.": "192.168.7.5"}, want: "192.168.7.5",
		},
		{
			name: "in the list itself", bind: any4, seeds: []string{"10.0.0.9:1", "192.168.7.5:1"}, addrs: []hostAddr{eth, eth1},
			routes: map[string]string{"10.": "10.0.0.5"}, want: "192.168.7.5",
		},
		{
			name: "own name is a loopback address", bind: any4, seeds: []string{"127.0.1.1:1", "10.0.0.9:1"}, addrs: []hostAddr{lo, eth},
			routes: map[string]string{"127.": "127.0.0.1", "10.": "10.0.0.5"}, want: "10.0.0.5",
		},
		{
			name: "all on this host", bind: any4, seeds: []string{"127.0.0.1:1", "127.0.0.1:2"}, addrs: []hostAddr{lo},
			routes: map[string]string{"127.": "127.0.0.1"}, want: "127.0.0.1",
		},
		{
			name: "all on this host, of which IPv6 is not bound", bind: any4, seeds: []string{"[::1]:1", "127.0.0.1:2"}, addrs: []hostAddr{lo},
			want: "127.0.0.1",
		},
		{
			name: "all on this host by IPv6, which is not bound", bind: any4, seeds: []string{"[::1]:1", "[::1]:2"}, addrs: []hostAddr{lo},
			want: "only ::1, and 0.0.0.0:7950 does not listen on IPv6",
		},
		{name: "all on this host by IPv6", bind: any6, seeds: []string{"[::1]:1", "[::1]:2"}, addrs: []hostAddr{lo}, want: "::1"},
		{
			name: "own name is the loopback address of IPv6", bind: any4, seeds: []string{"[::1]:1"}, addrs: []hostAddr{lo, eth},
			want: "10.0.0.5",
		},
		{
			name: "the seed is behind docker0", bind: any4, seeds: []string{"172.17.0.9:1"}, addrs: []hostAddr{docker, eth, eth1},
			routes: map[string]string{"172.17.": "172.17.0.1", "192.0.2.": "10.0.0.5"}, want: "10.0.0.5",
		},
		{name: "IPv6 only", bind: any6, addrs: []hostAddr{lo, link6, eth6}, want: "fd00::5"},
		{name: "IPv6 by its route", bind: any6, addrs: []hostAddr{eth6, eth1}, routes: map[string]string{"2001:": "fd00::5"}, want: "fd00::5"},
		{name: "IPv6 is not bound", bind: any4, addrs: []hostAddr{eth6, eth}, want: "10.0.0.5"},
		{name: "several", bind: any4, addrs: []hostAddr{eth, eth1}, want: "several addresses: 10.0.0.5, 192.168.7.5"},
		{name: "none", bind: any4, addrs: []hostAddr{lo, docker, link6}, want: "no address at which others could reach it"},
		{name: "unreadable", bind: any4, want: "cannot be read: no netlink"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &host{
				addrs: func() ([]hostAddr, error) {
					if tt.addrs == nil {
						return nil, errors.New("no netlink")
					}
					return tt.addrs, nil
				},
				source: func(to netip.Addr) (netip.Addr, error) {
					for prefix, source := range tt.routes {
						if strings.HasPrefix(to.String(), prefix) {
							return a(source), nil
						}
					}
					return netip.Addr{}, errors.New("network is unreachable")
				},
			}
			var advertise netip.AddrPort
			if tt.advertise != "" {
				advertise = netip.MustParseAddrPort(tt.advertise)
			}
			var seeds []netip.AddrPort
			for _, s := range tt.seeds {
				seeds = append(seeds, netip.MustParseAddrPort(s))
			}
			got, err := h.choose(tt.bind, advertise, seeds)
			if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && got.String() != tt.want {
				t.Errorf("got %v and %v, want %s", got, err, tt.want)
			}
		})
	}
}

// TestHasAddress asks whether what was chosen is good still, as names of RINGLET_JOIN
// become known and the host's routes and addresses change.
func TestHasAddress(t *testing.T) {
	lo, here, other := hostAddr{"lo", netip.MustParseAddr("127.0.0.1")}, hostAddr{"eth0", netip.MustParseAddr("10.0.0.5")}, hostAddr{"eth1", netip.MustParseAddr("10.1.0.5")}
	for _, tt := range []struct {
		name  string
		self  hostAddr
		addrs []hostAddr
		known int        // names of RINGLET_JOIN, of which one was as the address was chosen
		route netip.Addr // from which they are reached, if they are
		good  bool
		later bool // when they are reached from the other address
	}{
		{name: "nothing new", self: here, addrs: []hostAddr{here, other}, known: 1, route: other.addr, good: true, later: true},
		{name: "known to be right", self: here, addrs: []hostAddr{here, other}, known: 2, route: here.addr, good: true, later: true},
		{name: "known to be wrong", self: here, addrs: []hostAddr{here, other}, known: 2, route: other.addr},
		{name: "a poor one is better than none", self: here, addrs: []hostAddr{here, other}, known: 2, good: true},
		{name: "none", self: here, addrs: []hostAddr{lo}, known: 2},
		{name: "loopback, of no use", self: lo, addrs: []hostAddr{lo, here, other}, known: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &host{
				addrs: func() ([]hostAddr, error) { return tt.addrs, nil },
				source: func(netip.Addr) (netip.Addr, error) {
					if !tt.route.IsValid() {
						return netip.Addr{}, errors.New("network is unreachable")
					}
					return tt.route, nil
				},
			}
			list := parseSeeds([]string{"host-a", "host-b"})
			for _, one := range list[:tt.known] {
				one.addrs = []netip.AddrPort{netip.MustParseAddrPort("10.2.0.9:7950")}
			}
			g := &Gossip{cfg: Config{Bind: netip.MustParseAddrPort("0.0.0.0:7950"), host: h}, seeds: &seeds{list: list}}
			s := &session{g: g, self: netip.AddrPortFrom(tt.self.addr, 7950), resolved: 1}
			if got := s.hasAddress(); got != tt.good {
				t.Errorf("got %v", got)
			}
			tt.route = other.addr
			if got := s.hasAddress(); got != tt.later {
				t.Errorf("later: got %v", got)
			}
		})
	}
}

// Where IPv6 is all that a host has, it is said how to listen on it.
func TestChooseIPv6Only(t *testing.T) {
	h := noHost()
	h.addrs = func() ([]hostAddr, error) {
		return []hostAddr{{"lo", netip.MustParseAddr("::1")}, {"eth0", netip.MustParseAddr("fe80::5")}, {"eth0", netip.MustParseAddr("fd77::5")}}, nil
	}
	_, err := h.choose(netip.MustParseAddrPort("0.0.0.0:7951"), netip.AddrPort{}, nil)
	p := problem(codeClosed, "", err)
	if !strings.Contains(p.Text, "only fd77::5, and") || !strings.Contains(p.Next, "set RINGLET_BIND=[::]:7951") {
		t.Errorf("got %+v", p)
	}
}

// TestThisHost asks the kernel; a loopback interface is everywhere.
func TestThisHost(t *testing.T) {
	h := thisHost()
	lo := netip.MustParseAddr("127.0.0.1")
	have, err := h.addrs()
	if err != nil || !slices.ContainsFunc(have, func(a hostAddr) bool { return a.addr == lo }) {
		t.Errorf("got %v and %v, want %v among them", have, err, lo)
	}
	if got, err := h.source(lo); err != nil || got != lo {
		t.Errorf("%v is reached from %v, %v", lo, got, err)
	}
	if !h.has(lo) || h.has(netip.MustParseAddr("192.0.2.77")) {
		t.Error("the host does not know its own addresses")
	}
	if got, err := h.lookup(t.Context(), "localhost"); err != nil || len(got) == 0 {
		t.Errorf("localhost stands for %v, %v", got, err)
	}
}

// A process that is bound to one address of its host takes the others for those of processes
// beside it.
func TestListensAt(t *testing.T) {
	one, two := netip.MustParseAddr("10.99.0.1"), netip.MustParseAddr("10.99.0.2")
	loopback, second := netip.MustParseAddr("127.0.1.1"), netip.MustParseAddr("127.0.0.2")
	for _, tt := range []struct {
		bind, self netip.Addr
		is, not    []netip.Addr
	}{
		{netip.IPv4Unspecified(), one, []netip.Addr{one, two, loopback}, []netip.Addr{netip.MustParseAddr("10.99.0.3")}},
		{one, one, []netip.Addr{one, loopback}, []netip.Addr{two}},
		{one, netip.MustParseAddr("198.51.100.7"), []netip.Addr{one, netip.MustParseAddr("198.51.100.7"), loopback}, []netip.Addr{two}},
		{second, second, []netip.Addr{second}, []netip.Addr{one, loopback}},
	} {
		h := &host{addrs: func() ([]hostAddr, error) {
			return []hostAddr{{"lo", loopback}, {"lo", second}, {"eth0", one}, {"eth1", two}}, nil
		}}
		s := &session{g: &Gossip{cfg: Config{host: h, Bind: netip.AddrPortFrom(tt.bind, 7950)}}, self: netip.AddrPortFrom(tt.self, 7950), port: 7950}
		s.readOwn()
		for _, a := range tt.is {
			if !s.listensAt(netip.AddrPortFrom(a, 7950)) || s.listensAt(netip.AddrPortFrom(a, 7951)) {
				t.Errorf("bound to %v: %v, at its port alone, is not its own", tt.bind, a)
			}
		}
		for _, a := range tt.not {
			if s.listensAt(netip.AddrPortFrom(a, 7950)) {
				t.Errorf("bound to %v: %v is its own", tt.bind, a)
			}
		}
	}
}
