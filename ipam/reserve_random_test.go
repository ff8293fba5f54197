package ipam_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// Operators reserve and exclude, and end that, while containers come and go on
// all hosts, a tenth of the frames is lost, and processes crash: no address is
// held on two hosts, and once all is quiet what is kept for a name is held by
// nobody else, the records agree, and each name gets what is kept for it.
func TestReservationsUnderWeather(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		if *seedFlag != 0 && *seedFlag != seed+1 {
			continue
		}
		t.Run(fmt.Sprint("seed=", seed+1), func(t *testing.T) { reserveUnderWeather(t, rand.New(rand.NewPCG(seed+1, 1))) })
	}
}

func reserveUnderWeather(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.50.0.0/24") // the pool that it is founded with
	names := []string{"web", "db", "cache"}
	at := func() netip.Addr { return netip.MustParseAddr(fmt.Sprint("10.50.0.", 1+rnd.IntN(12)*17)) }
	c.lose = func(flight) bool { return rnd.IntN(10) == 0 }
	c.crash = func(int) int {
		if rnd.IntN(800) == 0 {
			return rnd.IntN(3)
		}
		return -1
	}
	for range 150 {
		i := rnd.IntN(3)
		switch a, name := at(), names[rnd.IntN(len(names))]; rnd.IntN(8) {
		case 0:
			c.call(i, keep(a.String(), name))
		case 1:
			c.call(i, unreserve(a.String(), a.String(), chronicle.KindKeptForName))
		case 2:
			if b := at(); !b.Less(a) {
				c.call(i, exclude(a.String(), b.String()))
			}
		case 3:
			c.call(i, unreserve("10.50.0.0", "10.50.0.255", chronicle.KindExcluded))
		case 4, 5:
			c.call(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: name})
		case 6:
			c.call(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: fmt.Sprint("c", rnd.IntN(1000))})
		default:
			c.call(i, &ipam.AddressRelease{Network: local(cidr), Address: a})
		}
		end := c.now.Add(time.Duration(rnd.IntN(400)) * time.Millisecond)
		c.run(time.Minute, func() bool { return !c.now.Before(end) })
		c.heldOnce(cidr)
		c.check()
	}
	// Half of the containers go, so that some of what is kept waits for its name.
	for _, a := range slices.SortedFunc(maps.Keys(c.heldOnce(cidr)), netip.Addr.Compare) {
		if rnd.IntN(2) == 0 {
			for i := range c.peers {
				c.call(i, &ipam.AddressRelease{Network: local(cidr), Address: a})
			}
		}
	}
	c.lose, c.crash = func(flight) bool { return false }, func(int) int { return -1 }
	end := c.now.Add(20 * time.Minute) // so that what nobody has is given back
	c.run(time.Hour, func() bool { return c.now.After(end) && c.agreed() })
	c.check()
	kept := c.heldOnce(cidr)
	list, err := c.peers[0].machine.Reservations("")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range list {
		if who := kept[r.First]; r.Kind == chronicle.KindKeptForName.String() && who != "" && who != r.Note {
			t.Errorf("%v is kept for %s, and %s has it", r.First, r.Note, who)
		}
	}
	// Every container goes, and then each name finds what is kept for it.
	for i := range c.peers {
		for _, a := range slices.SortedFunc(maps.Keys(kept), netip.Addr.Compare) {
			c.ask(i, &ipam.AddressRelease{Network: local(cidr), Address: a})
		}
	}
	for _, name := range names {
		want := map[netip.Addr]bool{}
		for _, r := range list {
			if r.Note == name && r.Kind == chronicle.KindKeptForName.String() {
				want[r.First] = true
			}
		}
		if len(want) == 0 {
			continue
		}
		if r := c.ask(rnd.IntN(3), &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: name}); !want[r.Address.Address.Addr()] {
			t.Errorf("%s got %v, %v; kept for it are %v", name, r.Address.Address, r.Err, want)
		}
	}
	c.check()
}

// heldOnce returns who holds what, and fails the test if two hosts hold one
// address.
func (c *lockstep) heldOnce(cidr netip.Prefix) map[netip.Addr]string {
	c.t.Helper()
	held, twice := c.held(cidr)
	if twice != "" {
		c.t.Fatal(twice)
	}
	return held
}

// held returns who holds what, and what two hosts hold, "" if there is no such address.
func (c *lockstep) held(cidr netip.Prefix) (held map[netip.Addr]string, twice string) {
	c.t.Helper()
	held = map[netip.Addr]string{}
	on := map[netip.Addr]string{}
	for _, p := range c.peers {
		list, err := p.machine.Addresses(c.now, cidr.String())
		if err != nil && !strings.Contains(err.Error(), "no pool") {
			c.t.Fatal(err)
		}
		for _, s := range list {
			if s.State != "held" {
				continue
			}
			if other := on[s.Address]; other != "" {
				twice = fmt.Sprintf("%v is held on %s and on %s", s.Address, other, p.cfg.Name)
			}
			held[s.Address], on[s.Address] = s.Name, string(p.cfg.Name)
		}
	}
	return held, twice
}
