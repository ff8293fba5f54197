package e2e

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// In a swarm: an overlay network is refused, and what the refusal advises works, as the manual has it: the same
// configuration on each node, and tasks on all of them with addresses that differ.
func TestClusterSwarm(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 2)
	c.Install()
	manager, worker := c.Engines[0], c.Engines[1]
	manager.Docker("swarm", "init", "--advertise-addr", hostAt(0).String())
	worker.Docker("swarm", "join", "--token", manager.Docker("swarm", "join-token", "--quiet", "worker"), hostAt(0).String()+":2377")
	c.overlayRefused(manager)

	example := filepath.Join(root(t), "docs", "examples", "swarm")
	for _, e := range c.Engines {
		e.Run(filepath.Join(example, "node.sh"))
		e.Docker("tag", Demo, "nginx")
	}
	manager.Run(filepath.Join(example, "manager.sh"))
	running := func(e *Engine) []string {
		return strings.Fields(e.Docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=example_web"))
	}
	Eventually(t, readyLimit, "two tasks run on each node", func() bool {
		return len(running(manager)) == 2 && len(running(worker)) == 2
	})
	for _, e := range c.Engines {
		for _, task := range running(e) {
			if a := sameAddress(e, "lan", task); !netip.MustParsePrefix("192.168.1.0/24").Contains(a) {
				t.Errorf("a task on %s has %v", e.Name, a)
			}
		}
	}
	all := c.union("with tasks on both nodes")
	if len(all) != 4 {
		t.Errorf("%d addresses are in use, want those of 4 tasks: %v", len(all), all)
	}
	for _, a := range all {
		manager.Docker("exec", running(manager)[0], "/demo", "ping", a.String())
	}

	// Each node's engine makes its part of a network when the first task comes, also of one that is the node's alone.
	manager.Docker("network", "create", "--config-only", "--ipam-driver", Plugin, "--subnet", "10.89.0.0/24", "inside-config")
	manager.Docker("network", "create", "--driver", "bridge", "--scope", "swarm", "--config-from", "inside-config", "inside")
	manager.Docker("service", "create", "--detach", "--no-resolve-image", "--constraint", "node.role==manager", "--replicas", "2",
		"--name", "inside", "--network", "inside", Demo)
	Eventually(t, readyLimit, "two tasks run on a bridge", func() bool {
		return len(strings.Fields(manager.Docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name=inside"))) == 2
	})
	virtualAddresses(manager, worker)
	manager.Docker("service", "scale", "--detach", "example_web=2")
	Eventually(t, readyLimit, "two tasks have ended", func() bool { return len(running(manager))+len(running(worker)) == 2 })
	c.union("after tasks have ended")
	manager.Docker("service", "rm", "inside")
	manager.Docker("stack", "rm", "example")
	Eventually(t, readyLimit, "all tasks have ended", func() bool { return len(endpoints(manager))+len(endpoints(worker)) == 0 })
	c.union("after the stack was removed")
}

// virtualAddresses checks that the directory of both hosts has the virtual address that a service has on an overlay network of the
// engine's own, as the manager tells it, until the service ends.
func virtualAddresses(manager, worker *Engine) {
	t := manager.t
	t.Helper()
	manager.Docker("network", "create", "--driver", "overlay", "back")
	manager.Docker("service", "create", "--detach", "--no-resolve-image", "--constraint", "node.role==worker", "--name", "both", "--network", "lan", "--network", "back", Demo)
	want := manager.Docker("service", "inspect", "--format", "{{range .Endpoint.VirtualIPs}}{{.Addr}} {{end}}", "both")
	const key = "ringlet/state/services/v1/ringlet/swarm/both"
	parts := func(e *Engine) (virtual, endpoints []string) {
		var parts []struct {
			Value struct {
				Node      string
				Endpoints []struct{ Address string }
				Virtual   []struct{ Address, Network string }
			}
		}
		_ = e.askPlugin("/v1/kv/"+key, &parts)
		for _, p := range parts {
			for _, v := range p.Value.Virtual {
				virtual = append(virtual, p.Value.Node+": "+v.Address+" on "+v.Network)
			}
			for _, v := range p.Value.Endpoints {
				endpoints = append(endpoints, p.Value.Node+": "+v.Address)
			}
		}
		return virtual, endpoints
	}
	for _, e := range []*Engine{worker, manager} {
		Eventually(t, 3*time.Minute, e.Name+" shows the virtual address "+want, func() bool {
			virtual, endpoints := parts(e)
			return len(virtual) == 1 && len(endpoints) == 1 && strings.HasPrefix(endpoints[0], worker.Name+": 192.168.1.") &&
				strings.HasPrefix(virtual[0], manager.Name+": ") && strings.HasSuffix(virtual[0], " on back") &&
				strings.Contains(want, strings.Fields(virtual[0])[1]+"/")
		})
	}
	fmt.Fprintln(t.Output(), worker.Ringlet("kv", "get", key))
	manager.Docker("service", "rm", "both")
	Eventually(t, 3*time.Minute, "its key is gone", func() bool {
		virtual, endpoints := parts(worker)
		return len(virtual)+len(endpoints) == 0
	})
	_, _ = manager.TryDocker("network", "rm", "back") // the engine may still end its tasks
	for _, l := range worker.Log.Lines() {
		if strings.Contains(l.Raw, "is not a swarm manager") {
			t.Errorf("a worker was asked for what only managers have: %s", l.Raw)
		}
	}
}

// overlayRefused checks that an overlay network gets no pool. The engine makes a swarm's network at once and asks for its
// pool afterwards, so that the refusal is in its log and not in the answer.
func (c *Cluster) overlayRefused(e *Engine) {
	t := c.t
	t.Helper()
	mark := e.Log.Mark()
	if _, err := e.TryDocker("network", "create", "--driver", "overlay", "--ipam-driver", Plugin, "--subnet", "10.88.0.0/24", "over"); err == nil {
		_, err = e.Log.Wait(t.Context(), mark, readyLimit, func(l Line) bool {
			return l.Plugin == "" && strings.Contains(l.Msg, "Failed allocation for network") &&
				strings.Contains(l.Raw, "ringlet does not serve networks of a whole swarm")
		})
		if err != nil {
			t.Errorf("the engine does not say that the network was refused: %v", err)
		}
	} else {
		refused(t, err, "ringlet does not serve networks of a whole swarm")
	}
	if out := e.Ringlet("pool", "ls", "-o", "json"); out != "[]" {
		t.Errorf("a refused network left a pool: %s", out)
	}
}

// The plugin is removed and installed anew while networks live, of which its new database knows nothing but what the
// engine lists. Another network on the same subnet is refused by the network driver: the gateways stay those of the
// networks that live, whatever is handed out until nothing is left. On the LAN that begins when an operator says so, as nobody
// knows any more which addresses were excluded there.
func TestEngineReinstalledBesideNetworks(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw})
	e.InstallPlugin()
	e.ImportDemo()
	create := map[string][]string{
		"typed":  {"--subnet", "10.77.0.0/29", "--gateway", "10.77.0.6"},
		"chosen": {"--subnet", "10.77.1.0/29"},
		"lan":    {"--driver", "macvlan", "--opt", "parent=eth0", "--subnet", "192.168.77.0/29", "--gateway", "192.168.77.1"},
	}
	network := func(name string, args []string) error {
		_, err := e.TryDocker(append(append([]string{"network", "create", "--ipam-driver", Plugin}, args...), name)...)
		return err
	}
	for name, args := range create {
		if err := network(name, args); err != nil {
			t.Fatal(err)
		}
		runDemo(e, name, "old-"+name)
	}
	gateways := map[string]netip.Addr{
		"typed":  netip.MustParseAddr("10.77.0.6"),
		"chosen": netip.MustParseAddr(hostAddress(e, "10.77.1.")),
		"lan":    netip.MustParseAddr("192.168.77.1"),
	}
	e.Docker("plugin", "rm", "--force", Plugin)
	e.InstallPlugin()
	again := func(when string) {
		t.Helper()
		for name, args := range create {
			if err := network(name+"-again", args); err != nil {
				continue
			}
			if name != "lan" {
				t.Fatalf("%s: the network driver takes two networks on %v", when, args)
			}
			// Engines from 28 on let two networks on macvlan have one parent, and one subnet. What the other one has stays.
			e.Docker("network", "rm", name+"-again")
		}
	}
	again("at once")
	same(e, "after the plugin was installed anew")
	again("later")
	_, err := e.TryDocker("run", "--rm", "--network", "lan", Demo)
	refused(t, err, "it may be a LAN", "ringlet trust")
	e.Ringlet("trust", "--i-know-no-other-copy-runs")
	for name, gateway := range gateways {
		more := 0
		for ; more < 8; more++ {
			container := name + "-" + string(rune('a'+more))
			if _, err := e.TryDocker("run", "--detach", "--name", container, "--network", name, Demo); err != nil {
				refused(t, err, "no free address")
				break
			}
			if got := sameAddress(e, name, container); got == gateway {
				t.Errorf("%s: a container was given the gateway %v", name, got)
			}
		}
		if more < 3 {
			t.Errorf("%s: only %d more containers had room in a /29", name, more)
		}
		_, err := e.TryDocker("run", "--rm", "--network", name, "--ip", gateway.String(), Demo)
		refused(t, err, gateway.String())
	}
	same(e, "with the subnets full")
}

// hostAddress returns the host's own address that begins so.
func hostAddress(e *Engine, begin string) string {
	e.t.Helper()
	for word := range strings.FieldsSeq(e.Run("ip", "-o", "-4", "address", "show")) {
		if strings.HasPrefix(word, begin) && strings.Contains(word, "/") {
			address, _, _ := strings.Cut(word, "/")
			return address
		}
	}
	e.t.Fatalf("the host has no address that begins with %s", begin)
	return ""
}
