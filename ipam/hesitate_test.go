package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/ipamtest"
)

// lan is what an engine lists that has one network of ringlet.
func lan(at time.Time, cidr string) *ipam.Inventory {
	return &ipam.Inventory{Begun: at, Networks: []ipam.InventoryNetwork{{ID: "n1", Name: "lan", Subnets: []netip.Prefix{prefix(cidr)}}}}
}

// A first host that is new founds its cluster as soon as its engine has shown
// that it has no network, and not before.
func TestNewHostFounds(t *testing.T) {
	h := ipamtest.NewHost(t, ipam.Config{Hesitate: true, AwaitInventory: true})
	for _, r := range []ipam.Request{&ipam.Blindness{}, &ipam.Inventory{Begun: h.Now, Partial: true}} {
		h.Call(r)
		if slot := h.Machine().State().Slot; slot != 0 {
			t.Fatalf("it stands at slot %d after %T", slot, r)
		}
	}
	h.Restart()
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Inventory{Begun: h.Now})
	n := network(t, h, "10.50.0.0/24")
	run(t, h, n, "one")
}

// A first host whose engine has networks that its new database does not know
// hands out nothing until the others have taken it in.
func TestReinstalledFirstHostWaits(t *testing.T) {
	c, cidr := lab(t)
	c.silence(0, 1, 2)
	c.reinstall(2, func(cfg *ipam.Config) {
		cfg.Formation, cfg.Join, cfg.Hesitate, cfg.AwaitInventory = ipam.Formation{}, false, true, true
	})
	c.ask(2, lan(c.now, cidr.String()))
	refused(t, c.ask(2, docker(cidr)).Err, "RINGLET_BOOTSTRAP=1")
	c.start(2)
	c.ask(2, lan(c.now, cidr.String()))
	refused(t, c.ask(2, docker(cidr)).Err, "RINGLET_BOOTSTRAP=1")
	c.heal()
	c.run(time.Minute, c.agreed)
	if got, want := c.peers[2].machine.State().Cluster, c.peers[0].machine.State().Cluster; got != want {
		t.Errorf("it is in cluster %x, the others in %x", got, want)
	}
}
