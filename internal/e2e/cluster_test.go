package e2e

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
)

const (
	lanSubnet  = "10.50.0.0/16"
	lanGateway = "10.50.0.1"
	lanPrinter = "10.50.0.9"
)

// lan makes a macvlan network, as people share one subnet between hosts.
func (e *Engine) lan(name, subnet string, more ...string) {
	e.t.Helper()
	if err := e.tryLan(name, subnet, more...); err != nil {
		e.t.Fatal(err)
	}
}

// tryLan is lan for networks that may be refused.
func (e *Engine) tryLan(name, subnet string, more ...string) error {
	args := []string{"network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin, "--subnet", subnet}
	_, err := e.TryDocker(append(append(args, more...), name)...)
	return err
}

// claim starts a container that wants an address of the network lan, to see why it may not have it.
func claim(e *Engine, address string) error {
	_, err := e.TryDocker("run", "--rm", "--network", "lan", "--ip", address, Demo)
	return err
}

// atOnce calls all at once and returns their errors.
func atOnce(calls ...func() error) []error {
	errs := make([]error, len(calls))
	var wg sync.WaitGroup
	for i, call := range calls {
		wg.Go(func() { errs[i] = call() })
	}
	wg.Wait()
	return errs
}

// crowd starts containers prefix-0, prefix-1 ... on each of the engines, all at once, and returns the errors.
func crowd(engines []*Engine, network, prefix string, each int) []error {
	var calls []func() error
	for _, e := range engines {
		for i := range each {
			calls = append(calls, func() error {
				_, err := e.TryDocker("run", "--detach", "--name", fmt.Sprintf("%s-%d", prefix, i), "--network", network, Demo)
				return err
			})
		}
	}
	return slices.DeleteFunc(atOnce(calls...), func(err error) bool { return err == nil })
}

// crowd is [crowd] where all must start.
func (c *Cluster) crowd(engines []*Engine, network, prefix string, each int) {
	c.t.Helper()
	for _, err := range crowd(engines, network, prefix, each) {
		c.t.Error(err)
	}
}

// disperse removes the containers prefix-0, prefix-1 ... of an engine.
func disperse(e *Engine, prefix string) error {
	names, err := e.TryDocker("ps", "--all", "--format", "{{.Names}}", "--filter", "name=^"+prefix+"-[0-9]+$")
	if err != nil {
		return err
	}
	_, err = e.TryDocker(append([]string{"rm", "--force"}, strings.Fields(names)...)...)
	return err
}

// empty removes all containers of an engine, and then the networks.
func (c *Cluster) empty(e *Engine, networks ...string) {
	c.t.Helper()
	all := strings.Fields(e.Docker("ps", "--all", "--quiet"))
	e.Docker(append([]string{"rm", "--force"}, all...)...)
	c.unmake(e, networks...)
}

// unmake removes networks of an engine from which no container is left. An engine of 20.10 on a busy machine, on which
// many containers started at once, was seen to hold that one of them had endpoints still; when it starts an engine counts
// them anew.
func (c *Cluster) unmake(e *Engine, networks ...string) {
	c.t.Helper()
	Eventually(c.t, readyLimit, "nothing is attached on "+e.Name, func() bool { return len(endpoints(e)) == 0 })
	for _, name := range networks {
		_, err := e.TryDocker("network", "rm", name)
		if err == nil {
			continue
		}
		if !strings.Contains(err.Error(), "has active endpoints") {
			c.t.Fatal(err)
		}
		c.t.Logf("the engine starts again, as it has counted endpoints that are gone: %v", err)
		e.Restart()
		c.AwaitReady(c.Engines...)
		e.Docker("network", "rm", name)
	}
}

// unique checks that no two endpoints of engines have one address, and returns the addresses.
func (c *Cluster) unique(when string, engines ...*Engine) []netip.Addr {
	c.t.Helper()
	at := map[netip.Addr]string{}
	for _, e := range engines {
		for _, a := range endpoints(e) {
			if other, twice := at[a]; twice {
				c.t.Errorf("%s: %v is in use on %s and on %s", when, a, other, e.Name)
			}
			at[a] = e.Name
		}
	}
	return slices.SortedFunc(maps.Keys(at), netip.Addr.Compare)
}

// union is unique, after checking that each peer holds what its own engine's endpoints have. Without engines it means all.
func (c *Cluster) union(when string, engines ...*Engine) []netip.Addr {
	c.t.Helper()
	if len(engines) == 0 {
		engines = c.Engines
	}
	for _, e := range engines {
		same(e, when)
	}
	return c.unique(when, engines...)
}

// What hosts that share a subnet do and suffer, in the order of a cluster's life.
func TestClusterLife(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3, "RINGLET_REST=5s", "RINGLET_TIMEOUT=15s") // a host that leaves waits for what rests
	c.Install()
	for _, e := range c.Engines {
		e.lan("lan", lanSubnet, "--ipam-opt", "gateway=first", "--aux-address", "printer="+lanPrinter)
	}
	c.sharedAddresses()
	c.reachEachOther()
	c.chosenSubnets()
	c.sameAddressAtOnce()
	c.manyAtOnce()
	c.cutOff()
	c.powerCut()
	c.twoRestart()
	c.reinstalled()
	c.fourth()
	c.left()
}

