package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Nothing of a host is heard for a while, though it counts as alive: it is waited
// for again once it is.
func TestOthersAreHeardAgain(t *testing.T) {
	l := newBegun(t)
	l.lose = func(f flight) bool { return f.from == 2 || f.to == 2 }
	l.wait(13 * time.Second)
	l.lose = func(flight) bool { return false }
	for range 5 {
		l.say(0, 2, wire.Beat{}, func(*wire.Header) {})
		l.wait(time.Second)
	}
	l.wantNone(0, "heard again")
}

// A host that cannot ask its engine, and is admitted late, waits for the others.
func TestJoinsLateWithoutAnEngine(t *testing.T) {
	l := newLost(t)
	l.lose = func(f flight) bool {
		_, join := f.frame.Body.(wire.Join)
		return join && f.from == 1
	}
	l.call(1, &ipam.Blindness{})
	l.run(time.Minute, func() bool { return len(l.peers[0].machine.State().Roster) == 2 })
	l.list(0)
	l.wait(3 * time.Minute)
	l.lose = func(flight) bool { return false }
	l.run(time.Minute, l.agreed)
	l.call(1, &ipam.Blindness{})
	l.wantNone(1, "joined")
}

// A host without networks waits for one whose engine has listed nothing yet, as soon
// as it has heard of a third one that has lost its database.
func TestBareHostWaitsForOthers(t *testing.T) {
	l := newLost(t)
	l.networks[1].Endpoints = nil
	l.reinstall(1, func(*ipam.Config) {})
	l.call(1, &ipam.Inventory{})
	l.run(time.Minute, l.agreed)
	l.lockstep.start(2)
	l.list(0)
	for range 3 {
		l.call(1, &ipam.Inventory{})
		l.wait(time.Second)
	}
	if r := l.ask(1, &ipam.PoolRequest{Space: ipam.Local, Pool: l.cidr}); r.Err != nil {
		t.Fatal(r.Err)
	}
	l.call(1, &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(l.cidr.String())}})
	l.wait(time.Second)
	l.wantNone(1, "with a network of its own")
}

// What a host had before, it knows after its next start, when its engine cannot
// be asked.
func TestStartsAgainWithoutAnEngine(t *testing.T) {
	l := newBegun(t)
	l.lockstep.start(2)
	l.wait(3 * time.Second)
	l.lockstep.start(0)
	l.wait(6 * time.Second)
	l.call(0, &ipam.Blindness{})
	l.wantNone(0, "started again")
}

// A new host, with a network that it has made since, waits for no other new host
// after its next start.
func TestNewHostStartsAgain(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	for range 2 {
		for i := range 2 {
			c.call(i, &ipam.Inventory{})
		}
		c.wait(time.Second)
	}
	cidr := prefix("10.50.0.0/24")
	if r := c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.call(0, lan(cidr.String()))
	c.start(0)
	for range 2 {
		c.wait(time.Second)
		c.call(0, lan(cidr.String()))
	}
	begun := c.now
	if r := c.ask(0, docker(cidr)); r.Err != nil || c.now.Sub(begun) > 5*time.Second {
		t.Errorf("%v, after %v", r.Err, c.now.Sub(begun))
	}
}

// A gateway or auxiliary address of a new network may be what a container of another
// host has, which has yet to list it.
func TestNewNetworkKeepsBackWhatOthersHave(t *testing.T) {
	for what, ask := range map[string]func(l *lost, a netip.Addr) ipam.Request{
		"of the pool": func(l *lost, a netip.Addr) ipam.Request {
			return &ipam.PoolRequest{Space: ipam.Local, Pool: l.cidr, Gateway: ipam.GatewayAddr, GatewayAddr: a}
		},
		"gateway": func(l *lost, a netip.Addr) ipam.Request {
			return &ipam.AddressRequest{Network: local(l.cidr), Purpose: ipam.ForGateway, Address: a}
		},
		"auxiliary": func(l *lost, a netip.Addr) ipam.Request {
			return &ipam.AddressRequest{Network: local(l.cidr), Purpose: ipam.ForUnmarked, Address: a}
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := newBegun(t)
			for _, e := range l.networks[2].Endpoints {
				if r := l.ask(0, ask(l, e.Address)); r.Err == nil {
					t.Errorf("%v is kept back, which %s has", e.Address, l.name(2))
				}
			}
		})
	}
}

// New hosts make a network on the LAN that they have addresses in: nobody waits for
// a list until these are theirs.
func TestNewHostsOnTheirLAN(t *testing.T) {
	for n := 2; n < 250; n += 13 {
		c := newAwaiting(t)
		c.run(time.Minute, c.agreed)
		cidr := prefix("10.50.0.0/24")
		for i := range c.peers {
			own := netip.PrefixFrom(addr.Nth(cidr, addr.Offset(n+i)), cidr.Bits())
			c.call(i, &ipam.HostAddresses{Addresses: []netip.Prefix{own}})
		}
		for range 3 {
			for i := range c.peers {
				c.call(i, &ipam.Inventory{})
			}
			c.wait(time.Second)
		}
		if r := c.ask(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}); r.Err != nil {
			t.Fatal(r.Err)
		}
		c.wait(2 * time.Second)
		for i := range c.peers {
			q := docker(cidr)
			if i == 1 {
				q.Purpose = ipam.ForGateway
			}
			if r := c.ask(i, q); r.Err != nil {
				t.Errorf("%s, with .%d: %v", c.name(i), n+i, r.Err)
			}
		}
	}
}

// A host that is suspended waits for nobody.
func TestSuspendedWaitsForNobody(t *testing.T) {
	l := newBegun(t)
	l.say(0, 0, wire.Beat{}, func(h *wire.Header) { h.Boot += 5 })
	if got := problemCodes(l.status(0)); len(got) != 1 || got[0] != "suspended" {
		t.Errorf("got the problems %v, want suspended alone", got)
	}
}
