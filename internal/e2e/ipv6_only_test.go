package e2e

import (
	"net/netip"
	"slices"
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

// An IPv6 subnet wider than a /64, on macvlan and on a bridge: the range is the pool, and the gateway lies outside. What
// is held is what exists, whatever the engine and the plugin go through.
func TestEngineWideSubnet(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("192.168.1.1/24")})
	e.InstallPlugin()
	e.ImportDemo()
	e.Docker("network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin, "--ipv6", "--subnet", "192.168.1.0/24", "--gateway", "192.168.1.254",
		"--subnet", "fd00:d0cc::/32", "--gateway", "fd00:d0cc::1", "--ip-range", "fd00:d0cc:a::/64", "wide")
	e.Docker("network", "create", "--ipam-driver", Plugin, "--ipv6", "--subnet", "10.77.0.0/24",
		"--subnet", "fd00:77::/48", "--ip-range", "fd00:77:0:5::/64", "--gateway", "fd00:77::1", "--aux-address", "printer=fd00:77::9", "on")
	within := map[string]netip.Prefix{"wide": netip.MustParsePrefix("fd00:d0cc:a::/64"), "on": netip.MustParsePrefix("fd00:77:0:5::/64")}
	masks := map[string]int{"wide": 32, "on": 48}
	names := []string{"wide", "on"}
	runs := func(when string) {
		t.Helper()
		for _, name := range names {
			id := e.Docker("run", "--detach", "--network", name, Demo)
			got := e.Address6(id, name)
			if !within[name].Contains(got) || !slices.Contains(e.Inside(id), netip.PrefixFrom(got, masks[name])) {
				t.Errorf("%s: on %s a container has %v, and inside %v", when, name, got, e.Inside(id))
			}
		}
		same(e, when)
	}
	runs("at first")
	e.Docker("exec", e.Docker("ps", "--latest", "--quiet"), "/demo", "ping", "fd00:77::1")
	for _, address := range []string{"fd00:77::20", "fd00:77::9"} {
		_, err := e.TryDocker("run", "--rm", "--network", "on", "--ip6", address, Demo)
		refused(t, err, address, "is not in fd00:77:0:5::/64")
	}
	_, err := e.TryDocker("network", "create", "--ipam-driver", Plugin, "--ipv6", "--subnet", "10.78.0.0/24", "--subnet", "fd00:78::/48", "whole")
	refused(t, err, "fd00:78::/48 is wider than a /64", "--ip-range")
	e.Restart()
	runs("after the engine restarted")
	e.Kill()
	e.Up()
	runs("after the engine was killed")
	e.Docker("plugin", "rm", "--force", Plugin)
	e.InstallPlugin()
	e.Ringlet("trust", "--i-know-no-other-copy-runs")
	runs("after the plugin was installed anew")
	for id := range strings.FieldsSeq(e.Docker("ps", "--all", "--quiet")) {
		e.Docker("rm", "--force", id)
	}
	for _, name := range names {
		e.Docker("network", "rm", name)
	}
	same(e, "with nothing")
}
