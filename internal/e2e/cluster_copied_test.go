package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A copy of a host's database is started beside its original. On another disk its host is suspended, and the original hears
// nothing of it. On a disk that was copied with
// the whole machine the two meet, and both stop: containers keep what they have, and status says what to do.
func TestClusterCopied(t *testing.T) {
	t.Parallel()
	need(t, "pkill", "stat")
	c := NewCluster(t, 4, "RINGLET_REST=5s")
	a, b, original, twin := c.Engines[0], c.Engines[1], c.Engines[2], c.Engines[3]
	for _, e := range c.Engines[:3] {
		e.ImportDemo()
		e.CreatePlugin(Plugin, c.Settings(e)...)
		if e == original {
			e.diskInMemory()
		}
		e.Docker("plugin", "enable", Plugin)
	}
	c.AwaitReady(a, b, original)
	for _, e := range c.Engines[:3] {
		e.lan("lan", "10.56.0.0/24", "--ipam-opt", "gateway=first")
	}
	c.crowd(c.Engines[:3], "lan", "first", 3)
	c.union("before the copy", a, b, original)

	twin.ImportDemo()
	settings := append(c.Settings(original), "RINGLET_NAME="+original.Name)
	twin.CreatePlugin(Plugin, settings...)
	c.copyDatabase(original, twin, "")
	twin.Docker("plugin", "enable", Plugin)
	c.awaitSuspended(twin, "ringlet trust")
	if out, err := twin.TryRinglet("alloc", "--pool", "10.56.0.0/24", "--for", "copy"); err == nil {
		t.Errorf("a copied database hands out %s", out)
	}
	c.AwaitReady(a, b, original)

	twin.Docker("plugin", "rm", "--force", Plugin)
	twin.CreatePlugin(Plugin, settings...)
	twin.diskInMemory()
	c.copyDatabase(original, twin, original.Run("stat", "--format", "%i", original.database()))
	twin.Docker("plugin", "enable", Plugin)
	c.Await("both say that there is another", []*Engine{original, twin}, func(all []PeerStatus) string {
		for _, st := range all {
			if st.State != "suspended" || st.Verdict != "failed" {
				return fmt.Sprintf("%s and %s: %v", all[0].State, all[1].State, st.Problems)
			}
		}
		return ""
	})
	lives := endpoints(original)
	for _, err := range crowd([]*Engine{original}, "lan", "copy", 2) {
		refused(t, err, "has stopped handing out addresses", "copy")
	}
	lan := twin.tryLan("lan", "10.56.0.0/24", "--ipam-opt", "gateway=first")
	if lan == nil && twin.release() >= 29 { // it asks for no gateway
		lan = errors.Join(crowd([]*Engine{twin}, "lan", "copy", 1)...)
	}
	refused(t, lan, "has stopped handing out addresses", "copy")
	refused(t, useUp(twin, "10.56.0.0/24"), "has stopped handing out addresses", "copy")
	if now := endpoints(original); !slices.Equal(now, lives) {
		t.Errorf("containers of %s had %v and have %v", original.Name, lives, now)
	}
	c.crowd([]*Engine{a, b}, "lan", "meanwhile", 2)

	twin.Docker("plugin", "rm", "--force", Plugin)
	c.crowd([]*Engine{a, b}, "lan", "alone", 2)
	c.unique("beside a copy", c.Engines...)
}

