package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// keyFile is where a host has the keys: below /var/run, of which the plugin has a mount.
const keyFile = "/run/ringlet.keys"

// keyFileSetting is how the plugin sees it.
const keyFileSetting = "RINGLET_KEY_FILE=/run/docker/host/ringlet.keys"

// writeKeys replaces the host's key file.
func (e *Engine) writeKeys(keys ...string) {
	e.t.Helper()
	text := "# the first encrypts\n" + strings.Join(keys, "\n") + "\n"
	if err := os.WriteFile(e.path(keyFile), []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// A host with a wrong key is told so, on both sides, and mixes with nobody; then keys are replaced on a cluster that runs.
func TestClusterKeys(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3)
	a, b, wrong := c.Engines[0], c.Engines[1], c.Engines[2]
	first, second, foreign := NewKey(), NewKey(), NewKey()
	for _, e := range c.Engines {
		e.ImportDemo()
	}
	a.writeKeys(first)
	a.InstallPlugin(keyFileSetting)
	b.writeKeys(first)
	b.InstallPlugin(keyFileSetting, "RINGLET_JOIN=host-a")
	c.AwaitReady(a, b)
	wrong.InstallPlugin("RINGLET_KEY="+foreign, "RINGLET_JOIN=host-a,host-b", "RINGLET_TIMEOUT=5s")
	c.wrongKey(a, b, wrong)

	wrong.Docker("plugin", "disable", "--force", Plugin)
	wrong.writeKeys(first)
	wrong.Docker("plugin", "set", Plugin, "RINGLET_KEY=", keyFileSetting)
	wrong.Docker("plugin", "enable", Plugin)
	c.AwaitReady(c.Engines...)
	wrong.lan("lan", lanSubnet)
	c.crowd(c.Engines, "lan", "right", 2)
	c.union("with the right key")
	c.rotate(first, second)
}

// wrongKey checks what is told of a host that has another key than the two, and that they go on without it.
func (c *Cluster) wrongKey(a, b, wrong *Engine) {
	t := c.t
	t.Helper()
	c.Await("both sides say that the keys differ", c.Engines, func(all []PeerStatus) string {
		tells := func(st PeerStatus) bool {
			return slices.ContainsFunc(st.Problems, func(p Problem) bool { return strings.Contains(p.Text, "encrypts with a key") && p.Next != "" })
		}
		switch joined := all[2]; {
		case !tells(joined):
			return fmt.Sprintf("%s has the problems %v", wrong.Name, joined.Problems)
		case !tells(all[0]) && !tells(all[1]):
			return fmt.Sprintf("the others have the problems %v and %v", all[0].Problems, all[1].Problems)
		case joined.State != "joining" || joined.Slot != 0:
			return fmt.Sprintf("%s is %s, at slot %d", wrong.Name, joined.State, joined.Slot)
		case len(all[0].Peers) != 2 || len(all[1].Peers) != 2:
			return fmt.Sprintf("the others have peers %v", all[0].Peers)
		}
		return ""
	})
	for _, e := range []*Engine{a, b} {
		e.lan("lan", lanSubnet)
	}
	c.crowd([]*Engine{a, b}, "lan", "one", 2)
	_, err := wrong.TryDocker("network", "create", "--ipam-driver", Plugin, "--subnet", lanSubnet, "lan")
	refused(t, err, "ringlet on host-c", "ringlet status")
	c.union("while one has a wrong key", a, b)
}

// rotate replaces one key by another, in the order that never leaves two hosts without a common key. Containers start
// everywhere at every step, also while hosts encrypt with different keys.
func (c *Cluster) rotate(from, to string) {
	t := c.t
	t.Helper()
	step := 0
	change := func(engines []*Engine, keys ...string) {
		t.Helper()
		marks := make([]int, len(engines))
		for i, e := range engines {
			marks[i] = e.Log.Mark()
			e.writeKeys(keys...)
		}
		for i, e := range engines {
			if _, err := e.Log.Wait(t.Context(), marks[i], time.Minute, Contains("keys changed")); err != nil {
				t.Fatal(err)
			}
		}
		step++
		c.crowd(c.Engines, "lan", fmt.Sprint("step-", step), 1)
		c.AwaitReady(c.Engines...)
	}
	change(c.Engines, from, to)
	change(c.Engines[:1], to, from)
	change(c.Engines[1:], to, from)
	change(c.Engines, to)
	c.union("after the keys were replaced")
}
