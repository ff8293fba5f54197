package poolid

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/subnets"
)

// Space is libnetwork's address space, which tells who calls: [Local] is an
// engine for a network of its own host, [Global] a Swarm manager for the whole
// swarm. Networks of a whole swarm are refused: no engine lists their addresses.
type Space string

// The two address spaces, by the names that the driver announces.
const (
	Local  Space = "local"
	Global Space = "global"
)

// GatewayMode says which address of a pool is a network's gateway.
type GatewayMode uint8

// The gateway modes, values of the option gateway.
const (
	GatewayHost  GatewayMode = 0 // each engine has an address of its own, the same one each time
	GatewayFirst GatewayMode = 1 // the pool's first usable address, shared by all engines
	GatewayLast  GatewayMode = 2 // the pool's last usable address, shared by all engines
	GatewayNone  GatewayMode = 3 // no gateway
	GatewayAddr  GatewayMode = 4 // the address Network.GatewayAddr, shared by all engines
)

// Sticky says what keeps an address for a container that comes back.
type Sticky uint8

// The kinds of stickiness, values of the option sticky.
const (
	StickyName Sticky = 0 // the container's name where the engine sends it, else its MAC
	StickyMAC  Sticky = 1 // the MAC
	StickyNone Sticky = 2 // nothing
)

// Probe says how the wire is asked, before an address is handed out, whether
// something else uses it already.
type Probe uint8

// The ways to ask, values of the option probe.
const (
	ProbeNone Probe = 0 // nobody is asked
	ProbeARP  Probe = 1 // by ARP probes (RFC 5227), for IPv4 alone
	// ProbeStrict is ProbeARP, and nothing is handed out where one device answers for every address.
	ProbeStrict Probe = 2
)

// Network is what one docker network asked for: the pool, the part of it to
// take addresses from, and how. Two networks that ask for the same are the
// same Network, and have the same [ID].
type Network struct {
	Space       Space
	Pool        netip.Prefix // masked
	Range       netip.Prefix // the --ip-range, masked; equal to Pool when there is none
	Gateway     GatewayMode
	GatewayAddr netip.Addr // valid only with GatewayAddr
	Sticky      Sticky
	PoolName    string // the option pool, or empty
	Probe       Probe
	// Subnet is an IPv6 subnet wider than a /64, of which the pool is the --ip-range; invalid where the pool is the subnet.
	Subnet netip.Prefix
}

// Whole returns the subnet as the engine knows it, whose prefix length the network's addresses have.
func (n Network) Whole() netip.Prefix {
	if n.Subnet.IsValid() {
		return n.Subnet
	}
	return n.Pool
}

// Outside reports whether an address of the network's subnet lies outside the pool. It is the network's own: ringlet hands out none
// there.
func (n Network) Outside(a netip.Addr) bool {
	return n.Subnet.IsValid() && n.Subnet.Contains(a) && !n.Pool.Contains(a)
}

// ID is what dockerd keeps for a network, for years, and sends with every
// call. It holds the whole [Network], so that a peer can serve a pool ID that
// it has no record of:
//
//	ringlet1/local/10.50.0.0/16;gateway=first;pool=lab;range=10.50.1.0/24;sticky=mac
//
// Defaults are left out, and the order is fixed: a Network has just one ID.
type ID string

const prefix = "ringlet1/"

// ID returns the network's pool ID.
func (n Network) ID() ID {
	var b strings.Builder
	b.WriteString(prefix + string(n.Space) + "/" + n.Pool.String())
	option := func(key, val string) { b.WriteString(";" + key + "=" + val) }
	if n.Gateway != GatewayHost {
		option("gateway", n.gatewayText())
	}
	if n.PoolName != "" {
		option("pool", n.PoolName)
	}
	if n.Probe != ProbeNone {
		option("probe", n.Probe.String())
	}
	if n.Range != n.Pool {
		option("range", n.Range.String())
	}
	if n.Sticky != StickyName {
		option("sticky", n.Sticky.String())
	}
	if n.Subnet.IsValid() {
		option("subnet", n.Subnet.String())
	}
	return ID(b.String())
}

func (n Network) gatewayText() string {
	if n.Gateway == GatewayAddr {
		return n.GatewayAddr.String()
	}
	return n.Gateway.String()
}

// Parse returns the network that has the ID. It accepts only what
// [Network.ID] writes.
func Parse(id ID) (Network, error) {
	bad := func(why string) (Network, error) {
		return Network{}, fmt.Errorf("pool ID %q was not made by ringlet: %s", id, why)
	}
	rest, ok := strings.CutPrefix(string(id), prefix)
	if !ok {
		return bad("it does not begin with " + prefix)
	}
	rest, options, _ := strings.Cut(rest, ";")
	space, cidr, ok := strings.Cut(rest, "/")
	if !ok || Space(space) != Local && Space(space) != Global {
		return bad("no address space")
	}
	pool, err := netip.ParsePrefix(cidr)
	if err != nil {
		return bad("no subnet")
	}
	n := Network{Space: Space(space), Pool: pool, Range: pool}
	for options != "" {
		var option string
		option, options, _ = strings.Cut(options, ";")
		key, val, _ := strings.Cut(option, "=")
		switch key {
		case "range":
			n.Range, err = netip.ParsePrefix(val)
		case "gateway":
			n.Gateway, n.GatewayAddr, err = ParseGateway(val)
		case "sticky":
			n.Sticky, err = ParseSticky(val)
		case "pool":
			n.PoolName = val
		case "probe":
			n.Probe, err = ParseProbe(val)
		case "subnet":
			n.Subnet, err = netip.ParsePrefix(val)
		default:
			return bad("unknown option " + key)
		}
		if err != nil {
			return bad(err.Error())
		}
	}
	if err := n.Check(); err != nil {
		return bad(err.Error())
	}
	if n.ID() != id {
		return bad("it is not in the form that ringlet writes")
	}
	return n, nil
}

