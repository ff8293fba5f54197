package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// Several subnets on one network, one subnet on several networks, pools by name, and the options of a network.
func TestEngineNetworks(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("192.168.77.1/24")})
	e.InstallPlugin()
	e.ImportDemo()
	create := func(name string, args ...string) {
		t.Helper()
		e.Docker(append(append([]string{"network", "create", "--ipam-driver", Plugin}, args...), name)...)
	}

	create("two", "--driver", "macvlan", "--opt", "parent=eth0", "--subnet", "10.81.0.0/24", "--subnet", "10.82.0.0/24")
	runDemo(e, "two", "first")
	e.Docker("run", "--detach", "--name", "second", "--network", "two", "--ip", "10.82.0.9", Demo)
	sameAddress(e, "two", "second")

	// The two ends of a cable are two parents.
	e.Run("ip", "link", "add", "parent1", "type", "veth", "peer", "name", "parent2")
	for _, parent := range []string{"parent1", "parent2"} {
		e.Run("ip", "link", "set", parent, "up")
	}
	create("net1", "--driver", "macvlan", "--opt", "parent=parent1", "--subnet", "10.83.0.0/24", "--gateway", "10.83.0.1")
	create("net2", "--driver", "macvlan", "--opt", "parent=parent2", "--subnet", "10.83.0.0/24", "--gateway", "10.83.0.1", "--ip-range", "10.83.0.128/25")
	a, b := runDemo(e, "net1", "on1"), runDemo(e, "net2", "on2")
	if a == b || !netip.MustParsePrefix("10.83.0.128/25").Contains(b) {
		t.Errorf("got %v and %v on two networks of one subnet", a, b)
	}
	e.Docker("exec", "on1", "/demo", "ping", b.String())
	_, err := e.TryDocker("run", "--detach", "--name", "twice", "--network", "net2", "--ip", a.String(), Demo)
	refused(t, err, "held by")
	e.Docker("rm", "--force", "on1")
	e.Docker("network", "rm", "net1")
	_, err = e.TryDocker("run", "--detach", "--name", "router", "--network", "net2", "--ip", "10.83.0.1", Demo)
	refused(t, err, "10.83.0.1")
	same(e, "after several subnets")

	create("named", "--subnet", "10.84.0.0/24", "--ipam-opt", "pool=lab", "--ipam-opt", "gateway=last")
	if got := e.Docker("exec", "first", "/demo", "addrs"); strings.Contains(got, "10.84.") {
		t.Errorf("a container of another network has an address of this one: %s", got)
	}
	if got := runDemo(e, "named", "nn"); got == netip.MustParseAddr("10.84.0.254") {
		t.Error("the last address is the gateway")
	}
	e.Docker("exec", "nn", "/demo", "ping", "10.84.0.254")
	_, err = e.TryDocker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.85.0.0/24", "--ipam-opt", "pool=lab", "other")
	refused(t, err, "lab belongs to the pool 10.84.0.0/24")
	create("small", "--ipam-opt", "size=28")
	if got := e.Docker("network", "inspect", "--format", "{{range .IPAM.Config}}{{.Subnet}}{{end}}", "small"); !strings.HasSuffix(got, "/28") {
		t.Errorf("size=28 chose %s", got)
	}

	if e.release() >= 29 {
		anySubnetOfASize(e)
	}

	if e.release() < 29 { // later ones refuse it
		e.withoutIPv6()
	}

	// Engines before 29 insist on a gateway, and get one that nobody types.
	create("no-gateway", "--driver", "macvlan", "--opt", "parent=parent1", "--subnet", "10.87.0.0/24", "--ipam-opt", "gateway=none")
	e.Docker("run", "--detach", "--name", "on-first", "--network", "no-gateway", "--ip", "10.87.0.1", Demo)
	sameAddress(e, "no-gateway", "on-first")

	// The IPv6 half of a start fails: the IPv4 address is never released by the engine, and freed all the same.
	create("half", "--ipv6", "--subnet", "10.86.0.0/24", "--subnet", "fd00:86::/126")
	for _, name := range []string{"h1", "h2"} {
		runDemo(e, "half", name)
	}
	_, err = e.TryDocker("run", "--detach", "--name", "h3", "--network", "half", Demo)
	refused(t, err, "no free address in fd00:86::/126")
	same(e, "after a start that failed half way")
}

// A network that the engine refuses after it got a pool leaves none behind, so the next try may name another subnet for the pool's
// name. The pool of a network that was there stays.
func TestEngineRefusedNetwork(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a", Switch: NewSwitch(t), Address: netip.MustParsePrefix("192.168.77.1/24")})
	e.InstallPlugin()
	e.ImportDemo()
	pools := func() string { return e.Ringlet("pool", "ls", "--all") }
	create := func(subnet, parent, pool string) error {
		_, err := e.TryDocker("network", "create", "--driver", "macvlan", "--opt", "parent="+parent, "--ipam-driver", Plugin, "--subnet", subnet, "--gateway", netip.MustParsePrefix(subnet).Addr().Next().String(), "--ipam-opt", "pool="+pool, pool)
		return err
	}
	for i := range 3 {
		if err := create(fmt.Sprintf("10.79.%d.0/24", i), "nosuch.vlan", "lab79"); err == nil {
			t.Fatal("a network without a parent is made")
		}
		Eventually(t, mended, "its pool is gone", func() bool { return !strings.Contains(pools(), "lab79") })
	}
	if err := create("10.79.9.0/24", "eth0", "lab79"); err != nil {
		t.Fatal(err)
	}
	runDemo(e, "lab79", "web")
	e.Docker("rm", "--force", "web")
	e.Docker("network", "rm", "lab79")
	time.Sleep(5 * time.Second)
	if got := pools(); !strings.Contains(got, "lab79") {
		t.Errorf("the pool of a network that was there is gone: %s", got)
	}
}

