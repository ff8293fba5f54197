package e2e

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Five hosts that share one small pool: one is cut off and evicted, two lose their power at once. Whoever is left goes on,
// and nobody gets what a host that is away may be using.
func TestClusterFive(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 5, "RINGLET_REST=5s", "RINGLET_TIMEOUT=20s", "RINGLET_EVICT_AFTER=20s")
	c.Install()
	for i, e := range c.Engines {
		e.lan("small", smallSubnet, "--ipam-opt", "gateway=first")
		if err := wants(e, "fixed", fixedAt(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.usedUpWhileCut()
	c.twoOff()
	c.replaced()
}

// fixedAt returns the address of the container fixed on the host with that index.
func fixedAt(i int) string { return fmt.Sprint("10.51.0.", 10*i+9) }

// One host is cut off and starts more containers. The others evict it and use all that is not its own, while it uses up
// what is, each to the last address; then it is back.
func (c *Cluster) usedUpWhileCut() {
	t := c.t
	t.Helper()
	others, cut := c.Engines[:4], c.Engines[4]
	c.AwaitReady(c.Engines...) // it has heard of all space that is its own
	c.Cut(cut)
	c.crowd([]*Engine{cut}, "small", "cut", 2)
	kept := endpoints(cut)
	c.awaitEvicted(others, cut)
	c.awaitCutOff(cut)

	var calls []func() error
	for _, e := range c.Engines {
		calls = append(calls, func() error { return useUp(e, smallSubnet) })
	}
	errs := atOnce(calls...)
	for _, err := range errs[:4] {
		refused(t, err, "no free address in "+smallSubnet)
	}
	refused(t, errs[4], "agreement of a majority", "cannot reach")
	// Alone it takes half a minute for each until nothing heard means unreachable.
	if err := errs[4]; err != nil && !slices.ContainsFunc(others, func(e *Engine) bool { return strings.Contains(err.Error(), e.Name) }) {
		t.Errorf("%v names none of the hosts that cannot be reached", err)
	}
	if got := c.held("with all used on both sides"); got != smallRoom {
		t.Errorf("%d addresses are held, want %d", got, smallRoom)
	}
	c.union("with all used on both sides")

	c.Heal(cut)
	c.AwaitReady(c.Engines...)
	if now := endpoints(cut); !slices.Equal(now, kept) {
		t.Errorf("containers of %s had %v and have %v", cut.Name, kept, now)
	}
	c.reached(others, kept)
	if got := c.held("after the cut was healed"); got != smallRoom {
		t.Errorf("%d addresses are held, want %d", got, smallRoom)
	}
	c.union("after the cut was healed")
	calls = nil
	for _, e := range c.Engines {
		calls = append(calls, func() error { return giveBack(e) })
	}
	if err := errors.Join(atOnce(calls...)...); err != nil {
		t.Fatal(err)
	}
}

// Two of five lose their power at once: the other three can do everything.
func (c *Cluster) twoOff() {
	t := c.t
	t.Helper()
	off, rest := []*Engine{c.Engines[1], c.Engines[3]}, []*Engine{c.Engines[0], c.Engines[2], c.Engines[4]}
	for _, e := range off {
		e.PowerOff()
	}
	for _, e := range rest {
		makeNetwork(e, "more", "10.54.0.0/24")
	}
	c.crowd(rest, "more", "more", 1)
	c.crowd(rest, "small", "off", 2)
	for i, e := range off {
		refused(t, wants(rest[i], "thief-of-"+e.Name, fixedAt(2*i+1)), fixedAt(2*i+1), e.Name)
	}
	c.union("with two of five off", rest...)
	c.awaitEvicted(rest, off...)
	c.crowd(rest, "small", "evicted", 2)
	for _, e := range off {
		e.Up()
	}
	c.AwaitReady(c.Engines...)
	for i, e := range c.Engines {
		if got := sameAddress(e, "small", "fixed"); got.String() != fixedAt(i) {
			t.Errorf("fixed on %s has %v, want %s", e.Name, got, fixedAt(i))
		}
		c.reached(c.Others(e), []netip.Addr{netip.MustParseAddr(fixedAt(i))})
	}
	for _, e := range off {
		makeNetwork(e, "more", "10.54.0.0/24")
	}
	c.crowd(off, "more", "back", 1)
	c.union("after two came back")
}

// useUp takes addresses for clients vm-0, vm-1 ... until one is refused, and returns that error.
func useUp(e *Engine, pool string) error {
	for i := 0; ; i++ {
		if _, err := e.TryRinglet("alloc", "--pool", pool, "--for", fmt.Sprintf("vm-%s-%d", e.Name, i)); err != nil {
			return err
		}
	}
}

// giveBack frees what clients have of a host.
func giveBack(e *Engine) error {
	all, err := holdings(e)
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.Kind != "client" {
			continue
		}
		if _, err := e.TryRinglet("free", "--for", h.Name); err != nil {
			return err
		}
	}
	return nil
}

// held checks that no address is held on two hosts, for a container or a client, and returns how many are.
func (c *Cluster) held(when string) int {
	c.t.Helper()
	at := map[netip.Addr]string{}
	for _, e := range c.Engines {
		all, err := holdings(e)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, h := range all {
			if other, twice := at[h.Address]; twice {
				c.t.Errorf("%s: %v is held on %s and on %s", when, h.Address, other, e.Name)
			}
			at[h.Address] = e.Name
		}
	}
	return len(at)
}

// reached checks that the container fixed of each of the hosts gets an answer from all of the addresses that lie in the pool
// small: no network carries packets between the bridges of two hosts.
func (c *Cluster) reached(from []*Engine, all []netip.Addr) {
	c.t.Helper()
	var calls []func() error
	for _, e := range from {
		for _, a := range all {
			if !netip.MustParsePrefix(smallSubnet).Contains(a) {
				continue
			}
			calls = append(calls, func() error {
				_, err := e.TryDocker("exec", "fixed", "/demo", "ping", a.String())
				return err
			})
		}
	}
	if err := errors.Join(atOnce(calls...)...); err != nil {
		c.t.Error(err)
	}
}
