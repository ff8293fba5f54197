package ipam_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/wire"
)

// lan is what an engine lists that has one network of ringlet.
func lan(cidr string) *ipam.Inventory {
	return &ipam.Inventory{Networks: []ipam.InventoryNetwork{{ID: "n1", Name: "lan", Subnets: []netip.Prefix{prefix(cidr)}}}}
}

// A first host that is new founds its cluster as soon as its engine has shown
// that it has no network, and not before.
func TestNewHostFounds(t *testing.T) {
	for _, told := range []bool{false, true} {
		t.Run(fmt.Sprintf("RINGLET_BOOTSTRAP=1: %t", told), func(t *testing.T) {
			newHostFounds(t, machinetest.NewHost(t, ipam.Config{Hesitate: true, AwaitInventory: true, FoundAlone: told}))
		})
	}
}

func newHostFounds(t *testing.T, h *machinetest.Host) {
	t.Helper()
	for _, r := range []ipam.Request{&ipam.Blindness{}, &ipam.Inventory{Partial: true}} {
		h.Call(r)
		if slot := h.Machine().State().Slot; slot != 0 {
			t.Fatalf("it stands at slot %d after %T", slot, r)
		}
	}
	h.Restart()
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Inventory{})
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
	c.ask(2, lan(cidr.String()))
	refused(t, c.ask(2, docker(cidr)).Err, "RINGLET_BOOTSTRAP=1")
	c.start(2)
	c.ask(2, lan(cidr.String()))
	refused(t, c.ask(2, docker(cidr)).Err, "RINGLET_BOOTSTRAP=1")
	c.heal()
	c.run(time.Minute, c.agreed)
	if got, want := c.peers[2].machine.State().Cluster, c.peers[0].machine.State().Cluster; got != want {
		t.Errorf("it is in cluster %x, the others in %x", got, want)
	}
}

// Two first hosts have founded a cluster each. The one that gives way starts again
// before it is in the other one's, and founds none beside it because its engine has
// no network; if an operator says that it is to, it looks for one first.
func TestGivesWayAndStartsAgain(t *testing.T) {
	c := newLockstepWith(t, 2, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Formation, p.cfg.Join, p.cfg.Hesitate, p.cfg.AwaitInventory = ipam.Formation{}, false, true, true
		}
	})
	c.lose = func(flight) bool { return true }
	for i := range c.peers {
		c.call(i, &ipam.Inventory{})
	}
	c.lose = func(f flight) bool {
		switch f.frame.Body.(type) {
		case wire.Decided, wire.Snapshot:
			return true
		}
		return false
	}
	slot := func(i int) uint64 { return c.peers[i].machine.State().Slot }
	c.run(time.Minute, func() bool {
		for i := range c.peers {
			c.say(1-i, i, wire.Beat{}, func(*wire.Header) {}) // as gossip brings it
		}
		return slot(0) == 0 || slot(1) == 0
	})
	x := 0
	if slot(0) > 0 {
		x = 1
	}
	c.silence(x)
	c.queue = nil
	for range 2 {
		c.start(x)
		c.call(x, &ipam.Inventory{})
		c.wait(time.Minute)
		if slot(x) != 0 {
			t.Fatal("it has founded another cluster")
		}
	}
	c.peers[x].cfg.FoundAlone = true
	c.start(x)
	c.call(x, &ipam.Inventory{})
	c.wait(10 * time.Second)
	if slot(x) != 0 {
		t.Fatal("it has founded another cluster before it looked for one")
	}
	c.run(time.Minute, func() bool { return slot(x) > 0 })
}

// All hosts have lost their databases, and none founds a cluster, also not at
// its next start. It is enough to tell one that it is to: the others join it.
func TestAllAreReinstalled(t *testing.T) {
	c, cidr := lab(t)
	for i := range c.peers {
		c.reinstall(i, func(cfg *ipam.Config) {
			cfg.Formation, cfg.Join, cfg.Hesitate, cfg.AwaitInventory = ipam.Formation{}, true, true, true
		})
		c.ask(i, lan(cidr.String()))
	}
	c.start(0)
	c.ask(0, lan(cidr.String()))
	c.wait(time.Minute)
	for i := range c.peers {
		if slot := c.peers[i].machine.State().Slot; slot != 0 {
			t.Fatalf("peer %d stands at slot %d, and nobody has said where the cluster begins", i, slot)
		}
	}
	c.peers[0].cfg.Join, c.peers[0].cfg.FoundAlone = false, true
	c.start(0)
	c.run(time.Minute, c.agreed)
	for range 2 { // the first list has a network whose pool is not there yet
		for i := range c.peers {
			c.ask(i, lan(cidr.String()))
		}
		c.wait(time.Second)
	}
	if n := len(c.peers[0].machine.State().Roster); n != len(c.peers) {
		t.Errorf("%d peers are in the cluster, want all %d", n, len(c.peers))
	}
	for i := range c.peers {
		if err := c.ask(i, docker(cidr)).Err; err != nil {
			t.Errorf("peer %d: %v", i, err)
		}
	}
}

