package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
)

// What ringlet invite prints adds a host: the key from a setting at first, then from a file.
func TestClusterInvite(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3)
	a, b, third := c.Engines[0], c.Engines[1], c.Engines[2]
	a.InstallPlugin(append(c.more, "RINGLET_KEY="+c.Key, "RINGLET_CLUSTER=invited")...)
	c.AwaitReady(a)
	a.invites(b)
	c.AwaitReady(a, b)
	b.invites(third)
	c.AwaitReady(c.Engines...)
	for _, e := range c.Engines {
		e.ImportDemo()
		e.lan("lan", lanSubnet)
	}
	c.crowd(c.Engines, "lan", "guest", 2)
	c.union("of hosts that were invited")
}

// invites does for another host what ringlet invite prints. The hosts of the test share their files, so ssh is a shell.
func (e *Engine) invites(other *Engine) {
	t := e.t
	t.Helper()
	var in struct {
		Copy, Here, There []string
		Ports             string
	}
	out := e.Ringlet("invite", "--host", other.Name, "-o", "json")
	if err := json.Unmarshal([]byte(out), &in); err != nil {
		t.Fatal(err)
	}
	if len(in.Copy) == 0 || len(in.Here) == 0 || !strings.Contains(in.Ports, "7950") {
		t.Errorf("%s is invited with %s", other.Name, out)
	}
	work := t.TempDir()
	script := func(lines []string) string {
		text := "set -eu\ncd " + work + "\n" + strings.Join(lines, "\n")
		text = strings.ReplaceAll(text, "ssh "+other.Name+" ", "sh -c ")
		return strings.ReplaceAll(text, "tar -C build ", "tar -C "+filepath.Dir(Built(t, "plugin"))+" ")
	}
	e.Run("sh", "-c", script(in.Copy))
	e.Run("sh", "-c", script(in.Here))
	if key := filepath.Join(work, "ringlet.key"); len(e.File(key)) < 44 {
		t.Errorf("%s has %q", key, e.File(key))
	}
	other.Run("sh", "-c", script(in.There))
}
