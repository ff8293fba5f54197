package e2e

import (
	"os"
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
	e.Docker("plugin", "enable", Plugin)
	makeNetwork(e, "net", "10.77.0.0/24")
	one := runDemo(e, "net", "one")

	pid := func() string {
		now, err := e.Try("pidof", "-s", "ringlet")
		if err != nil {
			return ""
		}
		return now
	}
	// waits kills the process and returns when the next one says why it hands out nothing, and has stayed for long
	// enough that the engine has made up its mind.
	waits := func(reason string) {
		t.Helper()
		before := pid()
		e.Run("kill", "-KILL", before)
		var now string
		Eventually(t, readyLimit, "status says: "+reason, func() bool {
			if now = pid(); now == "" || now == before {
				return false
			}
			text, err := e.TryRinglet("status", "-o", "json")
			return ExitCode(err) == 1 && strings.Contains(text, "database-unavailable") && strings.Contains(text, reason)
		})
		stays := time.NewTimer(20 * time.Second)
		defer stays.Stop()
		<-stays.C
		if after := pid(); after != now {
			t.Errorf("process %s did not stay, now it is %q", now, after)
		}
		if got := e.Docker("plugin", "inspect", "--format", "{{.Enabled}}", Plugin); got != "true" {
			t.Errorf("the engine has disabled the plugin: %s", got)
		}
		_, err := e.TryDocker("run", "--rm", "--network", "net", Demo)
		refused(t, err, reason, "tries again by itself")
		text, _ := e.TryRinglet("doctor")
		if !strings.Contains(text, reason) {
			t.Errorf("doctor does not say %q:\n%s", reason, text)
		}
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

	filler := filepath.Join(data, "filler")
	_, _ = e.Try("dd", "if=/dev/zero", "of="+filler, "bs=64k") // until the disk is full
	_, _ = e.Try("dd", "if=/dev/zero", "of="+filler+"-2", "bs=512")
	waits("no space left on device")
	e.Run("rm", filler, filler+"-2")
	serves("two")

	_, _ = e.Try("dd", "if=/dev/zero", "of="+filler, "bs=64k")
	_, _ = e.Try("dd", "if=/dev/zero", "of="+filler+"-2", "bs=512")
	waits("no space left on device")
	Eventually(t, readyLimit, "nothing is open to be written", func() bool {
		_, err := e.Try("mount", "-o", "remount,ro", data)
		return err == nil
	})
	waits("read-only file system")

	// An engine that starts meanwhile is not ended by that, and its containers keep their addresses.
	e.Kill()
	e.Up()
	if got := e.Docker("plugin", "inspect", "--format", "{{.Enabled}}", Plugin); got != "true" {
		t.Errorf("the engine has disabled the plugin: %s", got)
	}
	e.Run("mount", "-o", "remount,rw", data)
	e.Run("rm", filler, filler+"-2")
	serves("three")
	if _, err := os.Stat(image); err != nil {
		t.Error(err)
	}
}
