package e2e

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// Hosts whose own addresses lie in the pool, as on a LAN that containers share with them. Somebody makes a network there
// and starts containers right behind it, as compose does: none gets the address of a host, by itself or by name.
func TestClusterOwnLAN(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3)
	c.Install()
	for _, maker := range c.Engines {
		maker.lan("lan", "192.168.50.0/24", "--gateway", "192.168.50.254")
		for i := range c.Engines {
			refused(t, claim(maker, hostAt(i).String()), hostAt(i).String(), c.Engines[i].Name)
		}
		c.crowd([]*Engine{maker}, "lan", "guest", 6)
		for i, e := range c.Engines {
			if out := e.Ringlet("who", hostAt(i).String()); !strings.Contains(out, "state    host") {
				t.Errorf("%s makes the network: who %v on %s says:\n%s", maker.Name, hostAt(i), e.Name, out)
			}
		}
		for _, a := range c.union("beside the hosts") {
			if own(a, len(c.Engines)) {
				t.Errorf("%s makes the network: a container has %v, as a host does", maker.Name, a)
			}
		}
		if err := disperse(maker, "guest"); err != nil {
			t.Fatal(err)
		}
		c.unmake(maker, "lan")
		maker.Ringlet("pool", "rm", "192.168.50.0/24") // a list of the engine may be under way that has the network still
	}
	c.reachTheirOwn()
}

// reachTheirOwn has hosts reach their containers on a LAN as docs/networks.md says: through an interface beside theirs.
func (c *Cluster) reachTheirOwn() {
	for i, e := range c.Engines[:2] {
		e.lan("lan", "192.168.50.0/24", "--gateway", "192.168.50.254", "--ip-range", "192.168.50.128/25")
		e.Docker("run", "--detach", "--name", "guest", "--network", "lan", Demo)
		demo, guest := Built(c.t, "demo"), e.Address("guest", "lan").String()
		if _, err := e.Try(demo, "ping", guest, "-c", "1", "-t", "300ms"); err == nil {
			c.t.Errorf("%s reaches %s without an interface beside it: is the page still true?", e.Name, guest)
		}
		another := fmt.Sprint("192.168.50.", 77+i)
		shim := strings.TrimSpace(e.Ringlet("alloc", "--pool", "192.168.50.0/24", "--for", "shim of "+e.Name))
		e.Run("ip", "link", "add", "shim", "link", "eth0", "type", "macvlan", "mode", "bridge")
		e.Run("ip", "address", "add", shim+"/32", "dev", "shim")
		e.Run("ip", "link", "set", "shim", "up")
		e.Run("ip", "route", "add", "192.168.50.128/25", "dev", "shim")
		e.Run(demo, "ping", guest)
		e.Run("ip", "address", "add", another+"/32", "dev", "shim")
		Eventually(c.t, readyLimit, e.Name+" has read its interfaces", func() bool {
			return strings.Contains(e.Ringlet("who", another), "state    host")
		})
		if out := e.Ringlet("who", shim); !strings.Contains(out, "shim of "+e.Name) {
			c.t.Errorf("who %s on %s says:\n%s", shim, e.Name, out)
		}
	}
	c.AwaitReady(c.Engines...)
	c.union("with interfaces beside the hosts' own")
}

// own reports whether an address is that of one of the first n hosts.
func own(a netip.Addr, n int) bool {
	return hostAt(0).Compare(a) <= 0 && a.Compare(hostAt(n-1)) <= 0
}
