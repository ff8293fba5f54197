package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// olderPlugin is the environment variable that names the folder of an older release's plugin, from which these tests
// upgrade: make e2e OLD=COMMIT builds it.
const olderPlugin = "RINGLET_E2E_OLD"

// needOld returns the folder of the older release's plugin.
func needOld(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(olderPlugin)
	if dir == "" {
		t.Skipf("skipped: runs with make e2e OLD=COMMIT, which builds the plugin of that commit (%s is not set)", olderPlugin)
	}
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err != nil {
		t.Fatalf("%s: %v", olderPlugin, err)
	}
	return dir
}

// Names of the two releases in the registry of a host.
const (
	olderRelease = RegistryAddress + "/ringlet:older"
	thisRelease  = RegistryAddress + "/ringlet:this"
)

// laterMAC is the MAC of the container for which an address is reserved before the upgrade: engines before 29 tell no name.
const laterMAC = "02:aa:bb:cc:dd:61"

// installOld installs the older release, with both in a registry of the host.
func (e *Engine) installOld(dir string, settings ...string) {
	e.t.Helper()
	e.StartRegistry()
	e.ImportDemo()
	for name, from := range map[string]string{olderRelease: dir, thisRelease: Built(e.t, "plugin")} {
		e.Docker("plugin", "create", name, from)
		e.Docker("plugin", "push", name)
		e.Docker("plugin", "rm", name)
	}
	e.Docker(append([]string{"plugin", "install", "--alias", Plugin, "--grant-all-permissions", olderRelease}, settings...)...)
}

// upgradeOld upgrades the plugin in place, under running containers.
func (e *Engine) upgradeOld() {
	e.t.Helper()
	e.Docker("plugin", "disable", "--force", Plugin)
	e.Docker("plugin", "upgrade", "--grant-all-permissions", "--skip-remote-check", Plugin, thisRelease)
	e.Docker("plugin", "enable", Plugin)
}

// The plugin of an older release is upgraded in place: containers keep their addresses, also over a restart, and what an
// operator reserved and allocated is there.
func TestEngineUpgradeFromOld(t *testing.T) {
	old := needOld(t)
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw})
	e.installOld(old)
	makeNetwork(e, "net", "10.77.0.0/24")
	e.lan("lan", "10.78.0.0/24", "--gateway", "10.78.0.254", "--aux-address", "nas=10.78.0.9")
	for _, network := range []string{"net", "lan"} {
		runDemo(e, network, "one-"+network)
		runDemo(e, network, "two-"+network)
	}
	e.Docker("run", "--detach", "--name", "fixed-net", "--network", "net", "--ip", "10.77.0.77", Demo)
	e.Docker("run", "--detach", "--name", "fixed-lan", "--network", "lan", "--ip", "10.78.0.77", Demo)
	e.Ringlet("alloc", "--pool", "10.78.0.0/24", "--for", "printer", "--ip", "10.78.0.50")
	e.Ringlet("exclude", "add", "10.78.0.60")
	e.Ringlet("reserve", "add", "10.78.0.61", "--for", laterMAC)
	before := map[string]netip.Addr{}
	for _, name := range containers(e) {
		before[name] = sameAddress(e, networkOf(name), name)
	}
	gone := before["two-lan"]

	e.upgradeOld()

	same(e, "after the upgrade")
	for name, address := range before {
		if got := sameAddress(e, networkOf(name), name); got != address {
			t.Errorf("%s had %v before the upgrade and has %v", name, address, got)
		}
	}
	for _, at := range []string{"10.78.0.9", "10.78.0.50", "10.78.0.60", "10.78.0.61", "10.78.0.254", before["fixed-lan"].String()} {
		if out, err := e.TryDocker("run", "--rm", "--network", "lan", "--ip", at, "--entrypoint", "/demo", Demo, "true"); err == nil {
			t.Errorf("after the upgrade a container gets %s, which is taken: %s", at, out)
		}
	}
	e.Docker("rm", "--force", "two-lan")
	e.Docker("run", "--detach", "--name", "heir", "--network", "lan", "--ip", gone.String(), Demo)
	e.withMAC("later", "lan", laterMAC)
	if got := sameAddress(e, "lan", "later"); got != netip.MustParseAddr("10.78.0.61") {
		t.Errorf("container later gets %v, not the address that the older release kept for it", got)
	}
	for _, name := range []string{"fixed-net", "fixed-lan"} {
		e.Docker("restart", "--time", "1", name)
		if got := sameAddress(e, networkOf(name), name); got != before[name] {
			t.Errorf("%s had %v before its restart and has %v", name, before[name], got)
		}
	}
	e.Restart()
	e.Docker("network", "create", "--ipam-driver", Plugin, "after")
	same(e, "after the engine was restarted")
}

// A cluster of an older release is upgraded host by host: each host hands out addresses all the while, and no two
// containers have the same one.
func TestClusterUpgradeFromOld(t *testing.T) {
	old := needOld(t)
	c := NewCluster(t, 3)
	for _, e := range c.Engines {
		e.installOld(old, c.Settings(e)...)
	}
	c.AwaitReady(c.Engines...)
	held := map[netip.Addr]string{}
	run := func(e *Engine, name string) {
		t.Helper()
		e.Docker("run", "--detach", "--name", name, "--network", "lan", Demo)
		at := sameAddress(e, "lan", name)
		if other, taken := held[at]; taken {
			t.Errorf("%s and %s both have %v", name, other, at)
		}
		held[at] = name
	}
	for i, e := range c.Engines {
		e.lan("lan", "10.59.0.0/24", "--gateway", "10.59.0.254")
		run(e, fmt.Sprintf("old-%d", i))
	}
	for step, e := range c.Engines {
		e.upgradeOld()
		c.AwaitReady(c.Engines...)
		for i, host := range c.Engines {
			run(host, fmt.Sprintf("step-%d-%d", step, i))
		}
	}
	for _, e := range c.Engines {
		same(e, "after all hosts were upgraded")
	}
	Eventually(t, time.Minute, "every host is fine", func() bool {
		for _, e := range c.Engines {
			if s, err := e.Status(); err != nil || s.Verdict != "fine" {
				return false
			}
		}
		return true
	})
}
