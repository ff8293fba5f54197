package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// All databases are lost. The peers have found a new cluster, and the pool is dealt
// out, before any of them has taken in what its engine has: of which each finds
// something in the share of the next, which waits for something itself. Nobody
// waits for ever, nobody gives away what its own containers have, and from then on
// all hand out addresses.
func TestEveryDatabaseLost(t *testing.T) {
	c := newAwaiting(t)
	hosts := len(c.peers)
	c.found()
	p := c.peers[0].machine.State().Pools[0]
	subnet := p.CIDR.String()
	networks := make([]ipam.InventoryNetwork, hosts)
	holder := map[netip.Addr]int{}
	endpoint := func(i int, a netip.Addr) {
		holder[a] = i
		networks[i] = on(subnet, append(networks[i].Endpoints, listed(a.String(), fmt.Sprint("c", len(holder)), byte(len(holder))))...)
	}
	for i := range hosts {
		next := c.peers[(i+1)%hosts].machine.Self()
		for r := range p.Ring.OwnedBy(next) {
			endpoint(i, addr.Nth(p.CIDR, r.Start+2))
			endpoint((i+1)%hosts, addr.Nth(p.CIDR, r.Start+3)) // beside it one of its own
			break
		}
	}
	look := func() {
		for i := range hosts {
			c.call(i, &ipam.Inventory{Networks: networks[i : i+1]})
		}
		c.wait(2 * time.Second)
	}
	waits := func(i int) bool {
		return slices.Contains(problemCodes(c.status(i)), "inventory-awaited")
	}
	for i := range hosts {
		if !waits(i) {
			t.Fatalf("%s has a new database, and does not wait for its engine", c.peers[i].cfg.Name)
		}
	}
	for range 15 {
		look()
	}
	for i, peer := range c.peers {
		if waits(i) {
			t.Errorf("%s waits still: %+v", peer.cfg.Name, peer.machine.Status(c.now).Problems)
		}
		list, err := peer.machine.Addresses(c.now, "")
		if err != nil {
			t.Fatal(err)
		}
		list = slices.DeleteFunc(list, func(a ipam.AddressStatus) bool { return a.State != "held" })
		for _, a := range list {
			if of, known := holder[a.Address]; !known || of != i {
				t.Errorf("%s holds %v of host %d", peer.cfg.Name, a.Address, of)
			}
		}
		if len(list) != 2 {
			t.Errorf("%s holds %d addresses, want both of its containers'", peer.cfg.Name, len(list))
		}
	}
	for i := range hosts {
		r := c.ask(i, docker(p.CIDR))
		if of, taken := holder[r.Address.Address.Addr()]; r.Err != nil || taken {
			t.Errorf("%s hands out %v, which host %d has: %v", c.peers[i].cfg.Name, r.Address.Address, of, r.Err)
		}
		holder[r.Address.Address.Addr()] = i
	}
	c.oneCluster()
}

// An address that is kept for a name, or excluded, or the network's own, is nobody's
// gateway and no network's auxiliary address, also while a host that has just started
// answers the engine from what stands.
func TestKeptBackWhileAHostStarts(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/24")
	n := c.network(1, cidr, "10.60.0.200")
	kept, excluded, whole := netip.MustParseAddr("10.60.0.201"), netip.MustParseAddr("10.60.0.202"), cidr.Addr()
	c.ask(0, &ipam.ReserveRequest{Pool: cidr.String(), First: kept, Last: kept, Kind: chronicle.KindKeptForName, Note: "web"})
	c.ask(0, &ipam.ReserveRequest{Pool: cidr.String(), First: excluded, Last: excluded, Kind: chronicle.KindExcluded})
	for _, tc := range []struct {
		a   netip.Addr
		why string
	}{{kept, "reserved for web"}, {excluded, "excluded"}, {whole, "network address"}} {
		for _, purpose := range []ipam.Purpose{ipam.ForGateway, ipam.ForUnmarked} {
			c.start(1)
			c.call(1, &ipam.Greeting{})
			ask := func(a netip.Addr) uint64 {
				return c.call(1, &ipam.AddressRequest{Network: n, Purpose: purpose, Address: a})
			}
			stands, call := ask(netip.MustParseAddr("10.60.0.200")), ask(tc.a)
			if r, ok := c.peers[1].replies[stands]; !ok || r.Err != nil {
				t.Errorf("what stands is not answered while the host starts: %+v", r)
			}
			if r, ok := c.peers[1].replies[call]; ok {
				t.Errorf("%v, %s, is answered with %+v, %v", tc.a, tc.why, r, r.Err)
			}
		}
		wantErr(t, c.ask(1, &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: tc.a}).Err, ipam.ErrAddressReserved, tc.why)
	}
}

// An address is in use, and who is asked says so too late for the call that wanted to
// know. It is freed then: the next call hears of that, and not of what was before it.
func TestRefusalFromBeforeTheCall(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/24")
	c.network(0, cidr)
	c.network(1, cidr)
	c.ask(0, docker(cidr))
	held := c.heldBy(0)
	var late []flight
	c.lose = func(f flight) bool {
		_, answer := f.frame.Body.(wire.Answer)
		if answer && f.to == 1 {
			late = append(late, f)
		}
		return answer && f.to == 1
	}
	// Who does not answer is asked again, every three seconds: also just before the second
	// of two calls ends.
	c.call(1, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Address: held})
	c.wait(1500 * time.Millisecond)
	wantErr(t, c.ip(1, cidr, held), ipam.ErrUnreachable, held.String())
	c.lose = func(flight) bool { return false }
	if len(late) == 0 {
		t.Fatal("nobody was asked")
	}
	c.deliver(flight{from: 0, to: 1, at: c.now, frame: late[len(late)-1].frame})
	c.wait(time.Millisecond)
	c.stop(0, cidr)
	if err := c.ip(1, cidr, held); err != nil {
		t.Errorf("it is free by now: %v", err)
	}
}

// A host with nothing left was told a moment ago that the others have nothing either. Then a
// container of one of them goes, and the news of that gets lost: the next call asks again, and
// so does each of many calls at once.
func TestSpaceFreedAMomentAgo(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/28")
	for i := range c.peers {
		c.network(i, cidr)
	}
	held := 0
	for i := range 2 {
		for range 2 {
			if r := c.ask(i, docker(cidr)); r.Err != nil {
				t.Fatal(r.Err)
			}
			held++
		}
	}
	wantErr(t, c.full(2, cidr), ipam.ErrNoAddress, "have none to spare")
	c.lose = func(f flight) bool {
		_, news := f.frame.Body.(wire.Announce)
		return news
	}
	c.stop(0, cidr)
	c.stop(1, cidr)
	calls := map[uint64]bool{}
	for range held + 2 {
		calls[c.call(2, docker(cidr))] = true
	}
	c.wait(20 * time.Second)
	granted := 0
	for id := range calls {
		if r, done := c.peers[2].replies[id]; !done {
			t.Errorf("call %d is not answered", id)
		} else if r.Err == nil {
			granted++
		}
	}
	if granted != held {
		t.Errorf("%d addresses were had of the %d that had been freed before anybody asked", granted, held)
	}
}
