package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// What a thread of ringlet may do while it may send ARP, and while it may not.
const (
	noRights   = "CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1"
	netRawOnly = "CapInh:0000000000000000 CapPrm:0000000000002000 CapEff:0000000000002000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1"
)

// rights returns what each thread of the process ringlet of a host may do, as the kernel tells, by what it is.
func (e *Engine) rights() map[string]int {
	e.t.Helper()
	pid := e.Run("pidof", "-s", "ringlet")
	out := e.Run("bash", "-c", fmt.Sprintf(
		`for t in /proc/%s/task/*; do awk '/^(Cap|NoNewPrivs)/ { printf "%%s%%s ", $1, $2 } END { print "" }' $t/status; done`, pid))
	found := map[string]int{}
	for line := range strings.Lines(out) {
		found[strings.TrimSpace(line)]++
	}
	return found
}

// only fails the test unless every thread of ringlet has just these rights.
func (e *Engine) only(when, want string) {
	e.t.Helper()
	threads := 0
	for have, n := range e.rights() {
		threads += n
		if have != want {
			e.t.Errorf("%s: %s: %d threads of ringlet have %s\nwant %s", e.Name, when, n, have, want)
		}
	}
	if threads < 3 {
		e.t.Errorf("%s: %s: only %d threads of ringlet were looked at", e.Name, when, threads)
	}
}

// The plugin runs with the right to send ARP and no other, from its start on, on all its threads, also after the load of
// some containers and after the engine has started it again; and that right is enough for probe=arp.
func TestEnginePluginRights(t *testing.T) {
	t.Parallel()
	need(t, "pidof", "awk")
	c := NewCluster(t, 1)
	e := c.Engines[0]
	c.Install()
	e.only("at the start", netRawOnly)

	e.Docker("network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin,
		"--subnet", "192.168.50.0/24", "--gateway", "192.168.50.254", "--ipam-opt", "probe=arp", "lan")
	stranger := NewHost(t, "stranger")
	c.Switch.Plug(stranger, netip.Prefix{})
	taken := runDemo(e, "lan", "first").Next()
	stranger.Run("ip", "address", "add", taken.String()+"/24", "dev", "eth0")
	if got := runDemo(e, "lan", "second"); got == taken {
		t.Errorf("%v was handed out, which something else on the LAN has", got)
	}
	if out := e.Ringlet("who", taken.String(), "-o", "json"); !strings.Contains(out, `"stranger"`) {
		t.Errorf("the stranger at %v was not found:\n%s", taken, out)
	}
	e.only("with containers", netRawOnly)

	before := e.Run("pidof", "-s", "ringlet")
	e.Run("kill", "-KILL", before)
	Eventually(t, readyLimit, "the engine starts the plugin again", func() bool {
		now, err := e.Try("pidof", "-s", "ringlet")
		return err == nil && now != before
	})
	same(e, "after the plugin was started again")
	e.only("after the plugin was started again", netRawOnly)
}
