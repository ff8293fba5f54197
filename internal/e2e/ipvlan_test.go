package e2e

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// notOnIPVLAN is what engines say where a container on ipvlan is given a MAC. A kernel without ipvlan refuses it later
// than that.
const notOnIPVLAN = "custom mac address"

// Containers on ipvlan take no MAC: as long as the engine gives them one none starts, which the status says. The setting
// takes effect on a host that runs.
func TestEngineIPVLAN(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a", Switch: NewSwitch(t), Address: netip.MustParsePrefix("192.168.77.1/24")})
	e.InstallPlugin()
	e.ImportDemo()
	has := e.hasIPVLAN()
	create := func() {
		e.Docker("network", "create", "--driver", "ipvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin, "--subnet", "10.77.0.0/24", "--gateway", "10.77.0.1", "net")
	}
	create()
	run := func() error {
		_, err := e.TryDocker("run", "--detach", "--network", "net", Demo)
		return err
	}
	refused(t, run(), notOnIPVLAN)
	e.eventuallyIPVLAN(5*time.Second, true)
	e.Docker("container", "prune", "--force")
	e.Docker("network", "rm", "net")
	e.eventuallyIPVLAN(5*time.Second, false)
	create()

	e.Docker("plugin", "disable", "--force", Plugin)
	e.Docker("plugin", "set", Plugin, "RINGLET_MAC=false")
	e.Docker("plugin", "enable", Plugin)
	if err := run(); err != nil && (has || strings.Contains(err.Error(), notOnIPVLAN)) {
		t.Error(err)
	}
	e.eventuallyIPVLAN(mended, false)
}

// eventuallyIPVLAN waits until the status has the problem, or has it no more.
func (e *Engine) eventuallyIPVLAN(limit time.Duration, want bool) {
	e.t.Helper()
	Eventually(e.t, limit, fmt.Sprintf("the status has the problem: %t", want), func() bool {
		st, err := e.Status()
		return err == nil && want == slices.ContainsFunc(st.Problems, func(p Problem) bool { return p.Code == "mac-on-ipvlan" })
	})
}

// Without MACs an engine before 29 does not tell what it asks for: a container's --ip, an auxiliary address of a network, or
// what it has already when it starts. A container with --ip is refused, networks get what they name, and all keep what they have.
func TestEngineWithoutMAC(t *testing.T) {
	t.Parallel()
	for _, live := range []bool{false, true} {
		t.Run(fmt.Sprintf("live-restore=%t", live), func(t *testing.T) {
			t.Parallel()
			e := Start(t, Config{Name: "host-a", LiveRestore: live})
			e.InstallPlugin("RINGLET_MAC=false")
			e.ImportDemo()
			before := time.Now()
			e.Docker("network", "create", "--ipam-driver", Plugin, "--subnet", "10.77.0.0/24", "--aux-address", "router=10.77.0.50", "--aux-address", "printer=10.77.0.51", "net")
			if took := time.Since(before); took > 30*time.Second {
				t.Errorf("a network with auxiliary addresses takes %v", took)
			}
			tells := e.release() >= 29
			// fixed starts a container with --ip, or gives the command that does.
			fixed := func(name, address string, command ...string) {
				t.Helper()
				if len(command) == 0 {
					command = []string{"run", "--detach", "--name", name, "--restart", "always", "--network", "net", "--ip", address, Demo}
				}
				_, err := e.TryDocker(command...)
				switch taken := name == "wrong" || name == "aux"; {
				case !tells:
					refused(t, err, address, "needs engine 29")
				case taken:
					refused(t, err, address)
				case err != nil:
					t.Error(err)
				}
			}
			e.Docker("run", "--detach", "--name", "one", "--restart", "always", "--network", "net", Demo)
			first := sameAddress(e, "net", "one")
			free := runDemo(e, "net", "two")
			e.named("one", first.String())
			e.named("two", free.String())
			fixed("fixed", "10.77.0.77")
			fixed("wrong", first.String())
			fixed("aux", "10.77.0.50")
			running := []string{"one"}
			if tells {
				running = append(running, "fixed")
			}
			settled := func() {
				t.Helper()
				for _, name := range running {
					e.running(name)
					got := sameAddress(e, "net", name)
					if want := netip.MustParseAddr("10.77.0.77"); name == "fixed" && got != want {
						t.Errorf("fixed has %v", got)
					}
					e.named(name, got.String())
				}
			}

			e.Kill()
			up := time.Now()
			e.Up()
			t.Logf("the engine was there after %v", time.Since(up))
			settled()
			if live {
				if got := sameAddress(e, "net", "one"); got != first {
					t.Errorf("one has %v, it had %v", got, first)
				}
			}
			fixed("aux", "10.77.0.50", "start", "aux")

			e.Restart()
			settled()
			fixed("aux", "10.77.0.50", "start", "aux")
			e.Docker("rm", "--force", "one", "two", "fixed", "wrong", "aux")
			fixed("fixed", "10.77.0.77")
			e.Docker("rm", "--force", "fixed")
			e.Docker("network", "rm", "net")
			same(e, "without the network")
		})
	}
}

// running waits until the engine has started a container.
func (e *Engine) running(name string) {
	e.t.Helper()
	Eventually(e.t, mended, name+" runs", func() bool {
		return e.Docker("inspect", "--format", "{{.State.Running}}", name) == "true"
	})
}

// named waits until ringlet knows by its name who has an address.
func (e *Engine) named(name, address string) {
	e.t.Helper()
	Eventually(e.t, mended, address+" is "+name+"'s", func() bool {
		out, _ := e.TryRinglet("ip", "ls")
		for line := range strings.Lines(out) {
			if strings.Contains(line, address+" ") && strings.Contains(line, name) {
				return true
			}
		}
		return false
	})
}