// The gateway and the auxiliary address are the same on all hosts, and no container's.
func (c *Cluster) sharedAddresses() {
	t := c.t
	t.Helper()
	for _, e := range c.Engines {
		config := e.Docker("network", "inspect", "--format", "{{json .IPAM.Config}}", "lan")
		for _, want := range []string{lanSubnet, lanPrinter} {
			if !strings.Contains(config, want) {
				t.Errorf("%s: the network has %s, want %s in it", e.Name, config, want)
			}
		}
		for _, taken := range []string{lanGateway, lanPrinter} {
			refused(t, claim(e, taken), "address "+taken, "reserved as")
		}
	}
}

func (c *Cluster) reachEachOther() {
	c.t.Helper()
	for _, e := range c.Engines {
		e.Docker("run", "--detach", "--restart", "always", "--name", "one-"+e.Name, "--network", "lan", Demo)
		sameAddress(e, "lan", "one-"+e.Name)
	}
	for _, e := range c.Engines {
		for _, a := range c.union("with one container each") {
			e.Docker("exec", "one-"+e.Name, "/demo", "ping", a.String())
		}
		routes := e.Docker("exec", "one-"+e.Name, "/demo", "addrs")
		if !strings.Contains(routes, `"`+lanGateway+`"`) {
			c.t.Errorf("%s: a container has no route by the gateway: %s", e.Name, routes)
		}
	}
}

// Hosts that choose subnets at once choose different ones; a pool with a name is the same one on all.
func (c *Cluster) chosenSubnets() {
	t := c.t
	t.Helper()
	var calls []func() error
	for _, e := range c.Engines {
		calls = append(calls, func() error {
			_, err := e.TryDocker("network", "create", "--ipam-driver", Plugin, "chosen")
			return err
		})
	}
	if err := errors.Join(atOnce(calls...)...); err != nil {
		t.Fatal(err)
	}
	subnet := func(e *Engine, network string) string {
		return e.Docker("network", "inspect", "--format", "{{range .IPAM.Config}}{{.Subnet}}{{end}}", network)
	}
	chosen := map[string]string{}
	for _, e := range c.Engines {
		if other, twice := chosen[subnet(e, "chosen")]; twice {
			t.Errorf("%s and %s chose %s both", other, e.Name, subnet(e, "chosen"))
		}
		chosen[subnet(e, "chosen")] = e.Name
		e.Docker("network", "create", "--ipam-driver", Plugin, "--ipam-opt", "pool=lab", "named")
		if got, want := subnet(e, "named"), subnet(c.Engines[0], "named"); got != want {
			t.Errorf("the pool lab is %s on %s, and %s on %s", got, e.Name, want, c.Engines[0].Name)
		}
		e.Docker("network", "rm", "chosen")
	}
}

