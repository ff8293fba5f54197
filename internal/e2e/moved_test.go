package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// All data of a lone host is copied to a new disk, and the engine starts its containers from there. The plugin stays up, hands
// out nothing and says which command ends that. Then the host has what it had, also what an operator typed.
func TestEngineMoved(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin()
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	e.Ringlet("exclude", "add", "10.77.0.2-10.77.0.5", "--note", "printers")
	had := map[string]netip.Addr{}
	for name, address := range map[string]string{"aa": "10.77.0.20", "bb": "10.77.0.21"} {
		e.Docker("run", "--detach", "--restart", "always", "--name", name, "--network", "net", "--ip", address, Demo)
		had[name] = sameAddress(e, "net", name)
	}
	file := e.database()
	move := func() { // every file is another one then
		t.Helper()
		e.Run("bash", "-euc", `cd "${1%/*}"; cp -a . ../moved; find . -mindepth 1 -delete; mv ../moved/* .; rm -r ../moved`, "move", file)
	}
	says := func() {
		t.Helper()
		Eventually(t, readyLimit, "the status says what to do", func() bool {
			st, err := e.Status()
			said := fmt.Sprint(st.Problems)
			return err == nil && st.State == "suspended" && strings.Contains(said, "it was moved") && strings.Contains(said, "ringlet trust")
		})
		if out := e.Docker("plugin", "inspect", "--format", "{{.Enabled}}", Plugin); strings.TrimSpace(out) != "true" {
			t.Errorf("the plugin is enabled: %s", out)
		}
	}
	e.PowerOff()
	e.boot()
	e.plug()
	move()
	e.Up()
	says()
	_, err := e.TryDocker("run", "--detach", "--name", "new", "--network", "net", Demo)
	refused(t, err, "has stopped handing out addresses", "ringlet status")
	e.Docker("rm", "--force", "new")
	e.Ringlet("trust", "--i-know-no-other-copy-runs")
	Eventually(t, readyLimit, "its containers start", func() bool {
		for name := range had {
			if _, err := e.TryDocker("start", name); err != nil {
				return false
			}
		}
		return true
	})
	check := func(when string) {
		t.Helper()
		for name, address := range had {
			if got := sameAddress(e, "net", name); got != address {
				t.Errorf("%s: %s had %v and has %v", when, name, address, got)
			}
		}
		if got := runDemo(e, "net", "first-"+when); got.As4()[3] <= 5 {
			t.Errorf("%s: %v is excluded and was handed out", when, got)
		}
		same(e, when)
	}
	check("trusted")
	e.PowerOff()
	e.Up()
	check("rebooted")

	// The short form: the file alone, in a disabled plugin.
	e.Docker("plugin", "disable", "--force", Plugin)
	e.Run("bash", "-euc", `cp -a "$1" "$1.copy"; mv "$1.copy" "$1"`, "move", file)
	e.Docker("plugin", "enable", Plugin)
	says()
	e.Ringlet("trust", "--i-know-no-other-copy-runs")
	check("again")
}

// A lone host on a LAN loses its database. What operators decided is read again from the file beside it. Without that file,
// nothing new is handed out on the LAN before an operator says so; containers on a bridge start.
func TestEngineLosesDecisions(t *testing.T) {
	t.Parallel()
	need(t, "dd")
	e := Start(t, Config{Name: "host-a", Switch: NewSwitch(t), Address: netip.MustParsePrefix("192.168.9.200/24")})
	e.InstallPlugin()
	e.ImportDemo()
	e.lan("lan", "192.168.9.0/24", "--gateway", "192.168.9.254")
	makeNetwork(e, "net", "10.77.0.0/24")
	e.Ringlet("exclude", "add", "192.168.9.1-192.168.9.9", "--note", "printers")
	had := runDemo(e, "lan", "aa")
	file := e.database()
	lose := func(also ...string) {
		t.Helper()
		e.Docker("plugin", "disable", "--force", Plugin)
		e.Run("dd", "if=/dev/urandom", "of="+file, "bs=4096", "count=3", "seek=1", "conv=notrunc")
		for _, name := range also {
			e.Run("rm", strings.Replace(file, "ringlet.db", name, 1))
		}
		e.Docker("plugin", "enable", Plugin)
	}
	reads := func() string {
		t.Helper()
		st, err := e.Status()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(st.Problems)
	}
	lose()
	if got := runDemo(e, "lan", "bb"); got.As4()[3] <= 9 || got == had {
		t.Errorf("%v is excluded or in use, and was handed out", got)
	}
	if said := reads(); !strings.Contains(said, "read again from ringlet.decided.json") || strings.Contains(said, "reservations are lost") {
		t.Errorf("the status says %s", said)
	}
	lose("ringlet.decided.json")
	_, err := e.TryDocker("run", "--detach", "--name", "cc", "--network", "lan", Demo)
	refused(t, err, "hands out nothing new", "ringlet trust")
	if said := reads(); !strings.Contains(said, "hands out nothing new on network lan") || !strings.Contains(said, "ringlet trust") {
		t.Errorf("the status says %s", said)
	}
	runDemo(e, "net", "dd")
	if got := sameAddress(e, "lan", "aa"); got != had {
		t.Errorf("aa had %v and has %v", had, got)
	}
	e.Ringlet("exclude", "add", "192.168.9.1-192.168.9.9", "--note", "printers")
	e.Ringlet("trust", "--i-know-no-other-copy-runs")
	e.Docker("rm", "cc")
	if got := runDemo(e, "lan", "cc"); got.As4()[3] <= 9 || got == had {
		t.Errorf("%v is excluded or in use, and was handed out", got)
	}
	same(e, "after all")
}