// A host that took over the space of its former self hands out nothing that
// the engine's list shows to be kept back: what has to be decided about that is
// set aside before the list counts as taken in.
func TestListedGatewayIsNotHandedOut(t *testing.T) {
	c, cidr := lab(t)
	x := c.order()[2] // a majority of the votes stays
	first := c.peers[x].machine.Self()
	for range 2 { // the first time it is on a machine of which nobody has heard
		before := c.peers[x].machine.Self()
		c.reinstall(x, func(cfg *ipam.Config) { cfg.Machine, cfg.AwaitInventory = 7, true })
		for i := range c.peers {
			c.step(i, &ipam.Presence{Peer: before})
		}
		m := c.peers[x].machine
		c.run(time.Minute, func() bool { return m.State().Member(m.Self()) != nil })
		if before == first {
			c.ask(x, lan(cidr.String()))
			c.ask(x, docker(cidr))
		}
	}
	c.run(time.Minute, func() bool {
		former := c.peers[x].machine.State().Former
		return len(former) > 0 && former[len(former)-1].Forgotten
	})
	var waiting []uint64
	for range 3 {
		waiting = append(waiting, c.call(x, docker(cidr)))
	}
	inv := lan(cidr.String())
	kept := map[netip.Addr]bool{}
	for a := cidr.Addr().Next(); cidr.Contains(a.Next()); a = a.Next() {
		if a.As4()[3]%2 == 0 {
			inv.Networks[0].Auxiliary = append(inv.Networks[0].Auxiliary, a)
			kept[a] = true
		}
	}
	c.ask(x, inv)
	c.wait(time.Second)
	c.ask(x, inv) // what had to be decided is
	for _, call := range waiting {
		c.run(time.Minute, func() bool { _, ok := c.peers[x].replies[call]; return ok })
		if r := c.peers[x].replies[call]; r.Err != nil || kept[r.Address.Address.Addr()] {
			t.Errorf("got %v, %v, of a network that keeps all even addresses back", r.Address.Address, r.Err)
		}
	}
}

// Founders whose databases are gone, while their engines have networks, found
// no cluster together, also where they do not see the one that there is.
func TestReinstalledFoundersWait(t *testing.T) {
	c, cidr := lab(t)
	c.silence(2)
	for _, i := range []int{0, 1} {
		c.reinstall(i, func(cfg *ipam.Config) { cfg.Hesitate, cfg.AwaitInventory = true, true })
	}
	for _, i := range []int{0, 1} {
		c.step(i, &ipam.Presence{Peer: c.peers[2].machine.Self()})
		c.ask(i, lan(cidr.String()))
	}
	c.wait(20 * time.Second)
	for _, i := range []int{0, 1} {
		if slot := c.peers[i].machine.State().Slot; slot != 0 {
			t.Errorf("host-%d stands at slot %d", i, slot)
		}
	}
	// An operator decides for the one that is left.
	c.heal()
	c.wait(5 * time.Second)
	for _, i := range []int{0, 1} {
		if got, want := c.peers[i].machine.State().Cluster, c.peers[2].machine.State().Cluster; got != want {
			t.Errorf("host-%d is in cluster %x, want %x", i, got, want)
		}
	}
}