// One address is claimed on all hosts at once: one wins, the others are told who.
func (c *Cluster) sameAddressAtOnce() {
	t := c.t
	t.Helper()
	// Of the space that is nobody's yet, and of each host's own.
	claims := []string{"10.50.200.7"}
	for _, e := range c.Engines {
		claims = append(claims, e.Address("one-"+e.Name, "lan").Next().Next().String())
	}
	for i, address := range claims {
		name := fmt.Sprint("claim-", i)
		var calls []func() error
		for _, e := range c.Engines {
			calls = append(calls, func() error {
				_, err := e.TryDocker("run", "--detach", "--name", name+"-"+e.Name, "--network", "lan", "--ip", address, Demo)
				return err
			})
		}
		errs := atOnce(calls...)
		var winner *Engine
		for j, e := range c.Engines {
			switch {
			case errs[j] != nil:
			case winner != nil:
				t.Fatalf("%s was given on %s and on %s", address, winner.Name, e.Name)
			default:
				winner = e
			}
		}
		if winner == nil {
			t.Fatalf("%s was given to nobody: %v", address, errs)
		}
		same(winner, "after it was given")
		winner.named(name+"-"+winner.Name, address)
		for j, e := range c.Engines {
			if e == winner {
				continue
			}
			holds(t, errs[j], address, winner.Name)
			_, err := e.TryDocker("start", name+"-"+e.Name)
			holds(t, err, address, winner.Name)
			holds(t, err, address, "container "+name+"-"+winner.Name)
		}
	}
	c.union("after claims at once")
}

// holds checks that an error says that the address is held, and by whom.
func holds(t testing.TB, err error, address, who string) {
	t.Helper()
	refused(t, err, "address "+address, "held by", who)
}

func (c *Cluster) manyAtOnce() {
	c.t.Helper()
	const many = 12
	before := len(c.union("before many at once"))
	c.crowd(c.Engines, "lan", "many", many)
	if got := len(c.union("after many at once")) - before; got != 3*many {
		c.t.Errorf("%d more addresses are in use, want %d", got, 3*many)
	}
	var calls []func() error
	for _, e := range c.Engines {
		calls = append(calls, func() error { return disperse(e, "many") })
	}
	if err := errors.Join(atOnce(calls...)...); err != nil {
		c.t.Error(err)
	}
	c.union("after many have gone")
}

// A host is cut off: both sides go on with what they have, and say what they lack.
func (c *Cluster) cutOff() {
	t := c.t
	t.Helper()
	a, b, cut := c.Engines[0], c.Engines[1], c.Engines[2]
	theirs := b.Address("one-"+b.Name, "lan").String()
	c.Cut(cut)
	c.crowd(c.Engines, "lan", "cut", 3)
	c.Await("the two know that the third is gone, and it that they are", c.Engines, func(all []PeerStatus) string {
		for i, st := range all {
			away := 0
			for _, p := range st.Peers {
				if !p.Reachable && p.ID != st.Self.ID {
					away++
				}
			}
			if want := []int{1, 1, 2}[i]; away != want {
				return fmt.Sprintf("%s misses %d peers, want %d", c.Engines[i].Name, away, want)
			}
		}
		if all[2].State != "cut-off" || all[2].Verdict != "degraded" || len(all[2].Problems) == 0 {
			return fmt.Sprintf("%s is %s, %s: %v", cut.Name, all[2].State, all[2].Verdict, all[2].Problems)
		}
		return ""
	})
	c.crowd(c.Engines, "lan", "still", 3)
	errs := atOnce(
		func() error { return claim(cut, theirs) },
		func() error {
			_, err := cut.TryDocker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.60.0.0/24", "more")
			return err
		})
	refused(t, errs[0], b.Name)
	refused(t, errs[1], "majority", a.Name, b.Name)
	makeNetwork(a, "more", "10.60.0.0/24")
	c.union("while one is cut off")

	c.Heal(cut)
	c.AwaitReady(c.Engines...)
	makeNetwork(cut, "more", "10.60.0.0/24")
	holds(t, claim(cut, theirs), theirs, b.Name)
	c.crowd(c.Engines, "lan", "healed", 3)
	c.union("after the cut was healed")
}