// A database is copied while the plugin runs, and put back over the file later, as by a snapshot of the whole machine. Its
// boots are as high as ever; what was decided since at the host's request shows it.
func TestClusterPutBack(t *testing.T) {
	t.Parallel()
	need(t, "pkill")
	c := NewCluster(t, 2, "RINGLET_REST=5s")
	for _, e := range c.Engines {
		e.ImportDemo()
		e.CreatePlugin(Plugin, c.Settings(e)...)
		e.Docker("plugin", "enable", Plugin)
	}
	c.AwaitReady(c.Engines...)
	for _, e := range c.Engines {
		e.lan("lan", "10.56.0.0/24", "--ipam-opt", "gateway=first")
	}
	c.crowd(c.Engines, "lan", "first", 2)
	host := c.Engines[1]
	content, written := host.readDatabase()
	host.Ringlet("pool", "create", "10.57.0.0/24")
	c.crowd([]*Engine{host}, "lan", "later", 2)

	host.Docker("plugin", "disable", "--force", Plugin)
	for suffix, old := range map[string][]byte{"": content, walSuffix: written} {
		put := filepath.Join(host.dir, "old.db")
		if err := os.WriteFile(put, old, 0o600); err != nil {
			t.Fatal(err)
		}
		host.Run("bash", "-euc", `cat "$1" >"$2"`, "put", put, host.database()+suffix) // the same file
	}
	for _, start := range []string{"old", "older"} { // no start makes it good
		host.Docker("plugin", "enable", Plugin)
		c.Await("its database is known to be an old one", []*Engine{host}, func(all []PeerStatus) string {
			if st := all[0]; st.State != "suspended" || !strings.Contains(fmt.Sprint(st.Problems), "its database is an old one or a copy") {
				return fmt.Sprintf("it is %s: %v", st.State, st.Problems)
			}
			return ""
		})
		for _, err := range crowd([]*Engine{host}, "lan", start, 1) {
			refused(t, err, "its database is an old one or a copy")
		}
		c.crowd(c.Engines[:1], "lan", "meanwhile", 1)
		if err := disperse(c.Engines[0], "meanwhile"); err != nil {
			t.Error(err)
		}
		host.Docker("plugin", "disable", "--force", Plugin)
	}

	host.Docker("plugin", "enable", Plugin)
	c.awaitSuspended(host, "ringlet rejoin") // as status says
	c.rejoins(host)
	c.AwaitReady(c.Engines...)
	c.crowd(c.Engines, "lan", "after", 2)
	c.union("after it started over")
}

// database returns the path of the plugin's database on the host.
func (e *Engine) database() string {
	e.t.Helper()
	return filepath.Join("/var/lib/docker/plugins", e.PluginID(Plugin), "propagated-mount", "ringlet.db")
}

// diskInMemory gives the plugin, which is not enabled yet, a disk of its own for its data: in memory, where files are
// numbered from the first on, so that a copy of the whole disk can be made.
func (e *Engine) diskInMemory() {
	e.t.Helper()
	data := filepath.Dir(e.database())
	e.Run("mkdir", "-p", data)
	e.Run("mount", "-t", "tmpfs", "tmpfs", data)
}

// walSuffix ends the name of a database's log.
const walSuffix = ".wal"

// readDatabase returns what the database of the plugin, which goes on, and its log have at one moment.
func (e *Engine) readDatabase() (content, log []byte) {
	e.t.Helper()
	e.Run("pkill", "-STOP", "-x", "ringlet")
	content, err := os.ReadFile(e.path(e.database()))
	log, noLog := os.ReadFile(e.path(e.database() + walSuffix))
	e.Run("pkill", "-CONT", "-x", "ringlet")
	if err := errors.Join(err, noLog); err != nil {
		e.t.Fatal(err)
	}
	return content, log
}

// copyDatabase copies the database of one host's plugin, which goes on, and its log to another's, which is not enabled.
// Inode, if not empty, is the number that the copy of the database must have.
func (c *Cluster) copyDatabase(from, to *Engine, inode string) {
	c.t.Helper()
	content, written := from.readDatabase()
	source := filepath.Join(to.dir, "copy.db")
	err := os.WriteFile(source, content, 0o600)
	if err := errors.Join(err, os.WriteFile(source+walSuffix, written, 0o600)); err != nil {
		c.t.Fatal(err)
	}
	to.Run("bash", "-euc", `
		mkdir -p "${2%/*}"
		cd "${2%/*}"
		for i in {1..100}; do
			touch copy-$i
			[[ -n $3 && $(stat --format %i copy-$i) != "$3" ]] && continue
			cp "$1" copy-$i
			mv copy-$i "$2"
			break
		done
		rm -f copy-*
		[[ -s $2 ]]
		cp "$1.wal" "$2.wal"`, "copy", source, to.database(), inode)
}
