package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// Something that is no engine has addresses of the pool, on the switch that the engines share: none of them is handed
// out, each is shown with its MAC, and what was released is asked about again.
func TestClusterProbe(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 2)
	c.Install()
	for _, e := range c.Engines {
		e.Docker("network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin,
			"--subnet", "192.168.50.0/24", "--gateway", "192.168.50.254", "--ipam-opt", "probe=arp", "lan")
	}
	stranger := NewHost(t, "stranger")
	c.Switch.Plug(stranger, netip.Prefix{})
	mac := strings.Fields(stranger.Run("ip", "-brief", "link", "show", "eth0"))[2]

	// Each engine's next address is the stranger's: the second after the first of its containers.
	var taken []netip.Addr
	for _, e := range c.Engines {
		a := runDemo(e, "lan", "first").Next()
		stranger.Run("ip", "address", "add", a.String()+"/24", "dev", "eth0")
		taken = append(taken, a)
	}
	for i, e := range c.Engines {
		if a := runDemo(e, "lan", "second"); a == taken[0] || a == taken[1] {
			t.Errorf("%s hands out %v, which the stranger has", e.Name, a)
		}
		out := e.Ringlet("who", taken[i].String(), "-o", "json")
		for _, want := range []string{`"stranger"`, mac} {
			if !strings.Contains(out, want) {
				t.Errorf("who %v on %s does not show %q:\n%s", taken[i], e.Name, want, out)
			}
		}
		Eventually(t, directoryLimit, fmt.Sprintf("status of %s names %v and %s", e.Name, taken[i], mac), func() bool { // a busy peer answers with its last status
			st, err := e.Status()
			found := false
			for _, p := range st.Problems {
				found = found || p.Code == "stranger" && strings.Contains(p.Text, taken[i].String()) && strings.Contains(p.Text, mac)
				if p.Code == "probe-failed" {
					t.Errorf("on %s: %s", e.Name, p.Text)
				}
			}
			return err == nil && found
		})
		_, err := e.TryDocker("run", "--detach", "--name", "third", "--network", "lan", "--ip", taken[i].String(), Demo)
		refused(t, err, mac)
		e.Docker("rm", "--force", "third") // the engine keeps what did not start
	}

	// The device goes: what an operator releases can be had, after another look at the LAN.
	e, a := c.Engines[0], taken[0]
	e.Ringlet("release", a.String())
	_, err := e.TryDocker("run", "--detach", "--name", "early", "--network", "lan", "--ip", a.String(), Demo)
	refused(t, err, mac)
	e.Docker("rm", "--force", "early")
	stranger.Run("ip", "address", "del", a.String()+"/24", "dev", "eth0")
	e.Ringlet("release", a.String())
	e.Docker("run", "--detach", "--name", "late", "--network", "lan", "--ip", a.String(), Demo)
	if got := sameAddress(e, "lan", "late"); got != a {
		t.Errorf("got %v, want %v", got, a)
	}
	for _, e := range c.Engines {
		same(e, "at the end")
	}
}
