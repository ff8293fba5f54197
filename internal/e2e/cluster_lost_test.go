package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Hosts that are lost: evicted and back, evicted and given up, a majority gone. What they had is nobody else's before
// somebody says so, and everybody's after that.
func TestClusterLost(t *testing.T) {
	t.Parallel()
	c := newSharing(t, tinySubnet)
	c.evictedAndBack()
	c.goneForGood()
	c.forgottenReturns()
	c.recovered()
}

// A host is given up under its containers, and one of their addresses goes to another host before it is back.
func TestClusterForgotten(t *testing.T) {
	t.Parallel()
	c := newSharing(t, tinySubnet)
	c.evictedAndBack()
	c.forgottenUnderContainers()
}

// newSharing returns three hosts that share a subnet, the network small, with containers.
func newSharing(t *testing.T, subnet string) *Cluster {
	t.Helper()
	c := NewCluster(t, 3, "RINGLET_REST=5s", "RINGLET_TIMEOUT=20s")
	c.Install()
	for _, e := range c.Engines {
		e.lan("small", subnet, "--ipam-opt", "gateway=first")
	}
	c.crowd(c.Engines, "small", "first", 3)
	return c
}

// lostAddress is the address of a container on the host that is lost.
const lostAddress = "10.51.0.28"

// wants starts a container that wants an address of the network small.
func wants(e *Engine, name, address string) error {
	_, err := e.TryDocker("run", "--detach", "--restart", "always", "--name", name, "--network", "small", "--ip", address, Demo)
	return err
}

// evict evicts a host that cannot be reached, as an operator does, and returns when the others know.
func (c *Cluster) evict(lost *Engine, by *Engine, rest ...*Engine) {
	c.t.Helper()
	c.Await("the host is unreachable", []*Engine{by}, func(all []PeerStatus) string {
		for _, p := range all[0].Peers {
			if p.Name == lost.Name && p.Reachable {
				return p.Name + " is reachable"
			}
		}
		return ""
	})
	by.Ringlet("evict", lost.Name)
	c.awaitEvicted(append(rest, by), lost)
}

// awaitEvicted returns when peers know that others were evicted.
func (c *Cluster) awaitEvicted(peers []*Engine, lost ...*Engine) {
	c.t.Helper()
	c.Await("the eviction is known", peers, func(all []PeerStatus) string {
		for _, st := range all {
			for _, p := range st.Peers {
				if p.State != "evicted" && slices.ContainsFunc(lost, func(e *Engine) bool { return e.Name == p.Name }) {
					return fmt.Sprintf("%s holds %s to be %s", st.Self.Name, p.Name, p.State)
				}
			}
		}
		return ""
	})
}

// awaitCutOff returns when a peer knows that it reaches no majority.
func (c *Cluster) awaitCutOff(e *Engine) {
	c.t.Helper()
	c.Await("it knows that it is cut off", []*Engine{e}, func(all []PeerStatus) string {
		if all[0].State != "cut-off" {
			return "it is " + all[0].State
		}
		return ""
	})
}

func (c *Cluster) evictedAndBack() {
	t := c.t
	t.Helper()
	a, b, lost := c.Engines[0], c.Engines[1], c.Engines[2]
	if err := wants(lost, "fixed", lostAddress); err != nil {
		t.Fatal(err)
	}
	_, err := a.TryRinglet("evict", lost.Name)
	refused(t, err, lost.Name)
	before, err := lost.Status()
	if err != nil {
		t.Fatal(err)
	}
	c.AwaitReady(c.Engines...) // the host has the space that it asked for
	c.Cut(lost)
	c.evict(lost, a, b)
	c.crowd(c.Engines, "small", "evicted", 2)
	refused(t, wants(a, "thief", lostAddress), lostAddress, lost.Name)
	kept := endpoints(lost)
	c.union("while a host is evicted")

	c.Heal(lost)
	c.AwaitReady(c.Engines...)
	now, err := lost.Status()
	if err != nil {
		t.Fatal(err)
	}
	if now.Self.ID != before.Self.ID {
		t.Errorf("%s left as %s and came back as %s", lost.Name, before.Self.ID, now.Self.ID)
	}
	if got := endpoints(lost); !slices.Equal(got, kept) {
		t.Errorf("containers of %s had %v and have %v", lost.Name, kept, got)
	}
	_, err = a.TryDocker("start", "thief")
	refused(t, err, "held by container fixed", lost.Name)
	c.union("after an evicted host came back")
}

