package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// rejoin is the command that has a host start over, as an operator types it.
var rejoin = []string{"rejoin", "--set-database-aside"}

// rejoinLimit is how soon a host that starts over is a member of its cluster.
const rejoinLimit = time.Minute

// rejoins has a host start over above its running containers, which notice nothing. It returns when the host is a member.
func (c *Cluster) rejoins(e *Engine) {
	t := c.t
	t.Helper()
	former, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	kept, pids := sorted(t, e), e.pids()
	began := time.Now()
	out := e.Ringlet(rejoin...)
	if took := time.Since(began); took > rejoinLimit {
		t.Errorf("%s was a member after %v, want %v at most", e.Name, took, rejoinLimit)
	}
	if !strings.Contains(out, "started over: ") || !strings.Contains(out, "member: ") {
		t.Errorf("rejoin printed %s", out)
	}
	now, err := e.Status()
	if err != nil {
		t.Fatal(err)
	}
	if now.Self.ID == former.Self.ID || now.Cluster != former.Cluster {
		t.Errorf("%s was %s in %s and is %s in %s", e.Name, former.Self.ID, former.Cluster, now.Self.ID, now.Cluster)
	}
	if got := sorted(t, e); !slices.Equal(got, kept) {
		t.Errorf("containers of %s had %v and have %v", e.Name, kept, got)
	}
	if got := e.pids(); got != pids {
		t.Errorf("the containers of %s were %s and are %s", e.Name, pids, got)
	}
}

// sorted is [attachments], in order, or the end of the test.
func sorted(t testing.TB, e *Engine) []attachment {
	t.Helper()
	all, err := attachments(e)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(all, func(a, b attachment) int { return a.address.Compare(b.address) })
	return all
}

// pids returns the processes of an engine's running containers.
func (e *Engine) pids() string {
	e.t.Helper()
	ids := strings.Fields(e.Docker("ps", "--quiet", "--no-trunc"))
	if len(ids) == 0 {
		return ""
	}
	slices.Sort(ids)
	return e.Docker(append([]string{"inspect", "--format", "{{.Id}} {{.State.Pid}}"}, ids...)...)
}

// awaitSuspended returns when a host says that it is suspended, and what to do.
func (c *Cluster) awaitSuspended(e *Engine, next string) {
	c.t.Helper()
	c.Await(e.Name+" is suspended", []*Engine{e}, func(all []PeerStatus) string {
		for _, p := range all[0].Problems {
			if all[0].State == "suspended" && p.Level == "failed" && strings.Contains(p.Next, next) {
				return ""
			}
		}
		return fmt.Sprintf("%s is %s: %v", e.Name, all[0].State, all[0].Problems)
	})
}

// client checks that a client of ringlet alloc has its address on a host.
func (c *Cluster) client(e *Engine, id string, want netip.Addr) {
	c.t.Helper()
	Eventually(c.t, mended, id+" has its address again", func() bool {
		out, err := e.TryRinglet("lookup", "--for", id)
		return err == nil && strings.Contains(out, want.String())
	})
}

