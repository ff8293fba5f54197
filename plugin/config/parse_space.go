package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a universe's prefixes and of the subnets chosen in it, as prefix
// lengths.
const (
	widestV4, narrowestV4 = 8, 30

	// An IPv6 universe is at most a site's prefix and at least one link's.
	widestUniverseV6, narrowestUniverseV6 = 48, 64

	// A pool counts its addresses in 64 bits; under /126 nothing is left for
	// containers.
	widestSubnetV6, narrowestSubnetV6 = 64, 126

	defaultV4, defaultV6 = 24, 64
)

func parseUniverse(cfg *Config, value string, _ source) error {
	cfg.Universe = nil
	err := entries(value, func(_ int, entry string) error {
		p, err := subnet(entry)
		if err == nil {
			err = checkUniverse(p)
		}
		if err != nil {
			return cmp.Or(beyondPrivate(entry), err)
		}
		cfg.Universe = append(cfg.Universe, p)
		return nil
	})
	return errors.Join(append(Problems(err), overlaps(cfg.Universe)...)...)
}

// beyondPrivate says what to write instead of a subnet with a private address (RFC 1918) that is larger than what
// is private around it: to mask it would be wrong, as 192.0.0.0/8 belongs to others.
func beyondPrivate(s string) error {
	p, _ := netip.ParsePrefix(s) // what is none lies nowhere
	for _, own := range []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"} {
		if own := netip.MustParsePrefix(own); own.Contains(p.Addr()) && p.Bits() < own.Bits() {
			return fmt.Errorf("%s is more than the private subnet %v, write that or a part of it", shown(s), own)
		}
	}
	return nil
}

// checkUniverse refuses what can be no home for containers.
func checkUniverse(p netip.Prefix) error {
	widest, narrowest := widestUniverseV6, narrowestUniverseV6
	usable := []netip.Prefix{netip.MustParsePrefix("2000::/3"), netip.MustParsePrefix("fc00::/7")}
	reserved := []netip.Prefix(nil)
	if p.Addr().Is4() {
		widest, narrowest = widestV4, narrowestV4
		usable = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}
		reserved = []netip.Prefix{ // RFC 6890, multicast and beyond
			netip.MustParsePrefix("0.0.0.0/8"),
			netip.MustParsePrefix("127.0.0.0/8"),
			netip.MustParsePrefix("169.254.0.0/16"),
			netip.MustParsePrefix("224.0.0.0/3"),
		}
	}
	switch {
	case p.Bits() < widest:
		return fmt.Errorf("%v is wider than a /%d", p, widest)
	case p.Bits() > narrowest:
		return fmt.Errorf("%v is narrower than a /%d", p, narrowest)
	case !slices.ContainsFunc(usable, p.Overlaps), slices.ContainsFunc(reserved, p.Overlaps):
		return fmt.Errorf("%v has addresses that hosts cannot use", p)
	}
	return nil
}

// overlaps reports each prefix that lies in another, or is there twice.
func overlaps(prefixes []netip.Prefix) []error {
	var problems []error
	// In this order a prefix comes right behind those it lies in, and two
	// prefixes either nest or are apart.
	sorted := slices.SortedFunc(slices.Values(prefixes), netip.Prefix.Compare)
	var outer netip.Prefix
	for i, p := range sorted {
		if i > 0 && outer.Overlaps(p) {
			problems = append(problems, fmt.Errorf("%v and %v overlap", outer, p))
			continue
		}
		outer = p
	}
	return problems
}

func parseSubnet(cfg *Config, value string, _ source) error {
	sizes := Subnet{}
	err := entries(value, func(_ int, entry string) error {
		bits, err := strconv.Atoi(strings.TrimPrefix(entry, "/"))
		if err != nil {
			return fmt.Errorf("%s is not a prefix length", shown(entry))
		}
		var size *int // the ranges do not meet, so the number tells the family
		switch {
		case bits >= widestV4 && bits <= narrowestV4:
			size = &sizes.V4
		case bits >= widestSubnetV6 && bits <= narrowestSubnetV6:
			size = &sizes.V6
		default:
			return fmt.Errorf("%d is out of range for either family", bits)
		}
		if *size != 0 {
			return fmt.Errorf("%d and %d are two sizes for one family", *size, bits)
		}
		*size = bits
		return nil
	})
	// A family that is left out keeps its default.
	cfg.Subnet = Subnet{V4: cmp.Or(sizes.V4, defaultV4), V6: cmp.Or(sizes.V6, defaultV6)}
	return err
}

func parseAvoid(cfg *Config, value string, _ source) error {
	cfg.Avoid = nil
	return entries(value, func(_ int, entry string) error {
		p, err := subnet(entry)
		if err == nil {
			cfg.Avoid = append(cfg.Avoid, p)
		}
		return err
	})
}

// subnet reads a CIDR. Host bits are refused and not masked away: an operator who
// writes 10.32.5.0/12 means something else than 10.32.0.0/12.
func subnet(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
			a = a.Unmap()
			return netip.Prefix{}, fmt.Errorf("%s has no prefix length, a single address is %v/%d", shown(s), a, a.BitLen())
		}
		return netip.Prefix{}, fmt.Errorf("%s is not a subnet", shown(s))
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("%s is not a subnet of one family", shown(s))
		}
		v4 := netip.PrefixFrom(a.Unmap(), p.Bits()-96).Masked()
		return netip.Prefix{}, fmt.Errorf("%s is IPv4 in the form of IPv6, write %v", shown(s), v4)
	}
	if m := p.Masked(); m != p {
		return netip.Prefix{}, fmt.Errorf("%s has bits set behind its prefix, write %v", shown(s), m)
	}
	return p, nil
}