// A host that runs, and is only cut off, is given up, and one of its addresses goes to another host. When it can be reached
// again it is suspended, and no other host gets what its containers have. When it has started over it has all others as
// before, and tells of the one until the other host gives that up.
func (c *Cluster) forgottenUnderContainers() {
	t := c.t
	t.Helper()
	a, b, lost := c.Engines[0], c.Engines[1], c.Engines[2]
	kept := endpoints(lost)
	c.Cut(lost)
	c.evict(lost, a, b)
	c.forget(a, lost.Name)
	a.Docker("start", "thief")
	if got := sameAddress(a, "small", "thief"); got != netip.MustParseAddr(lostAddress) {
		t.Errorf("got %v, want %v", got, lostAddress)
	}

	c.Heal(lost)
	c.awaitSuspended(lost, "ringlet rejoin")
	for _, at := range kept {
		if at != netip.MustParseAddr(lostAddress) {
			refused(t, wants(a, "late", at.String()), at.String())
			a.Docker("rm", "late")
		}
	}
	c.rejoins(lost)
	c.Await("the host that is back tells of the one conflict", []*Engine{lost}, func(all []PeerStatus) string {
		var told []string
		for _, p := range all[0].Problems {
			if p.Code == "conflict" {
				told = append(told, p.Text)
			}
		}
		if len(told) != 1 || !strings.Contains(told[0], lostAddress) {
			return fmt.Sprintf("%s is %s, and tells of %q", lost.Name, all[0].State, told)
		}
		return ""
	})
	c.Await("another host shows it, too", []*Engine{b}, func(all []PeerStatus) string {
		for _, p := range all[0].Problems {
			if p.Code == "elsewhere" && strings.Contains(p.Text, "on "+lost.Name) && strings.Contains(p.Text, lostAddress) {
				return ""
			}
		}
		return fmt.Sprintf("%s has the problems %+v", b.Name, all[0].Problems)
	})
	for _, at := range kept {
		if at != netip.MustParseAddr(lostAddress) {
			refused(t, wants(a, "late", at.String()), at.String(), lost.Name)
			a.Docker("rm", "late")
		}
	}
	a.Docker("stop", "thief")
	c.AwaitReady(c.Engines...)
	if got := endpoints(lost); !slices.Equal(got, kept) {
		t.Errorf("containers of %s had %v and have %v", lost.Name, kept, got)
	}
	_, err := a.TryDocker("start", "thief")
	refused(t, err, lostAddress, lost.Name)
	c.union("after a host that was given up under its containers came back")
}

// forget gives up the space of a host that was evicted, by its name or ID, once all voters miss it.
func (c *Cluster) forget(by *Engine, lost string) {
	c.t.Helper()
	Eventually(c.t, mended, "all voters miss the host that was lost", func() bool {
		_, err := by.TryRinglet("forget", lost, "--dry-run")
		return err == nil
	})
	by.Ringlet("forget", lost)
}

// A host is lost and given up: all of its space is the others'.
func (c *Cluster) goneForGood() {
	t := c.t
	t.Helper()
	a, b, lost := c.Engines[0], c.Engines[1], c.Engines[2]
	lost.PowerOff()
	_, err := a.TryRinglet("forget", lost.Name)
	refused(t, err, lost.Name)
	c.evict(lost, a, b)
	refused(t, wants(b, "early", lostAddress), lostAddress, lost.Name)
	c.forget(a, lost.Name)
	c.AwaitReady(a, b)
	a.Docker("start", "thief")
	if got := sameAddress(a, "small", "thief"); got != netip.MustParseAddr(lostAddress) {
		t.Errorf("got %v, want %v", got, lostAddress)
	}
	room := tinyRoom - len(c.union("before all is used", a, b))
	c.crowd([]*Engine{a, b}, "small", "heir", room/2)
	if got, want := len(c.union("with all used", a, b)), tinyRoom-room%2; got != want {
		t.Errorf("%d addresses are in use, want %d", got, want)
	}
}

// The host that was given up starts again after all. Its containers do not get what others have by now.
func (c *Cluster) forgottenReturns() {
	t := c.t
	t.Helper()
	back := c.Engines[2]
	back.Up()
	c.awaitSuspended(back, "ringlet rejoin")
	_, err := back.TryDocker("start", "first-0")
	refused(t, err, "has stopped handing out addresses")
	c.rejoins(back)
	_, err = back.TryDocker("start", "fixed")
	refused(t, err, "address "+lostAddress)
	c.AwaitReady(c.Engines...)
	c.union("after a host that was given up came back")
	for _, e := range c.Engines[:2] {
		if err := disperse(e, "heir"); err != nil {
			t.Fatal(err)
		}
	}
	back.Docker("start", "first-0", "first-1")
	c.union("with its containers started again")
}

// Two of three are gone for good with all they had. The third founds the cluster anew, and they join it as strangers.
func (c *Cluster) recovered() {
	t := c.t
	t.Helper()
	left := c.Engines[2]
	const anew = 2 // containers on each host of the new cluster
	c.hasRoom(left, "small", len(c.Engines)*anew)
	for _, e := range c.Engines[:2] {
		e.Docker("plugin", "rm", "--force", Plugin)
	}
	c.awaitCutOff(left)
	before := endpoints(left)
	left.Ringlet("recover", "--i-know-the-others-are-gone")
	for _, e := range c.Engines[:2] {
		e.InstallPlugin("RINGLET_KEY="+c.Key, "RINGLET_JOIN="+left.Name, patient)
	}
	c.crowd(c.Engines, "small", "anew", anew)
	c.AwaitReady(c.Engines...)
	c.union("in the cluster that was founded anew")
	for _, a := range before {
		if !slices.Contains(endpoints(left), a) {
			t.Errorf("%v is not in use any more", a)
		}
	}
}

// hasRoom returns when so many addresses are free in the space that an engine's own peer has. How much it was given
// depends on what rested with the others when it asked.
func (c *Cluster) hasRoom(e *Engine, network string, addresses int) {
	c.t.Helper()
	Eventually(c.t, mended, fmt.Sprintf("%s has %d addresses", e.Name, addresses), func() bool {
		errs := crowd([]*Engine{e}, network, "spare", addresses)
		if err := disperse(e, "spare"); err != nil {
			c.t.Fatal(err)
		}
		return len(errs) == 0
	})
}