// withoutIPv6 makes a network that names an IPv6 subnet without --ipv6: the engine lists the subnet and has none. Nothing is wrong
// with it, and no pool is made of it.
func (e *Engine) withoutIPv6() {
	e.t.Helper()
	e.Docker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.60.0.0/24", "--subnet", "fd00:60:1::/48", "no-six")
	runDemo(e, "no-six", "in-no-six")
	Eventually(e.t, mended, "ringlet has a list with the network", func() bool {
		st, err := e.Status()
		return err == nil && slices.ContainsFunc(st.Pools, func(p PoolStatus) bool { return slices.Contains(p.NetworkNames, "no-six") })
	})
	st, err := e.Status()
	if err != nil || slices.ContainsFunc(st.Problems, func(p Problem) bool { return strings.Contains(p.Text, "no-six") || strings.Contains(p.Text, "fd00:60") }) {
		e.t.Errorf("the status has %+v, %v", st.Problems, err)
	}
	e.Docker("rm", "--force", "in-no-six")
	e.Docker("network", "rm", "no-six")
	if pools := e.Ringlet("pool", "ls", "--all"); strings.Contains(pools, "fd00:60") {
		e.t.Errorf("a pool is left: %s", pools)
	}
}

// anySubnetOfASize makes networks that ask for any subnet of a size. They have theirs over a restart of the engine.
func anySubnetOfASize(e *Engine) {
	e.t.Helper()
	subnets := func() string {
		return e.Docker("network", "inspect", "--format", "{{range .IPAM.Config}}{{.Subnet}} {{end}}", "any1", "any2")
	}
	for _, name := range []string{"any1", "any2"} {
		e.Docker("network", "create", "--ipam-driver", Plugin, "--ipv6", "--subnet", "0.0.0.0/26", "--subnet", "::/80", name)
	}
	address := runDemo(e, "any1", "in-any1")
	before := subnets()
	all := map[netip.Prefix]bool{}
	for s := range strings.FieldsSeq(before) {
		p := netip.MustParsePrefix(s)
		if all[p] = true; p.Addr().IsUnspecified() || p.Bits() != 26 && p.Bits() != 80 {
			e.t.Errorf("any subnet of a size is %v", p)
		}
	}
	if len(all) != 4 {
		e.t.Errorf("two networks of both families have %s", before)
	}
	e.Restart()
	e.Docker("start", "in-any1")
	if after := subnets(); after != before {
		e.t.Errorf("after a restart the networks have %s, before it %s", after, before)
	}
	if got := sameAddress(e, "any1", "in-any1"); got != address {
		e.t.Errorf("after a restart the container has %v, before it %v", got, address)
	}
}

// A network on a LAN that nobody gave a router is told, and whoever follows the advice sees that end. Engines from 29 on give its
// containers no default route, so nothing is wrong there.
func TestEngineRouterUnnamed(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a", Switch: NewSwitch(t), Address: netip.MustParsePrefix("192.168.77.1/24")})
	e.InstallPlugin()
	told := func(want bool) {
		t.Helper()
		Eventually(t, mended, fmt.Sprintf("a network without a router is told: %t", want), func() bool {
			st, err := e.Status()
			return err == nil && want == slices.ContainsFunc(st.Problems, func(p Problem) bool { return p.Code == "router-unnamed" && strings.Contains(p.Text, "network lan ") })
		})
	}
	for _, advised := range [][]string{{"--gateway", "10.81.0.254"}, {"--ipam-opt", "gateway=none"}} {
		e.lan("lan", "10.81.0.0/24")
		told(e.release() < 29)
		e.Docker("network", "rm", "lan")
		e.lan("lan", "10.81.0.0/24", advised...)
		told(false)
		e.Docker("network", "rm", "lan")
	}
}

// The host gets addresses on the LAN of a network that has been there for a while, as DHCP brings them: no container that
// starts right after has one of them.
func TestEngineHostAddressLater(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin()
	e.ImportDemo()
	e.Run("ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
	e.Run("ip", "link", "set", "lan0", "up")
	e.Run("ip", "link", "set", "lan1", "up")
	e.Docker("network", "create", "--driver", "macvlan", "--opt", "parent=lan0", "--ipam-driver", Plugin, "--subnet", "10.60.0.0/24", "--ipam-opt", "gateway=none", "lan")
	last := runDemo(e, "lan", "first")
	for i := range 5 {
		own, name := last.Next(), fmt.Sprint("c", i)
		e.Docker("create", "--name", name, "--network", "lan", Demo)
		e.Run("ip", "address", "add", own.String()+"/24", "dev", "lan0")
		e.Docker("start", name)
		if last = sameAddress(e, "lan", name); last == own {
			t.Fatalf("a container has %v, which the host itself has", own)
		}
	}
	same(e, "with addresses of the host")
}
