package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// The first host of a cluster was installed with RINGLET_JOIN empty. Its plugin is removed under running containers and
// installed again: with the others in RINGLET_JOIN it is one of them again, without it hands out nothing that they have. Then
// an operator uses what he has, up to the loss of all databases.
func TestClusterFirst(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3, "RINGLET_REST=5s", "RINGLET_EVICT_AFTER=20s", "RINGLET_TOKEN="+verbsToken)
	c.Install()
	for i, e := range c.Engines {
		e.lan("small", smallSubnet, "--ipam-opt", "gateway=first")
		if err := wants(e, "fixed", fixedAt(i)); err != nil {
			t.Fatal(err)
		}
	}
	c.crowd(c.Engines, "small", "first", 3)
	c.union("before")
	c.firstJoinsOthers()
	c.firstForgetsOthers()
	c.verbs()
	c.allLost()
}

func (c *Cluster) firstJoinsOthers() {
	c.t.Helper()
	first := c.Engines[0]
	before := endpoints(first)
	first.Docker("plugin", "rm", "--force", Plugin)
	first.InstallPlugin(append(c.SettingsAnew(first), patient)...)
	c.crowd(c.Engines, "small", "joined", 2)
	c.AwaitReady(c.Engines...)
	c.union("with the others in RINGLET_JOIN")
	for _, a := range before {
		if !slices.Contains(endpoints(first), a) {
			c.t.Errorf("%v is not in use any more", a)
		}
	}
}

// The first host does not know where the others are, and they do not reach it for a while.
func (c *Cluster) firstForgetsOthers() {
	t := c.t
	t.Helper()
	first, others := c.Engines[0], c.Engines[1:]
	before := endpoints(first)
	c.Cut(first)
	first.Docker("plugin", "rm", "--force", Plugin)
	first.InstallPlugin(append(slices.Clone(c.more), "RINGLET_KEY="+c.Key, "RINGLET_TIMEOUT=15s")...) // one after the other, on a network
	c.Await("the first host says what to do", []*Engine{first}, func(all []PeerStatus) string {
		for _, p := range all[0].Problems {
			if p.Level == "failed" && strings.Contains(p.Next, "set RINGLET_JOIN") {
				return ""
			}
		}
		return fmt.Sprintf("%s, %v", all[0].State, all[0].Problems)
	})
	errs := atOnce(
		func() error { return wants(first, "thief-0", fixedAt(1)) },
		func() error { return wants(first, "thief-1", fixedAt(2)) },
		func() error { return errors.Join(crowd([]*Engine{first}, "small", "alone", 2)...) },
	)
	for _, err := range errs {
		refused(t, err, "set RINGLET_JOIN")
	}
	c.crowd(others, "small", "meanwhile", 2)
	c.unique("while the first host has no cluster", c.Engines...)

	c.Heal(first)
	c.AwaitReady(c.Engines...)
	if now := endpoints(first); !slices.Equal(now, before) {
		t.Errorf("containers of %s had %v and have %v", first.Name, before, now)
	}
	for i, other := range others {
		_, err := first.TryDocker("start", fmt.Sprint("thief-", i))
		holds(t, err, fixedAt(i+1), other.Name)
	}
	c.crowd(c.Engines, "small", "found", 2)
	c.union("after the others have found the first host")
}