// Check reports whether n is a network that a pool can serve.
func (n Network) Check() error {
	pool, err := addr.Checked(n.Pool)
	switch {
	case err != nil:
		return err
	case pool != n.Pool:
		return fmt.Errorf("subnet %v is not masked, did you mean %v", n.Pool, pool)
	case !n.Range.IsValid() || n.Range != n.Range.Masked() || n.Range.Bits() < n.Pool.Bits() || !n.Pool.Contains(n.Range.Addr()):
		return fmt.Errorf("range %v is not in subnet %v", n.Range, n.Pool)
	}
	if s := n.Subnet; s.IsValid() && (!IsWide(s) || s != s.Masked() || !s.Contains(n.Pool.Addr()) || n.Range != n.Pool) {
		return fmt.Errorf("%v is not the range of subnet %v", n.Pool, s)
	}
	if n.PoolName != "" && !chronicle.ValidName(n.PoolName) {
		return NameError(n.PoolName)
	}
	if n.Gateway == GatewayAddr {
		if _, ok := addr.OffsetOf(n.Pool, n.GatewayAddr); !ok {
			return fmt.Errorf("gateway %v is not in subnet %v", n.GatewayAddr, n.Pool)
		}
	}
	return nil
}

// IsWide reports whether a subnet is an IPv6 one in which only a part can be a pool.
func IsWide(subnet netip.Prefix) bool {
	return subnet.IsValid() && subnet.Addr().Is6() && subnet.Bits() < 64
}

// CheckGateway reports why nobody can have the network's gateway.
func (n Network) CheckGateway() error {
	o, shared := n.SharedGateway()
	for _, r := range subnets.Fixed(n.Pool) {
		if shared && r.Range.Contains(o) {
			return fmt.Errorf("gateway %v is the %v of subnet %v, which no host can use: choose another address", n.GatewayAddr, r.Kind, n.Pool)
		}
	}
	return nil
}

// NameError says what the name of a pool may be.
func NameError(name string) error {
	return fmt.Errorf("%q cannot be the name of a pool: use 1 to %d letters, digits, dots, dashes and underscores, beginning with a letter or digit, and no address", name, chronicle.MaxName)
}

// ParseGateway reads the value of the option gateway.
func ParseGateway(s string) (GatewayMode, netip.Addr, error) {
	if m := slices.Index(gatewayModes[:], s); m >= 0 {
		return GatewayMode(m), netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return 0, netip.Addr{}, fmt.Errorf("gateway must be host, first, last, none or an address, not %q", s)
	}
	return GatewayAddr, a.Unmap(), nil
}

var gatewayModes = [...]string{GatewayHost: "host", GatewayFirst: "first", GatewayLast: "last", GatewayNone: "none"}

// String returns the mode as users write it.
func (m GatewayMode) String() string {
	if int(m) < len(gatewayModes) {
		return gatewayModes[m]
	}
	return "address"
}

// ParseSticky reads the value of the option sticky.
func ParseSticky(s string) (Sticky, error) {
	if m := slices.Index(stickyModes[:], s); m >= 0 {
		return Sticky(m), nil
	}
	return 0, fmt.Errorf("sticky must be name, mac or none, not %q", s)
}

var stickyModes = [...]string{StickyName: "name", StickyMAC: "mac", StickyNone: "none"}

// String returns the stickiness as users write it.
func (s Sticky) String() string {
	if int(s) < len(stickyModes) {
		return stickyModes[s]
	}
	return "unknown"
}

// ParseProbe reads the value of the option probe.
func ParseProbe(s string) (Probe, error) {
	if p := slices.Index(probeWays[:], s); p >= 0 {
		return Probe(p), nil
	}
	return 0, fmt.Errorf("probe must be none, arp or strict, not %q", s)
}

var probeWays = [...]string{ProbeNone: "none", ProbeARP: "arp", ProbeStrict: "strict"}

// String returns the way to ask as users write it.
func (p Probe) String() string {
	if int(p) < len(probeWays) {
		return probeWays[p]
	}
	return "unknown"
}

// SharedGateway returns where in the pool the gateway is that all engines share, for the modes that have one.
func (n Network) SharedGateway() (addr.Offset, bool) {
	size := addr.Offset(addr.Size(n.Pool))
	first, last := addr.Offset(0), size-1
	if size > 2 {
		first = 1
		if n.Pool.Addr().Is4() {
			last--
		}
	}
	switch n.Gateway {
	case GatewayFirst:
		return first, true
	case GatewayLast:
		return last, true
	case GatewayAddr:
		return addr.OffsetOf(n.Pool, n.GatewayAddr)
	default: // each engine has its own, or there is none
		return 0, false
	}
}
