package e2e

import (
	"strings"
	"testing"
)

// Engines from 29 on tell the names of containers. By its name a container keeps its address when it is made anew, and has
// what is reserved for it on whatever host it starts, which nobody else has.
func TestClusterNames(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 2, "RINGLET_REST=5s")
	a, b := c.Engines[0], c.Engines[1]
	if a.release() < 29 {
		t.Skip("skipped: this engine is older than 29, and does not tell the names of containers")
	}
	c.Install()
	c.AwaitReady(a, b)
	for _, e := range c.Engines {
		e.ImportDemo()
		e.lan("lan", "10.58.0.0/24", "--ipam-opt", "gateway=none")
	}

	web := runDemo(a, "lan", "web")
	a.Docker("rm", "--force", "web")
	for _, name := range []string{"other-a", "other-b"} {
		if got := runDemo(a, "lan", name); got == web {
			t.Errorf("%s has %v, which web had a moment ago", name, got)
		}
	}
	if got := runDemo(a, "lan", "web"); got != web {
		t.Errorf("web has %v after it was made anew, it had %v", got, web)
	}
	a.Docker("restart", "web")
	if got := sameAddress(a, "lan", "web"); got != web {
		t.Errorf("web has %v after a restart, it had %v", got, web)
	}
	if out := a.Ringlet("who", web.String()); !strings.Contains(out, "web") {
		t.Errorf("the name of its container is not told:\n%s", out)
	}

	const kept = "10.58.0.200"
	a.Ringlet("reserve", "add", kept, "--for", "db")
	for _, e := range []*Engine{b, a} {
		Eventually(t, readyLimit, "it is known on "+e.Name, func() bool {
			out, err := e.TryRinglet("reserve", "ls")
			return err == nil && strings.Contains(out, kept)
		})
		_, err := e.TryDocker("run", "--rm", "--name", "thief", "--network", "lan", "--ip", kept, Demo)
		refused(t, err, "address "+kept, "db")
		if got := runDemo(e, "lan", "db"); got.String() != kept {
			t.Errorf("db has %v on %s, and %s is reserved for it", got, e.Name, kept)
		}
		same(e, "with what is reserved for db")
		e.Docker("rm", "--force", "db")
	}
	c.unique("by name", a, b)
	c.renamed(a)
}

// renamed has a container get the name of one that was renamed when it had just started, and ask for its address. The engine
// is asked which it is, while it waits for the answer.
func (c *Cluster) renamed(e *Engine) {
	c.t.Helper()
	const address = "10.58.0.77"
	for _, name := range []string{"front", "next"} {
		e.Docker("create", "--name", name, "--network", "lan", "--ip", address, Demo)
	}
	_, err := e.Try("sh", "-c", "docker start front && docker rename front back && docker rename next front && docker start front")
	refused(c.t, err, "address "+address, "held by")
	same(e, "after a container was renamed")
}
