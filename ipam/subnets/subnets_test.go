package subnets_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/subnets"
)

// Of two universes the second is chosen from behind the last subnet of the first, and around what is in the way.
func Example() {
	taken := netip.MustParsePrefix("10.1.0.0/17")
	s := subnets.Search{Universe: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/23"), netip.MustParsePrefix("10.1.0.0/16")}, Bits: 24, After: netip.MustParseAddr("10.0.1.0")}
	fmt.Println(s.Next(func(c netip.Prefix) netip.Prefix {
		if c.Overlaps(taken) {
			return taken
		}
		return netip.Prefix{}
	}))
	// Output: 10.1.128.0/24 true
}

// The search finds just what a look at each subnet in turn does, whatever is in the way, be it wider or narrower.
func TestNextAgainstEach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	universe := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/27"), netip.MustParsePrefix("10.0.0.64/28"), netip.MustParsePrefix("10.0.0.128/26"), netip.MustParsePrefix("10.0.1.0/31")}
	each := func(bits int) (out []netip.Prefix) {
		for _, u := range universe {
			for a := u.Addr(); u.Bits() <= bits && u.Contains(a); a = a.Next() {
				if p := netip.PrefixFrom(a, bits); p == p.Masked() {
					out = append(out, p)
				}
			}
		}
		return out
	}
	found := 0
	for range 2000 {
		s := subnets.Search{Universe: universe, Bits: 28 + r.IntN(4)}
		all := each(s.Bits)
		if r.IntN(4) > 0 {
			at := r.IntN(len(all))
			s.After = all[at].Addr()
			all = append(slices.Clone(all[at+1:]), all[:at+1]...)
		}
		var taken []netip.Prefix
		for range r.IntN(12) {
			a := netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(2)), byte(r.IntN(256))})
			taken = append(taken, netip.PrefixFrom(a, 25+r.IntN(8)).Masked())
		}
		inTheWay := func(c netip.Prefix) netip.Prefix {
			if i := slices.IndexFunc(taken, c.Overlaps); i >= 0 {
				return taken[i]
			}
			return netip.Prefix{}
		}
		i := slices.IndexFunc(all, func(c netip.Prefix) bool { return !inTheWay(c).IsValid() })
		got, ok := s.Next(inTheWay)
		if ok != (i >= 0) || ok && got != all[i] {
			t.Fatalf("%+v, taken %v: %v, %v", s, taken, got, ok)
		}
		if ok {
			found++
		}
	}
	if found < 500 {
		t.Errorf("only %d searches found a subnet", found)
	}
}

func TestCheckUse(t *testing.T) {
	for subnet, usable := range map[string]bool{
		"10.0.0.0/8": true, "0.0.0.0/7": false, "127.4.0.0/16": false, "239.1.0.0/16": false, "255.255.255.254/31": false, "255.255.255.0/24": true,
		"fd00::/64": true, "::/64": false, "fe80::/64": false, "ff02::/64": false,
	} {
		if err := subnets.CheckUse(netip.MustParsePrefix(subnet)); (err == nil) != usable {
			t.Errorf("%s: %v", subnet, err)
		}
	}
}

func TestFixed(t *testing.T) {
	for subnet, want := range map[string]string{
		"10.0.0.0/24": "[network address 0 broadcast address 255]", "10.0.0.0/31": "[]", "10.0.0.1/32": "[]",
		"fd00::/64": "[subnet-router anycast address 0]", "fd00::/127": "[]",
	} {
		var got []string
		for _, r := range subnets.Fixed(netip.MustParsePrefix(subnet)) {
			got = append(got, fmt.Sprint(r.Kind, " ", r.Range.Start))
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: %v, want %s", subnet, got, want)
		}
	}
}
