package e2e

import (
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
	slices.Sort(ids)
	return e.Docker(append([]string{"inspect", "--format", "{{.Id}} {{.State.Pid}}"}, ids...)...)
}

// client checks that a client of ringlet alloc has its address on a host.
func (c *Cluster) client(e *Engine, id string, want netip.Addr) {
	c.t.Helper()
	Eventually(c.t, mended, id+" has its address again", func() bool {
		out, err := e.TryRinglet("lookup", "--for", id)
		return err == nil && strings.Contains(out, want.String())
	})
}

// A host that has left by force, under its running containers, starts over: it has all that it had.
func TestClusterRejoinAfterLeave(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3, "RINGLET_REST=5s", "RINGLET_TIMEOUT=20s")
	c.Install()
	for _, e := range c.Engines {
		e.lan("small", smallSubnet, "--ipam-opt", "gateway=first")
	}
	c.crowd(c.Engines, "small", "first", 3)
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
