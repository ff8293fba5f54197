package e2e

import (
	"net/netip"
	"strings"
	"testing"
)

// Networks without IPv4, which engines have from 28 on: with a subnet, chosen, and on a LAN. What is held is what exists,
// whatever the engine and the plugin go through.
func TestEngineIPv6Only(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("192.168.77.1/24")})
	if e.release() < 28 {
		t.Skip("skipped: this engine is older than 28, and has no networks without IPv4")
	}
	e.InstallPlugin()
	e.ImportDemo()
	create := func(name string, args ...string) {
		t.Helper()
		e.Docker(append(append([]string{"network", "create", "--ipam-driver", Plugin, "--ipv4=false", "--ipv6"}, args...), name)...)
	}
	create("six", "--subnet", "fd00:79::/64")
	create("lan", "--driver", "macvlan", "--opt", "parent=eth0", "--subnet", "fd00:80::/125", "--ipam-opt", "gateway=first")
	create("chosen")
	names := []string{"six", "lan", "chosen"}
	for _, name := range names {
		e.Docker("run", "--detach", "--name", "on-"+name, "--network", name, Demo)
		if four := e.Address("on-"+name, name); four.IsValid() {
			t.Errorf("a container has %v on a network without IPv4", four)
		}
	}
	e.Docker("run", "--detach", "--name", "fixed", "--network", "six", "--ip6", "fd00:79::77", Demo)
	_, err := e.TryDocker("run", "--rm", "--network", "six", "--ip6", "fd00:79::77", Demo)
	refused(t, err, "fd00:79::77", "is held by")
	e.Docker("exec", "on-six", "/demo", "ping", "fd00:79::77")
	same(e, "after run")

	e.Docker("restart", "--time", "0", "on-six", "on-lan", "on-chosen", "fixed")
	same(e, "after restart")
	e.Kill()
	e.Up()
	same(e, "after the engine was killed")
	for _, name := range []string{"on-six", "on-lan", "on-chosen", "fixed"} {
		e.TryDocker("start", name) // what runs runs; what cannot start is seen below
	}
	same(e, "after all were started again")
	e.Docker("plugin", "rm", "--force", Plugin)
	e.InstallPlugin()
	same(e, "after the plugin was installed anew")
	// The new database knows of no exclusions, and the macvlan network may be a LAN with devices.
	_, err = e.TryDocker("run", "--rm", "--network", "lan", Demo)
	refused(t, err, "it may be a LAN", "ringlet trust")
	e.Ringlet("trust", "--i-know-no-other-copy-runs")
	create("more")
	for _, name := range append(names, "more") {
		runs := e.Docker("run", "--detach", "--network", name, Demo)
		if !e.Address6(runs, name).IsValid() {
			t.Errorf("no address on %s", name)
		}
	}
	same(e, "with more containers")

	for id := range strings.FieldsSeq(e.Docker("ps", "--all", "--quiet")) {
		e.Docker("rm", "--force", id)
	}
	for _, name := range append(names, "more") {
		e.Docker("network", "rm", name)
	}
	same(e, "with nothing")
	// What was taken in from the engine may have been named by somebody.
	Eventually(t, mended, "the pool is gone that the plugin knows to have chosen", func() bool {
		st, err := e.Status()
		return err == nil && len(st.Pools) == len(names)
	})
}
