package e2e

import (
	"fmt"
	"net/netip"
	"slices"
)

// replaced replaces all hosts, one after the other, each in another way, while the containers of the others run.
func (c *Cluster) replaced() {
	t := c.t
	t.Helper()
	for i, how := range []func(*Engine){c.installedAnew, c.rebuilt, c.onAnotherMachine, c.leftAndBack, c.leftForAnotherMachine} {
		e := c.Engines[i]
		kept := map[*Engine][]netip.Addr{}
		for _, other := range c.Others(e) {
			kept[other] = endpoints(other)
		}
		how(e)
		e = c.Engines[i]
		c.AwaitReady(c.Engines...)
		if !slices.Contains(containers(e), "fixed") {
			if err := wants(e, "fixed", fixedAt(i)); err != nil {
				t.Error(err)
			}
		}
		c.crowd(c.Engines, "small", fmt.Sprint("replaced-", i), 1)
		when := "after " + e.Name + " was replaced"
		c.union(when)
		for other, before := range kept {
			now := endpoints(other)
			for _, a := range before {
				if !slices.Contains(now, a) {
					t.Errorf("%s: a container of %s does not have %v any more", when, other.Name, a)
				}
			}
			c.reached([]*Engine{e}, before)
		}
		c.reached(c.Others(e), []netip.Addr{netip.MustParseAddr(fixedAt(i))})
		st, err := e.Status()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range st.Pools {
			if p.Quarantined != 0 {
				t.Errorf("%s: %d addresses of %v are kept back", when, p.Quarantined, p.Pool)
			}
		}
	}
}

// installedAnew removes the plugin of a host with its data under running containers, and installs it again: it is given
// what its former self had, and takes in what they have.
func (c *Cluster) installedAnew(e *Engine) {
	c.t.Helper()
	before := endpoints(e)
	e.Docker("plugin", "rm", "--force", Plugin)
	e.InstallPlugin(c.SettingsAnew(e)...)
	for i, other := range c.Others(e) {
		refused(c.t, wants(other, fmt.Sprint("thief-", i), fixedAt(slices.Index(c.Engines, e))), e.Name)
		other.Docker("rm", "--force", fmt.Sprint("thief-", i))
	}
	c.AwaitReady(c.Engines...)
	if now := endpoints(e); !slices.Equal(now, before) {
		c.t.Errorf("containers of %s had %v and have %v", e.Name, before, now)
	}
}

// rebuilt destroys all that a host has on its disk, and sets it up again: it is given what its former self had.
func (c *Cluster) rebuilt(e *Engine) {
	c.t.Helper()
	e.Wipe()
	e.Up()
	c.setUp(e)
}

// setUp installs the plugin on a host that comes back without any data, and its network.
func (c *Cluster) setUp(e *Engine) {
	c.t.Helper()
	e.ImportDemo()
	e.InstallPlugin(c.SettingsAnew(e)...)
	e.lan("small", smallSubnet, "--ipam-opt", "gateway=first")
}

// onAnotherMachine destroys a host and sets up another machine under its name, which is a stranger: what the former host
// had is kept back until somebody gives it up.
func (c *Cluster) onAnotherMachine(e *Engine) {
	t := c.t
	t.Helper()
	former, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	fixed := fixedAt(slices.Index(c.Engines, e))
	e = c.Replace(e)
	c.setUp(e)
	c.Await("the former host is evicted", c.Engines, func(all []PeerStatus) string {
		for _, st := range all {
			for _, p := range st.Peers {
				if p.ID == former.Self.ID && p.State != "evicted" {
					return fmt.Sprintf("%s holds it to be %s", st.Self.Name, p.State)
				}
			}
		}
		return ""
	})
	refused(t, wants(e, "early", fixed), fixed, e.Name, "forget")
	e.Docker("rm", "--force", "early")
	c.forget(c.Others(e)[0], former.Self.ID)
}

// leftAndBack has a host give its space back and leave, and come back without data.
func (c *Cluster) leftAndBack(e *Engine) {
	c.t.Helper()
	c.leaves(e)
	e.Docker("plugin", "rm", "--force", Plugin)
	c.setUp(e)
}

// leftForAnotherMachine has a host leave, and another machine come under its name.
func (c *Cluster) leftForAnotherMachine(e *Engine) {
	c.t.Helper()
	c.leaves(e)
	c.setUp(c.Replace(e))
}

// leaves has a host without containers and networks give its space back and leave.
func (c *Cluster) leaves(e *Engine) {
	c.t.Helper()
	c.empty(e, "small", "more")
	e.Ringlet("drain")
	e.Ringlet("leave")
	c.AwaitReady(c.Others(e)...)
}
