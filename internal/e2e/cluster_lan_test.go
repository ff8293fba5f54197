package e2e

import (
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
		c.crowd([]*Engine{maker}, "lan", "guest", 10)
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
		maker.Docker("network", "rm", "lan")
		maker.Ringlet("pool", "rm", "192.168.50.0/24") // a list of the engine may be under way that has the network still
	}
}

// own reports whether an address is that of one of the first n hosts.
func own(a netip.Addr, n int) bool {
	return hostAt(0).Compare(a) <= 0 && a.Compare(hostAt(n-1)) <= 0
}