// A host that lost its database, and then all others, takes over what its
// former self had although it is alone.
func TestAloneInherits(t *testing.T) {
	c := newLockstep(t, 3)
	for i := range c.peers {
		c.peers[i].cfg.Machine = uint64(i + 1)
		c.reinstall(i, func(*ipam.Config) {})
	}
	c.found()
	x := c.order()[2]
	before := c.peers[x].machine.Self()
	c.reinstall(x, func(*ipam.Config) {})
	for i := range c.peers {
		c.step(i, &ipam.Presence{Peer: before})
	}
	m := c.peers[x].machine
	c.run(time.Minute, func() bool { return m.State().Member(m.Self()) != nil })
	var others []int
	for i := range c.peers {
		if i != x {
			others = append(others, i)
		}
	}
	c.silence(others...)
	for _, i := range others {
		c.step(x, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	c.wait(6 * time.Second)
	if err := c.ask(x, &ipam.RecoverRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	c.run(time.Minute, func() bool {
		g := m.State().Gone(before)
		return g != nil && g.Forgotten
	})
}

// Two hosts have founded a cluster each, and one gave way. A frame that it sent
// before is late, and has the other one give way to what is no more: after a while
// they are in one cluster all the same.
func TestGaveWayToEachOther(t *testing.T) {
	c := newLockstepWith(t, 2, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Formation, p.cfg.Join = ipam.Formation{}, false
		}
	})
	clusters := [][16]byte{c.peers[0].machine.State().Cluster, c.peers[1].machine.State().Cluster}
	first, second := 0, 1
	if bytes.Compare(clusters[0][:], clusters[1][:]) < 0 {
		first, second = 1, 0 // the higher one gives way
	}
	c.lose = func(flight) bool { return true }
	late := func(to, from int) {
		c.say(to, from, wire.Beat{}, func(h *wire.Header) { h.Cluster, h.Slot = clusters[from], 1 })
	}
	for _, i := range []int{first, second, second} {
		late(i, 1-i)
		c.wait(6 * time.Second) // the lower one is stubborn
		late(i, 1-i)
	}
	c.lose = func(flight) bool { return false }
	for i, p := range c.peers {
		if slot := p.machine.State().Slot; slot != 0 {
			t.Fatalf("host-%d stands at slot %d, and was to give way", i, slot)
		}
	}
	c.run(2*time.Minute, func() bool { return c.peers[0].machine.State().Slot > 0 && c.agreed() })
	c.oneCluster()
}

// unseen has the first host see nobody until they heal.
func (l *lost) unseen() {
	for _, i := range []int{1, 2} {
		l.step(0, &ipam.Presence{Peer: l.peers[i].machine.Self()})
	}
	l.silence(1, 2)
}

// unanswered has the first host see the others, and hear nothing of them until
// they heal.
func (l *lost) unanswered() {
	l.queue = nil
	l.silence(1, 2)
}

// The others come, or answer, after the first host has waited for a while: it has
// not begun without them.
func TestOthersComeLater(t *testing.T) {
	for name, away := range map[string]func(l *lost){
		"nobody is seen":      (*lost).unseen,
		"nobody has answered": (*lost).unanswered,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLost(t)
			away(l)
			for range 6 {
				l.list(0)
			}
			refused(t, l.ask(0, docker(l.cidr)).Err, "looks for hosts that are in a cluster")
			l.heal()
			var asked []uint64
			for range 3 {
				asked = append(asked, l.call(0, docker(l.cidr)))
			}
			for range 3 {
				for i := range l.peers {
					l.list(i)
				}
			}
			for _, call := range asked {
				r, answered := l.peers[0].replies[call]
				a := r.Address.Address.Addr()
				if other, taken := l.holder[a]; !answered || r.Err != nil || taken {
					t.Errorf("answered %t: %v, %v, which host-%d has", answered, a, r.Err, other)
				}
			}
		})
	}
}

// The others never come: after a while the first host begins without them.
func TestOthersNeverCome(t *testing.T) {
	for name, away := range map[string]func(l *lost){
		"nobody is seen": (*lost).unseen, "nobody answers": (*lost).unanswered,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLost(t)
			away(l)
			l.wait(time.Minute)
			l.list(0)
			if r := l.ask(0, docker(l.cidr)); r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
}

// A host was told long ago to found the cluster alone, and is told so still when
// its database is lost: it joins the others, if they come within a while.
func TestBootstrapLeftSet(t *testing.T) {
	for name, away := range map[string]time.Duration{"they are there": 0, "they come": 40 * time.Second} {
		t.Run(name, func(t *testing.T) {
			c, cidr := lab(t)
			if away > 0 {
				c.silence(0, 1)
			}
			c.reinstall(2, func(cfg *ipam.Config) {
				cfg.Formation, cfg.Join, cfg.FoundAlone, cfg.Hesitate, cfg.AwaitInventory = ipam.Formation{}, false, true, true, true
			})
			for _, i := range []int{0, 1} {
				c.step(2, &ipam.Presence{Peer: c.peers[i].machine.Self(), Alive: away == 0})
			}
			c.ask(2, lan(cidr.String()))
			c.wait(away)
			c.heal()
			c.run(time.Minute, c.agreed)
			c.oneCluster()
		})
	}
}

// A host that was told long ago to found the cluster alone sees one that has lost
// its database as well, and later one that has not, and answers late: it founds
// none beside that, also where it cannot be admitted, since a majority is lost.
func TestBootstrapLeftSetAndMajorityLost(t *testing.T) {
	c, cidr := lab(t)
	c.lose = func(f flight) bool { return f.from == 0 }
	for _, i := range []int{1, 2} {
		told := i == 2
		c.reinstall(i, func(cfg *ipam.Config) {
			cfg.Formation, cfg.Join, cfg.FoundAlone, cfg.Hesitate, cfg.AwaitInventory = ipam.Formation{}, !told, told, true, true
		})
	}
	for _, i := range []int{1, 2} {
		c.call(i, lan(cidr.String()))
	}
	c.step(2, &ipam.Presence{Peer: c.peers[0].machine.Self()})
	c.wait(3 * time.Second)
	c.step(2, &ipam.Presence{Peer: c.peers[0].machine.Self(), Alive: true})
	c.wait(17 * time.Second)
	c.lose = func(f flight) bool { return f.from == 0 && f.to == 1 }
	c.wait(2 * time.Minute)
	if got, want := c.peers[2].machine.State().Cluster, c.peers[0].machine.State().Cluster; got != want && got != [16]byte{} {
		t.Errorf("it has founded cluster %x beside %x", got, want)
	}
}
