package gossip

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/internal/kernelnet"
)

// host is what is asked of this host: its addresses, its routes, and the
// names that it knows.
type host struct {
	addrs  func() ([]hostAddr, error)
	source func(to netip.Addr) (netip.Addr, error) // the address from which that one is reached
	lookup func(context.Context, string) ([]netip.Addr, error)
}

// hostAddr is an address of an interface that is up.
type hostAddr struct {
	link string // the interface
	addr netip.Addr
}

// outside are addresses that stand for the rest of the world when the default
// route is asked for (RFC 5737, RFC 3849). Nothing is sent to them.
func outside() []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{192, 0, 2, 1}), netip.MustParseAddr("2001:db8::1")}
}

// thisHost is the host that this process runs on.
func thisHost() *host {
	return &host{addrs: interfaceAddrs, source: sourceOf, lookup: func(ctx context.Context, name string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", name)
	}}
}

// noHost has nothing: for peers on a network in memory.
func noHost() *host {
	errNone := errors.New("there is none in a network in memory")
	return &host{
		addrs:  func() ([]hostAddr, error) { return nil, nil },
		source: func(netip.Addr) (netip.Addr, error) { return netip.Addr{}, errNone },
		lookup: func(context.Context, string) ([]netip.Addr, error) { return nil, errNone },
	}
}

// interfaceAddrs returns the addresses of the interfaces that are up.
func interfaceAddrs() ([]hostAddr, error) {
	all, err := kernelnet.Interfaces()
	if err != nil {
		return nil, err
	}
	var found []hostAddr
	for i := range all {
		if !all[i].IsUp() {
			continue
		}
		for _, a := range all[i].Addresses {
			found = append(found, hostAddr{all[i].Name, a.Addr().Unmap()})
		}
	}
	return found, nil
}

// sourceOf asks the kernel's routes. Connecting a UDP socket sends nothing.
func sourceOf(to netip.Addr) (netip.Addr, error) {
	const discard = 9
	var d net.Dialer
	c, err := d.DialContext(context.Background(), "udp", netip.AddrPortFrom(to, discard).String())
	if err != nil {
		return netip.Addr{}, err
	}
	defer func() { _ = c.Close() }() // it was opened to look at its address
	local, err := netip.ParseAddrPort(c.LocalAddr().String())
	return local.Addr().Unmap(), err
}

// choose returns the address to advertise. Seeds are the addresses of
// Config.Join, as far as they are known.
func (h *host) choose(bind, advertise netip.AddrPort, seeds []netip.AddrPort) (netip.Addr, error) {
	if advertise.IsValid() {
		return advertise.Addr(), nil
	}
	if !bind.Addr().IsUnspecified() {
		return bind.Addr(), nil
	}
	have, err := h.addrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("the addresses of this host cannot be read: %w", err)
	}
	usable := reachable(have, bind.Addr().Is4())
	// Where the others look for this host, if it stands in the list itself.
	for _, s := range seeds {
		if slices.Contains(usable, s.Addr()) {
			return s.Addr(), nil
		}
	}
	for _, s := range seeds {
		if a, err := h.source(s.Addr()); err == nil && slices.Contains(usable, a) {
			return a, nil
		}
	}
	for _, to := range outside() {
		if a, err := h.source(to); err == nil && slices.Contains(usable, a) {
			return privateFor(a, usable), nil
		}
	}
	six := reachable(have, false)
	// All peers on this host: for trying things out.
	if len(seeds) > 0 && !slices.ContainsFunc(seeds, func(s netip.AddrPort) bool { return !s.Addr().IsLoopback() }) {
		if at := slices.IndexFunc(seeds, func(s netip.AddrPort) bool { return s.Addr().Is4() || !bind.Addr().Is4() }); at >= 0 {
			return seeds[at].Addr(), nil
		}
		six = append(six, seeds[0].Addr())
	}
	switch len(usable) {
	case 0:
		if len(six) > 0 {
			both := netip.AddrPortFrom(netip.IPv6Unspecified(), bind.Port())
			return netip.Addr{}, adviceErrorf(fmt.Sprintf("set RINGLET_BIND=%v, which listens on both", both),
				"this host has no IPv4 address at which others could reach it, only %s, and %v does not listen on IPv6", join(six), bind)
		}
		return netip.Addr{}, adviceErrorf("give this host an address, or set RINGLET_ADVERTISE",
			"this host has no address at which others could reach it")
	case 1:
		return usable[0], nil
	}
	return netip.Addr{}, adviceErrorf("set RINGLET_ADVERTISE to the address that others can reach",
		"this host has no default route and several addresses: %s", join(usable))
}

// privateFor returns the address itself if it is private, else the first private one
// of its kind, through which hosts beside this one are reached, if there is any.
func privateFor(a netip.Addr, usable []netip.Addr) netip.Addr {
	at := slices.IndexFunc(usable, func(b netip.Addr) bool { return b.IsPrivate() && b.Is4() == a.Is4() })
	if a.IsPrivate() || at < 0 {
		return a
	}
	return usable[at]
}

// reachable returns the addresses that other hosts may be able to reach.
func reachable(have []hostAddr, only4 bool) []netip.Addr {
	var usable []netip.Addr
	for _, h := range have {
		if !kernelnet.IsVirtual(h.link) && h.addr.IsGlobalUnicast() && (h.addr.Is4() || !only4) && !slices.Contains(usable, h.addr) {
			usable = append(usable, h.addr)
		}
	}
	return usable
}

// has reports whether an address is this host's. It is told yes if that cannot
// be found out.
func (h *host) has(a netip.Addr) bool {
	have, err := h.addrs()
	return err != nil || slices.ContainsFunc(have, func(own hostAddr) bool { return own.addr == a })
}

// readOwn reads the addresses of this host, which come and go. As long as they cannot be
// read the last ones count: a join with oneself does no harm.
func (s *session) readOwn() {
	if have, err := s.g.cfg.host.addrs(); err == nil {
		s.own.Store(&have)
	}
}

// isOwn tells this peer's addresses from those of others. It may be reached at more
// than the one that it advertises.
func (s *session) isOwn(a netip.AddrPort) bool {
	own := a.Addr() == s.self.Addr() || a.Addr().IsLoopback() && !s.self.Addr().IsLoopback()
	if have := s.own.Load(); have != nil && !own {
		own = slices.ContainsFunc(*have, func(h hostAddr) bool { return h.addr == a.Addr() })
	}
	return own && (a.Port() == s.port || a.Port() == s.self.Port())
}

// listensAt reports whether it is this process that listens at an address of this host. One
// that is bound to a single address leaves the others to processes beside it, as a second
// engine on the host may have; a loopback address is what the host's own name may stand for.
func (s *session) listensAt(a netip.AddrPort) bool {
	bound := s.g.cfg.Bind.Addr()
	if !bound.IsValid() || bound.IsUnspecified() {
		return s.isOwn(a)
	}
	own := a.Addr() == bound || a.Addr() == s.self.Addr() || a.Addr().IsLoopback() && !s.self.Addr().IsLoopback()
	return own && s.isOwn(a)
}

func join[T fmt.Stringer](list []T) string {
	var words []string
	for _, v := range list {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}
