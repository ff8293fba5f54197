package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// keyFileSetting is how the plugin sees the file with the keys, which lies in its data.
const keyFileSetting = "RINGLET_KEY_FILE=/data/keys"

// writeKeys replaces the host's key file.
func (e *Engine) writeKeys(keys ...string) {
	e.t.Helper()
	file := filepath.Join(filepath.Dir(e.database()), "keys")
	e.Run("mkdir", "-p", filepath.Dir(file)) // before the plugin's first start
	text := "# the first encrypts\n" + strings.Join(keys, "\n") + "\n"
	if err := os.WriteFile(e.path(file), []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// installWithKeys installs the plugin with a key file.
func (e *Engine) installWithKeys(key string, settings ...string) {
	e.t.Helper()
	e.CreatePlugin(Plugin, append(settings, keyFileSetting)...)
	e.writeKeys(key)
	e.Docker("plugin", "enable", Plugin)
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
	a.installWithKeys(first)
	b.installWithKeys(first, "RINGLET_JOIN=host-a")
	c.AwaitReady(a, b)
	wrong.InstallPlugin("RINGLET_KEY="+foreign, "RINGLET_JOIN=host-a,host-b", "RINGLET_TIMEOUT=5s")
	c.wrongKey(a, b, wrong)

	wrong.Docker("plugin", "disable", "--force", Plugin)
	wrong.writeKeys(first)
	wrong.Docker("plugin", "set", Plugin, "RINGLET_KEY=", "RINGLET_TIMEOUT=", keyFileSetting)
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
		tells := func(st PeerStatus, what string) bool {
			return slices.ContainsFunc(st.Problems, func(p Problem) bool { return strings.Contains(p.Text, what) && p.Next != "" })
		}
		switch joined := all[2]; {
		case !tells(joined, "has another key"): // it is not answered, so it cannot tell more
			return fmt.Sprintf("%s has the problems %v", wrong.Name, joined.Problems)
		case !tells(all[0], "encrypts with a key") && !tells(all[1], "encrypts with a key"):
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

// rotate replaces one key by another, in the order that never leaves two hosts without a common key: the first step in the
// files, the others by command. Containers start everywhere at every step, also while hosts encrypt with different keys.
func (c *Cluster) rotate(from, to string) {
	t := c.t
	t.Helper()
	step := 0
	change := func(engines []*Engine, how func(*Engine)) {
		t.Helper()
		marks := make([]int, len(engines))
		for i, e := range engines {
			marks[i] = e.Log.Mark()
			how(e)
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
	command := func(verb string) func(*Engine) {
		return func(e *Engine) {
			e.Run("bash", "-euc", `"$1" keys rotate "$2" - <<<"$3"`, "rotate", Built(t, "ringlet"), verb, to)
		}
	}
	before := c.fingerprints(1)
	change(c.Engines, func(e *Engine) { e.writeKeys(from, to) })
	c.fingerprints(2)
	change(c.Engines[:1], command("use"))
	change(c.Engines[1:], command("use"))
	change(c.Engines, command("drop"))
	if after := c.fingerprints(1); after == before {
		t.Errorf("the key is still %s", after)
	}
	for _, e := range c.Engines {
		if text := e.File(filepath.Join(filepath.Dir(e.database()), "keys")); strings.Contains(text, from) || !strings.Contains(text, to) {
			t.Errorf("the key file of %s has not the new key alone", e.Name)
		}
	}
	c.union("after the keys were replaced")
}

// fingerprints checks that all hosts have the same keys, so many of them, and returns their fingerprints. None is shown itself.
func (c *Cluster) fingerprints(n int) string {
	c.t.Helper()
	first := ""
	for _, e := range c.Engines {
		out := e.Ringlet("keys", "ls", "-o", "json")
		var has struct {
			Keys []struct{ Fingerprint string }
		}
		if err := json.Unmarshal([]byte(out), &has); err != nil {
			c.t.Fatal(err)
		}
		if len(has.Keys) != n {
			c.t.Errorf("%s has %d keys, want %d", e.Name, len(has.Keys), n)
		}
		if all := fmt.Sprint(has.Keys); first == "" {
			first = all
		} else if all != first {
			c.t.Errorf("%s has the keys %s, another host %s", e.Name, all, first)
		}
	}
	return first
}