// The first host of a cluster, installed with RINGLET_JOIN empty and RINGLET_BOOTSTRAP=1, is cut off, evicted and given up
// under its running containers, and its engine and its plugin end meanwhile. When they start the engine comes up, the
// containers run on, and the host says that it is suspended: it hands out nothing, and no other host hands out what its
// containers have. Then it starts over, and has all as before.
func TestClusterRejoin(t *testing.T) {
	t.Parallel()
	need(t, "pkill")
	c := NewClusterOf(t, Config{LiveRestore: true}, 3, "RINGLET_REST=5s", "RINGLET_TIMEOUT=20s")
	first, others := c.Engines[0], c.Engines[1:]
	for _, e := range c.Engines {
		settings := c.Settings(e)
		if e == first {
			settings = append(settings, "RINGLET_BOOTSTRAP=1")
		}
		e.InstallPlugin(settings...)
		e.ImportDemo()
	}
	c.AwaitReady(c.Engines...)
	for _, e := range c.Engines {
		e.lan("small", smallSubnet, "--ipam-opt", "gateway=first")
	}
	c.crowd(c.Engines, "small", "first", 3)
	shim := netip.MustParseAddr(strings.TrimSpace(first.Ringlet("alloc", "--pool", smallSubnet, "--for", "shim")))
	c.union("before")
	kept, pids := sorted(t, first), first.pids()
	lives := func(when string) {
		t.Helper()
		if got := sorted(t, first); !slices.Equal(got, kept) {
			t.Errorf("%s containers of %s had %v and have %v", when, first.Name, kept, got)
		}
		if got := first.pids(); got != pids {
			t.Errorf("%s the containers of %s were %s and are %s", when, first.Name, pids, got)
		}
	}

	c.Cut(first)
	c.evict(first, others[0], others[1])
	c.forget(others[0], first.Name)
	first.Kill()
	first.Run("pkill", "-KILL", "-x", "ringlet")
	c.Heal(first)
	first.Up()
	c.awaitSuspended(first, "ringlet rejoin")
	lives("as it is suspended")
	for _, err := range crowd([]*Engine{first}, "small", "suspended", 2) {
		refused(t, err, "has stopped handing out addresses")
	}
	if n := len(crowd([]*Engine{first}, "small", "more", 1)); n != 1 {
		t.Error("a suspended host has handed out an address")
	}
	refused(t, useUp(first, smallSubnet), "has stopped handing out addresses")
	c.Await("the others say what to do on it", others, func(all []PeerStatus) string {
		for _, st := range all {
			if !strings.Contains(fmt.Sprint(st.Problems), first.Name) || !strings.Contains(fmt.Sprint(st.Problems), "ringlet rejoin") {
				return fmt.Sprintf("%s says %v", st.Self.Name, st.Problems)
			}
		}
		return ""
	})
	crowd(others, "small", "greedy", 28) // more than there is
	c.unique("while a host that was given up is suspended", c.Engines...)
	for _, e := range others {
		for _, a := range held(e) {
			if a == shim {
				t.Errorf("%s has handed out %v, which a client of %s has", e.Name, a, first.Name)
			}
		}
		if err := disperse(e, "greedy"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := first.TryDocker("rm", "--force", "suspended-0", "suspended-1", "more-0"); err != nil {
		t.Fatal(err)
	}

	c.rejoins(first)
	c.AwaitReady(c.Engines...)
	lives("after it started over")
	c.client(first, "shim", shim)
	c.union("after it started over")
	c.crowd(c.Engines, "small", "later", 2)
	first.Restart() // its plugin, too
	c.AwaitReady(c.Engines...)
	c.client(first, "shim", shim)
	c.union("after its engine started again")
}

// A host that has left by force, under its running containers, starts over: it has all that it had.
func TestClusterRejoinAfterLeave(t *testing.T) {
	t.Parallel()
	c := newSharing(t, smallSubnet)
	left := c.Engines[2]
	shim := netip.MustParseAddr(strings.TrimSpace(left.Ringlet("alloc", "--pool", smallSubnet, "--for", "shim")))
	c.union("before")
	_, err := left.TryRinglet(rejoin...)
	refused(t, err, "no reason to rejoin")
	left.Ringlet("leave", "--force")
	for _, err := range crowd([]*Engine{left}, "small", "gone", 1) {
		refused(t, err, "left")
	}
	_, err = left.TryRinglet("rejoin")
	if ExitCode(err) != 2 {
		t.Errorf("rejoin without what it takes: %v", err)
	}
	c.rejoins(left)
	c.AwaitReady(c.Engines...)
	c.client(left, "shim", shim)
	c.crowd(c.Engines, "small", "later", 2)
	c.union("after it started over")
}

// The data of a host is moved: its database lies in another file. The host is suspended until somebody says that no other
// copy runs, and then goes on as the same peer.
func TestClusterMoved(t *testing.T) {
	t.Parallel()
	c := NewClusterOf(t, Config{LiveRestore: true}, 3, "RINGLET_REST=5s", "RINGLET_TIMEOUT=20s")
	c.Install()
	for _, e := range c.Engines {
		e.lan("small", smallSubnet, "--ipam-opt", "gateway=first")
	}
	c.crowd(c.Engines, "small", "first", 3)
	c.union("before")
	moved := c.Engines[2]
	before, err := moved.Status()
	if err != nil {
		t.Fatal(err)
	}
	kept, pids := sorted(t, moved), moved.pids()
	moved.Docker("plugin", "disable", "--force", Plugin)
	moved.Run("bash", "-euc", `cp "$1" "$1.copy"; mv "$1.copy" "$1"`, "move", moved.database())
	moved.Docker("plugin", "enable", Plugin)
	c.awaitSuspended(moved, "ringlet trust")
	for _, err := range crowd([]*Engine{moved}, "small", "moved", 1) {
		refused(t, err, "has stopped handing out addresses")
	}
	moved.Docker("rm", "--force", "moved-0")
	moved.Restart() // it is answered as it starts
	c.awaitSuspended(moved, "ringlet trust")
	if got := sorted(t, moved); !slices.Equal(got, kept) || moved.pids() != pids {
		t.Errorf("containers of %s had %v and have %v", moved.Name, kept, got)
	}
	_, err = moved.TryRinglet("trust")
	if ExitCode(err) != 2 {
		t.Errorf("trust without what it takes: %v", err)
	}
	moved.Ringlet("trust", "--i-know-no-other-copy-runs")
	c.AwaitReady(c.Engines...)
	now, err := moved.Status()
	if err != nil {
		t.Fatal(err)
	}
	if now.Self.ID != before.Self.ID {
		t.Errorf("%s was %s and is %s", moved.Name, before.Self.ID, now.Self.ID)
	}
	_, err = moved.TryRinglet("trust", "--i-know-no-other-copy-runs")
	refused(t, err, "already")
	c.crowd(c.Engines, "small", "later", 2)
	c.union("after its data was moved")
	moved.Restart()
	c.AwaitReady(c.Engines...)
}
