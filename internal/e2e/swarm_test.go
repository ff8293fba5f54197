package e2e

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

// In a swarm: an overlay network is refused, and what the refusal advises works. The engine makes a swarm's network at
// once and asks for its pool afterwards, so that the refusal is in its log and not in the answer.
func TestEngineSwarm(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("192.168.77.1/24")})
	e.InstallPlugin()
	e.ImportDemo()
	e.Docker("swarm", "init", "--advertise-addr", "192.168.77.1")
	mark := e.Log.Mark()
	if _, err := e.TryDocker("network", "create", "--driver", "overlay", "--ipam-driver", Plugin, "--subnet", "10.88.0.0/24", "over"); err == nil {
		_, err = e.Log.Wait(t.Context(), mark, 30*time.Second, func(l Line) bool {
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

	serve := func(name, driver string, config ...string) {
		t.Helper()
		create := append([]string{"network", "create", "--config-only", "--ipam-driver", Plugin}, config...)
		e.Docker(append(create, name+"-config")...)
		e.Docker("network", "create", "--driver", driver, "--scope", "swarm", "--config-from", name+"-config", name)
		e.Docker("service", "create", "--detach", "--no-resolve-image", "--replicas", "2", "--name", name, "--network", name, Demo)
		running := func() []string {
			return strings.Fields(e.Docker("ps", "--quiet", "--filter", "label=com.docker.swarm.service.name="+name))
		}
		Eventually(t, time.Minute, "two tasks run on "+driver, func() bool { return len(running()) == 2 })
		for _, task := range running() {
			sameAddress(e, name, task)
		}
	}
	serve("lan", "macvlan", "--opt", "parent=eth0", "--subnet", "192.168.77.0/24", "--gateway", "192.168.77.254", "--ip-range", "192.168.77.128/25")
	serve("inside", "bridge", "--subnet", "10.89.0.0/24")
	same(e, "with tasks of two services")
	e.Docker("service", "scale", "--detach", "lan=1")
	e.Docker("service", "rm", "inside")
	same(e, "after tasks have ended")
}

// The plugin is removed and installed anew while networks live, of which its new database knows nothing but what the
// engine lists. Another network on the same subnet is refused by the network driver: the gateways stay those of the
// networks that live, whatever is handed out until nothing is left.
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
			if err := network(name+"-again", args); err == nil {
				t.Fatalf("%s: the network driver takes two networks on %v", when, args)
			}
		}
	}
	again("at once")
	same(e, "after the plugin was installed anew")
	again("later")
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
