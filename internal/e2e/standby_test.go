package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A plugin whose disk is full, or read-only, when it is started again stays: the engine, which starts a plugin once more
// and then gives it up, keeps it. It says why, and serves once the reason is gone, without any docker command.
func TestEnginePluginWithoutItsDisk(t *testing.T) {
	t.Parallel()
	need(t, "pidof", "mkfs.ext4", "losetup", "curl")
	e := Start(t, Config{Name: "host-a"})
	e.CreatePlugin(Plugin)
	e.ImportDemo()
	id := e.PluginID(Plugin)
	data := filepath.Join("/var/lib/docker/plugins", id, "propagated-mount")
	image := filepath.Join(e.Dir(), "data.img")
	e.Run("truncate", "--size", "40M", image)
	e.Run("mkfs.ext4", "-q", "-m", "0", image)
	e.Run("mkdir", "-p", data)
	if _, err := e.Try("mount", "-o", "loop", image, data); err != nil {
		t.Skipf("skipped: no loop device: %v", err)
	}
	// What makes the file system read-only must not be the plugin's own mount, which would stay so.
	aside := filepath.Join(e.Dir(), "aside")
	e.Run("mkdir", aside)
	e.Run("mount", "--bind", data, aside)
	e.Docker("plugin", "enable", Plugin)
	makeNetwork(e, "net", "10.77.0.0/16")
	one := runDemo(e, "net", "one")

	pid := func() string {
		now, err := e.Try("pidof", "-s", "ringlet")
		if err != nil {
			return ""
		}
		return now
	}
	// stays returns when the process that the engine has started again, after the one with the number before, says what
	// is wrong, and has stayed for long enough that the engine has made up its mind.
	stays := func(before, code, reason string) {
		t.Helper()
		var now string
		Eventually(t, readyLimit, "status says: "+reason, func() bool {
			if now = pid(); now == "" || now == before {
				return false
			}
			text, err := e.TryRinglet("status", "-o", "json")
			return ExitCode(err) == 1 && strings.Contains(text, code)
		})
		wait := time.NewTimer(20 * time.Second)
		defer wait.Stop()
		<-wait.C
		if after := pid(); after != now {
			t.Errorf("process %s did not stay, now it is %q", now, after)
		}
		if got := e.Docker("plugin", "inspect", "--format", "{{.Enabled}}", Plugin); got != "true" {
			t.Errorf("the engine has disabled the plugin: %s", got)
		}
		_, err := e.TryDocker("run", "--rm", "--network", "net", Demo)
		refused(t, err, reason, "by itself")
	}
	serves := func(name string) {
		t.Helper()
		Eventually(t, readyLimit, "it serves", func() bool {
			_, err := e.TryRinglet("status")
			return ExitCode(err) != 1
		})
		if two := runDemo(e, "net", name); two == one {
			t.Errorf("%v was handed out twice", one)
		}
	}

	for i := range 400 { // what a start brings from the log to the database needs room then
		e.Ringlet("alloc", "--pool", "10.77.0.0/16", "--for", fmt.Sprint("client-", i))
	}
	filler := filepath.Join(data, "filler")
	_, _ = e.Try("dd", "if=/dev/zero", "of="+filler, "bs=64k") // until the disk is full
	_, _ = e.Try("dd", "if=/dev/zero", "of="+filler+"-2", "bs=512")
	before := pid()
	e.Run("kill", "-KILL", before)
	stays(before, "disk-full", "make room")
	e.Docker("rm", "--force", "one")
	if out := e.Ringlet("free", "--for", "client-7"); !strings.Contains(out, "10.77.") {
		t.Errorf("on a full disk nothing is freed: %s", out)
	}
	e.Run("rm", filler, filler+"-2")
	serves("two")

	e.Freeze() // so that it does not start the plugin again before the disk is read-only
	before = pid()
	e.Run("kill", "-KILL", before)
	Eventually(t, readyLimit, "nothing is open to be written", func() bool {
		_, err := e.Try("mount", "-o", "remount,ro", aside)
		return err == nil
	})
	e.Thaw()
	stays(before, "database-unavailable", "read-only file system")
	if text, _ := e.TryRinglet("doctor"); !strings.Contains(text, "read-only") {
		t.Errorf("doctor does not say why:\n%s", text)
	}

	e.Run("mount", "-o", "remount,rw", aside)
	serves("three")
}

// An engine that starts is not ended by a plugin that waits for its database: engines up to 28.5.2 end where a pool that
// they replay is refused. Networks are there afterwards, and no address is handed out twice.
func TestEngineStartsWhileThePluginWaits(t *testing.T) {
	t.Parallel()
	need(t, "pidof", "flock", "sleep")
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin()
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	e.Docker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.78.0.0/24", "--ipam-opt", "gateway=first", "first")
	e.Docker("run", "--detach", "--restart", "unless-stopped", "--name", "one", "--network", "net", Demo)
	runDemo(e, "first", "two")
	database := filepath.Join("/var/lib/docker/plugins", e.PluginID(Plugin), "propagated-mount", "ringlet.db")

	e.Freeze()
	e.Run("kill", "-KILL", e.Run("pidof", "-s", "ringlet"))
	lock, err := e.spawn(newLog(), "flock", "--no-fork", database, "sleep", "infinity")
	if err != nil {
		t.Fatal(err)
	}
	e.Thaw()
	waits := func() bool {
		text, err := e.TryRinglet("status", "-o", "json")
		return ExitCode(err) == 1 && strings.Contains(text, "database-unavailable")
	}
	Eventually(t, readyLimit, "the plugin waits for its database", waits)
	e.Kill()
	e.Up()
	if !waits() {
		t.Error("the plugin has its database, and the engine was to start without it")
	}
	for _, network := range []string{"net", "first"} {
		e.Docker("network", "inspect", network)
	}
	_, err = e.TryDocker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.79.0.0/24", "new")
	refused(t, err, "by itself")
	if err := lock.end("KILL"); err != nil {
		t.Fatal(err)
	}
	Eventually(t, readyLimit, "it serves", func() bool {
		_, err := e.TryRinglet("status")
		return ExitCode(err) != 1
	})
	makeNetwork(e, "new", "10.79.0.0/24")
	taken := map[netip.Addr]bool{}
	for name, network := range map[string]string{"three": "net", "four": "first", "five": "new"} {
		if a := runDemo(e, network, name); taken[a] || a == netip.MustParseAddr("10.78.0.1") {
			t.Errorf("%v was handed out twice", a)
		} else {
			taken[a] = true
		}
	}
}
