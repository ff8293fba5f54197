package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// A peer that has started again knows what the others have of each pool, and they what
// it has, as before.
func TestToldAgainAfterAStart(t *testing.T) {
	c, _ := lab(t)
	cidr := prefix("10.50.0.0/24")
	for i, n := range []int{1, 3, 5} {
		for range n {
			if err := c.ask(i, docker(cidr)).Err; err != nil {
				t.Fatal(err)
			}
		}
	}
	shares := func(i int) (told map[string]ipam.ShareStatus) {
		told = map[string]ipam.ShareStatus{}
		for _, p := range c.status(i).Pools {
			for _, s := range p.Shares {
				if p.Pool == cidr && s.Announced {
					told[s.Owner] = s
				}
			}
		}
		return told
	}
	all := func() bool {
		for i := range c.peers {
			if len(shares(i)) != 3 {
				return false
			}
		}
		return true
	}
	c.run(time.Minute, all)
	for i := range c.peers {
		c.start(i)
		c.wait(30 * time.Second)
		for j := range c.peers {
			if got := shares(j); len(got) != 3 {
				t.Errorf("host-%d has started again, and host-%d was told by %d of 3", i, j, len(got))
			}
		}
	}
}

// Of what an operator asks of a host that is cut off only a part may be under way: what lies in
// others' space is to be had of them, and a pool is named once it is made. Who is told that this
// is done later takes it for all.
func TestOnlyAPartIsUnderWay(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.die(2)
	for i := range 2 {
		c.step(2, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	for _, q := range []ipam.Request{exclude("10.50.0.1", "10.50.0.254"), &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24"), Name: "lab"}} {
		wantErr(t, c.ask(2, q).Err, ipam.ErrUnreachable, "a part of your request is done as soon as they agree", "repeat the command for the rest")
	}
	for _, q := range []ipam.Request{exclude("10.50.0.240", "10.50.0.254"), &ipam.PoolCreation{CIDR: prefix("10.70.0.0/24")}} {
		wantErr(t, c.ask(2, q).Err, ipam.ErrUnreachable, "; your request is done as soon as they agree")
	}
}

// An engine is asked for one network after the other: an address that moves to another network of
// the pool meanwhile is listed on both. It is not said that two containers have it.
func TestAddressThatMovesDuringAList(t *testing.T) {
	h := withSocket(t)
	from := network(t, h, "10.50.0.0/24")
	to := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Gateway: ipam.GatewayLast}).Pool.Network
	look(h)
	a := mustAsk(t, h, from, "web", 1, "").Address.Addr().String()
	before, after := on("10.50.0.0/24", listed(a, "web", 1)), on("10.50.0.0/24", listed(a, "web2", 2))
	look(h, before, on("10.50.0.0/24"))
	begun := h.Mark()
	h.Now = h.Now.Add(time.Second)
	release(h, from, address(a))
	mustAsk(t, h, to, "web2", 2, a)
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Inventory{After: begun, Networks: []ipam.InventoryNetwork{before, after}})
	for _, problem := range h.Machine().Status(h.Now).Problems {
		t.Error(problem)
	}
	look(h, on("10.50.0.0/24"), after)
	for _, problem := range h.Machine().Status(h.Now).Problems {
		t.Error(problem)
	}
	h.CheckDisk()
}

// What an operator was told is done as soon as a majority is there again is done then, also where
// the process ends before.
func TestOrdersOutliveTheProcess(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	a := "10.50.0.250"
	if r := c.ask(2, exclude(a, a)); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.die(2)
	for _, q := range []ipam.Request{
		unreserve(a, a, chronicle.KindExcluded), &ipam.PoolCreation{CIDR: prefix("10.60.0.0/24")}, &ipam.DrainRequest{},
	} {
		wantErr(t, c.ask(2, q).Err, ipam.ErrNotReady, "is done as soon as they agree")
	}
	c.start(2)
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	if s := c.status(2); s.State != ipam.Leaving || len(s.Pools) != 2 || s.Pending > 0 {
		t.Errorf("it is %s, and there are %d pools", s.State, len(s.Pools))
	}
	if err := c.ip(0, prefix("10.50.0.0/24"), address(a)); err != nil {
		t.Error(err)
	}
	c.start(2)
	if n := c.status(2).Pending; n > 0 {
		t.Errorf("%d commands are wanted once more", n)
	}
}

// An address that a host is to exclude while it is cut off lies in nobody's space, as far as it knows. Another host
// hands it out meanwhile, or its neighbour: then nothing of the range is excluded, and that is not promised.
func TestExcludeIsTooLate(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.die(2)
	wantErr(t, c.ask(2, exclude("10.50.0.240", "10.50.0.254")).Err, ipam.ErrNotReady, "is done as soon as they agree, if that is still possible: ringlet explain 10.50.0.240 shows it")
	if err := c.ip(0, prefix("10.50.0.0/24"), address("10.50.0.241")); err != nil {
		t.Fatal(err)
	}
	c.heal()
	c.run(time.Minute, c.agreed)
	c.wait(10 * time.Second)
	if err := c.ip(0, prefix("10.50.0.0/24"), address("10.50.0.245")); err != nil {
		t.Error(err)
	}
}