// The power of one host goes and comes back.
func (c *Cluster) powerCut() {
	c.t.Helper()
	a, b := c.Engines[0], c.Engines[1]
	fixed := map[string]string{"fixed-always": "10.50.210.1", "fixed": "10.50.210.2"}
	b.Docker("run", "--detach", "--restart", "always", "--name", "fixed-always", "--network", "lan", "--ip", fixed["fixed-always"], Demo)
	b.Docker("run", "--detach", "--name", "fixed", "--network", "lan", "--ip", fixed["fixed"], Demo)
	b.PowerOff()
	c.crowd([]*Engine{a, c.Engines[2]}, "lan", "off", 3)
	for _, err := range atOnce(
		func() error { return claim(a, fixed["fixed"]) },
		func() error { return claim(a, fixed["fixed-always"]) },
		func() error { return claim(c.Engines[2], fixed["fixed"]) },
	) {
		refused(c.t, err, b.Name)
	}
	b.Up()
	b.Docker("start", "fixed")
	for name, want := range fixed {
		if got := sameAddress(b, "lan", name); got.String() != want {
			c.t.Errorf("after a power cut %s has %v, it had %s", name, got, want)
		}
	}
	c.AwaitReady(c.Engines...)
	c.crowd([]*Engine{b}, "lan", "on", 3)
	c.union("after the power came back")
}

// Two of three restart at once: one that loses its power, and one that restarts as an upgrade does.
func (c *Cluster) twoRestart() {
	c.t.Helper()
	a, b, third := c.Engines[0], c.Engines[1], c.Engines[2]
	a.PowerOff()
	third.Stop()
	c.crowd([]*Engine{b}, "lan", "alone", 3)
	third.Up()
	a.Up()
	c.AwaitReady(c.Engines...)
	c.crowd(c.Engines, "lan", "again", 3)
	c.union("after two restarted at once")
}

// A host loses its plugin with all data, while its containers run: it comes back as a stranger, is given what its former
// self had, and takes in what its containers have before it hands out anything.
func (c *Cluster) reinstalled() {
	t := c.t
	t.Helper()
	b := c.Engines[1]
	before := endpoints(b)
	old, err := b.Status()
	if err != nil {
		t.Fatal(err)
	}
	b.Docker("plugin", "rm", "--force", Plugin)
	b.InstallPlugin(append(c.Settings(b), patient)...)
	c.crowd(c.Engines, "lan", "anew", 5)
	c.AwaitReady(c.Engines...)
	c.union("after one was installed anew")
	now, err := b.Status()
	if err != nil {
		t.Fatal(err)
	}
	if now.Self.ID == old.Self.ID || now.Cluster != old.Cluster {
		t.Errorf("peer %s of %s came back as %s of %s, want a stranger in the same cluster", old.Self.ID, old.Cluster, now.Self.ID, now.Cluster)
	}
	after := endpoints(b)
	for _, a := range before {
		if !slices.Contains(after, a) {
			t.Errorf("%v is not in use any more", a)
		}
	}
	for _, p := range now.Pools {
		if p.Quarantined != 0 {
			t.Errorf("%d addresses of %v are kept back", p.Quarantined, p.Pool)
		}
	}
}

// A host comes later, and gets space.
func (c *Cluster) fourth() {
	c.t.Helper()
	d := c.Add()
	d.InstallPlugin(c.Settings(d)...)
	d.ImportDemo()
	d.lan("lan", lanSubnet, "--ipam-opt", "gateway=first", "--aux-address", "printer="+lanPrinter)
	c.crowd([]*Engine{d}, "lan", "later", 5)
	c.AwaitReady(c.Engines...)
	c.union("with a fourth host")
	d.Docker("exec", "later-3", "/demo", "ping", c.Engines[0].Address("one-"+c.Engines[0].Name, "lan").String())
}

// A host gives its space back and leaves.
func (c *Cluster) left() {
	t := c.t
	t.Helper()
	gone := c.Engines[2]
	_, err := gone.TryRinglet("leave")
	refused(t, err, "one-"+gone.Name)
	c.empty(gone, "lan", "more", "named")
	gone.Ringlet("drain")
	gone.Ringlet("leave")
	if out, err := gone.TryDocker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.50.0.0/16", "lan"); err == nil {
		t.Errorf("a peer that has left serves a network: %s", out)
	}
	rest := c.Others(gone)
	c.AwaitReady(rest...)
	gone.Docker("plugin", "rm", "--force", Plugin)
	c.crowd(rest, "lan", "last", 3)
	c.union("after one has left", rest...)
}
