package gossip

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// lookupTime bounds the resolution of one name.
const lookupTime = 5 * time.Second

// maxLookups is how many names are looked up at a time.
const maxLookups = 16

// Seeds returns the distinct hosts of a list that founds a cluster, each as
// host:port in lower case, in order. A seed index is the place of a host in it,
// counted from 1: what has one index is counted once when a cluster is founded,
// however many peers come and go there. Entries that are no host are
// left out.
func Seeds(join []string) []string {
	var names []string
	for _, s := range parseSeeds(join) {
		names = append(names, s.name)
	}
	return names
}

// ListHash returns the FNV-64a hash of what [Seeds] returned, by which hosts
// tell that they were given the same list; 0 for an empty one.
func ListHash(seeds []string) uint64 {
	if len(seeds) == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write([]byte(strings.Join(seeds, ",")))
	return h.Sum64()
}

// seed is one host of the list.
type seed struct {
	name string // host:port, as in Seeds
	host string // what is looked up; unlike in name its last dot is kept, which stops a resolver's search list
	port uint16

	addrs []netip.AddrPort // what it stood for when that was last known
	err   error            // of the last look-up
}

func parseSeeds(join []string) []*seed {
	var seeds []*seed
	for _, entry := range join {
		s, err := parseSeed(entry, DefaultPort)
		if err == nil && !slices.ContainsFunc(seeds, func(have *seed) bool { return have.name == s.name }) {
			seeds = append(seeds, s)
		}
	}
	slices.SortFunc(seeds, func(a, b *seed) int { return strings.Compare(a.name, b.name) })
	return seeds
}

// parseSeed reads host, host:port or an IPv6 address with or without brackets.
// The port is that of an entry without one.
func parseSeed(entry string, port uint16) (*seed, error) {
	host := entry
	if a, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		host = a.String()
	} else if strings.Contains(entry, ":") {
		h, p, err := net.SplitHostPort(entry)
		if err != nil {
			return nil, fmt.Errorf("%q is no host:port", entry)
		}
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("%q: the port is not a number from 1 to 65535", entry)
		}
		host, port = h, uint16(n)
	}
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	}
	host = strings.ToLower(host)
	bare := strings.TrimSuffix(host, ".")
	if bare == "" || strings.ContainsAny(bare, " /,\t\n") {
		return nil, fmt.Errorf("%q names no host", entry)
	}
	return &seed{name: net.JoinHostPort(bare, strconv.Itoa(int(port))), host: host, port: port}, nil
}

// seeds is the list of Config.Join with what its names stand for. Safe for
// concurrent use.
type seeds struct {
	mu   sync.Mutex
	list []*seed
}

// resolve looks all names up. A name that cannot be looked up now keeps the
// addresses that it had.
func (s *seeds) resolve(ctx context.Context, lookup func(context.Context, string) ([]netip.Addr, error)) {
	s.mu.Lock()
	list := slices.Clone(s.list) // its hosts and ports never change
	s.mu.Unlock()
	var looking sync.WaitGroup
	room := make(chan struct{}, maxLookups)
	for _, one := range list {
		room <- struct{}{}
		looking.Go(func() {
			defer func() { <-room }()
			addrs, err := resolveHost(ctx, lookup, one.host, one.port)
			s.mu.Lock()
			defer s.mu.Unlock()
			if one.err = err; err == nil {
				one.addrs = addrs
			}
		})
	}
	looking.Wait()
}

func resolveHost(
	ctx context.Context, lookup func(context.Context, string) ([]netip.Addr, error), host string, port uint16,
) ([]netip.AddrPort, error) {
	found := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		found = append(found, a)
	} else {
		ctx, cancel := context.WithTimeout(ctx, lookupTime)
		defer cancel()
		if found, err = lookup(ctx, host); err != nil {
			return nil, err
		}
	}
	var addrs []netip.AddrPort
	for _, a := range found {
		addrs = append(addrs, netip.AddrPortFrom(a.Unmap(), port))
	}
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	return slices.Compact(addrs), nil
}

// at returns the seed index of an address, 0 for none. Of two names for one host the
// first counts.
func (s *seeds) at(a netip.AddrPort) int {
	return s.find(func(addr netip.AddrPort) bool { return addr == a })
}

// find returns the index of the first seed with such an address, 0 for none.
func (s *seeds) find(like func(netip.AddrPort) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, one := range s.list {
		if slices.ContainsFunc(one.addrs, like) {
			return i + 1
		}
	}
	return 0
}

// holds reports whether a host of the list has an address.
func (s *seeds) holds(a netip.Addr) bool {
	return s.find(func(addr netip.AddrPort) bool { return addr.Addr() == a }) != 0
}

// addrs returns all addresses.
func (s *seeds) addrs() []netip.AddrPort {
	var all []netip.AddrPort
	for _, one := range s.all() {
		all = append(all, one.addrs...)
	}
	return all
}

// all returns a copy of the list.
func (s *seeds) all() []seed {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]seed, len(s.list))
	for i, one := range s.list {
		list[i] = *one
	}
	return list
}

// resolved returns how many names have stood for something.
func (s *seeds) resolved() (n int) {
	for _, one := range s.all() {
		if len(one.addrs) > 0 {
			n++
		}
	}
	return n
}

// unresolved reports whether a name stands for nothing yet.
func (s *seeds) unresolved() bool { return s.resolved() < len(s.list) }
