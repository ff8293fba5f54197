package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The harness itself: an engine comes up, goes down in every way, and comes back with what it had.
func TestEngineComesBack(t *testing.T) {
	t.Parallel()
	need(t, "pidof")
	e := Start(t, Config{Name: "host-a"})
	if got := e.Docker("info", "--format", "{{.Name}}"); got != "host-a" {
		t.Errorf("engine's host name: got %q, want host-a", got)
	}
	e.ImportDemo()
	e.Docker("run", "--detach", "--name", "one", Demo)
	running := func() string { return e.Docker("inspect", "--format", "{{.State.Running}}", "one") }

	e.Kill()
	if _, err := e.Try("pidof", "demo"); err != nil {
		t.Errorf("the container did not survive a crash of dockerd: %v", err)
	}
	e.Up()
	e.Docker("start", "one")
	if got := running(); got != "true" {
		t.Errorf("after a crash and a start: running is %s", got)
	}
	e.Restart()
	if got := running(); got != "false" {
		t.Errorf("after a restart of dockerd: running is %s", got)
	}
	e.Docker("start", "one")
	e.PowerOff()
	e.Up()
	if got := running(); got != "false" {
		t.Errorf("after a power cut: running is %s", got)
	}
	e.Docker("start", "one")
}

// Hosts on a switch reach one another until one is unplugged; macvlan containers of two engines do too.
func TestEngineSwitch(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	subnet := netip.MustParsePrefix("192.0.2.0/24")
	a := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.PrefixFrom(netip.MustParseAddr("192.0.2.1"), subnet.Bits())})
	router := NewHost(t, "router")
	sw.Plug(router, netip.PrefixFrom(netip.MustParseAddr("192.0.2.254"), subnet.Bits()))
	demo := Built(t, "demo")
	a.Run(demo, "ping", "192.0.2.254")

	a.ImportDemo()
	a.Docker("network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--subnet", subnet.String(), "--gateway", "192.0.2.254", "lan")
	a.Docker("run", "--detach", "--name", "one", "--network", "lan", "--ip", "192.0.2.9", Demo)
	router.Run(demo, "ping", "192.0.2.9")

	sw.Unplug(a.Host)
	if _, err := router.Try(demo, "ping", "192.0.2.1", "-c", "1", "-t", "300ms"); err == nil {
		t.Error("an unplugged host was reached")
	}
	sw.Plug(a.Host, netip.Prefix{})
	router.Run(demo, "ping", "192.0.2.1")
	a.PowerOff()
	a.Up()
	router.Run(demo, "ping", "192.0.2.1")
	a.Docker("start", "one")
	router.Run(demo, "ping", "192.0.2.9")
}

// A host ends with its test and leaves nothing: no process, no file, no control group.
func TestEngineLeavesNothing(t *testing.T) {
	t.Parallel()
	need(t)
	var dir, id string
	t.Run("engine", func(t *testing.T) {
		e := Start(t, Config{Name: "host-a"})
		dir = e.Dir()
		e.InstallPlugin()
		id = e.PluginID(Plugin)
		e.ImportDemo()
		e.Docker("run", "--detach", "--name", "one", Demo)
		if len(groups(t, filepath.Base(dir))) == 0 || len(groups(t, id)) == 0 {
			t.Skip("skipped: this machine keeps control groups elsewhere")
		}
	})
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	for _, name := range []string{filepath.Base(dir), id} {
		if left := groups(t, name); len(left) > 0 {
			t.Errorf("control groups left: %s", left)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(mounts), dir) {
		t.Errorf("mounts left:\n%s", mounts)
	}
}

// groups returns the control groups with that name.
func groups(t *testing.T, name string) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
		dirs, err := filepath.Glob(pattern + name)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, dirs...)
	}
	return found
}
