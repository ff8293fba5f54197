package ipam_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// What a peer holds in a pool so wide that it lacks nothing is known to the others a
// minute later, and what it freed as well.
func TestOthersCountWhatIsHeldInAWidePool(t *testing.T) {
	for _, cidr := range []string{"10.60.0.0/16", "fd00:60::/64"} {
		t.Run(cidr, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.found()
			pool := prefix(cidr)
			for i := range c.peers {
				c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: pool, V6: pool.Addr().Is6()})
			}
			agree := func(held, resting uint64) {
				t.Helper()
				c.wait(90 * time.Second)
				for i := range c.peers {
					for _, p := range c.status(i).Pools {
						if p.Pool == pool && (p.Held != held || p.Resting != resting) {
							t.Errorf("%s counts %d held and %d resting, want %d and %d", c.name(i), p.Held, p.Resting, held, resting)
						}
					}
				}
			}
			for n := range 100 {
				if err := c.ask(0, &ipam.ClientRequest{Pool: cidr, ID: fmt.Sprint("vm-", n)}).Err; err != nil {
					t.Fatal(err)
				}
			}
			agree(100, 0)
			for n := range 60 {
				if err := c.ask(0, &ipam.FreeRequest{ID: fmt.Sprint("vm-", n)}).Err; err != nil {
					t.Fatal(err)
				}
			}
			agree(40, 60)
			c.wait(10 * time.Minute)
			agree(40, 0)
		})
	}
}

// A host is told that it will drain, although nobody is there who could agree now.
func TestDrainThatIsWantedStill(t *testing.T) {
	c, _ := lab(t)
	o := c.order()
	c.die(o[0], o[1])
	refused(t, c.ask(o[2], &ipam.DrainRequest{Also: true}).Err, "your request is done as soon as they agree, if that is still possible: ringlet status shows it")
	c.heal()
	c.run(time.Minute, func() bool { return c.status(o[2]).State == ipam.Leaving })
}

// What is to be typed in is one word for each argument, whatever a holder is called.
func TestCommandsCanBeTypedIn(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	for holder, word := range map[string]string{
		"printer-3":      "printer-3",
		"shim of host-a": "'shim of host-a'",
		"$(reboot)":      "'$(reboot)'",
		"it's":           `'it'\''s'`,
		"büro/3:a@b":     "büro/3:a@b",
	} {
		a := h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/28", ID: holder}).Address.Address.Addr()
		want := fmt.Sprintf("ringlet free --for %s %v,", word, a)
		if e, err := h.Machine().Explain(h.Now, a); err != nil || !strings.HasSuffix(e.Next, strings.TrimSuffix(want, ",")) {
			t.Errorf("%s is told %q, %v, want %s", holder, e.Next, err, want)
		}
		refused(t, claim(h, n, a.String(), "db"), want)
	}
}

// Of a pool that is full it is told how much of it is kept back for a host that is gone.
func TestFullPoolHasSpaceOfALostHost(t *testing.T) {
	c, cidr := lab(t)
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	c.full(1, cidr)
	refused(t, c.full(0, cidr), "are quarantined for evicted hosts")
	for _, p := range c.status(0).Problems {
		if p.Code == "pool-full" && !strings.Contains(p.Text, "are quarantined for evicted hosts") {
			t.Errorf("told %q", p.Text)
		}
	}
	c.wait(2 * time.Minute)
	s := c.status(0).Pools[0]
	if sum := s.Held + s.Reserved + s.Quarantined; sum != s.Size || s.Quarantined == 0 {
		t.Errorf("%d of %d are told, in %+v", sum, s.Size, s)
	}
}

// Who wants an address for a name that is kept back already is told what ends that, where
// anything does.
func TestReserveNamesWhatEndsAnother(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	network(t, h, "10.50.0.0/28")
	h.Call(keep("10.50.0.3", "db"))
	h.Call(exclude("10.50.0.4", "10.50.0.5"))
	for a, want := range map[string]string{
		"10.50.0.3":  "choose another address, or first run ringlet reserve rm 10.50.0.3",
		"10.50.0.4":  "choose another address, or first run ringlet exclude rm 10.50.0.4",
		"10.50.0.15": "is the pool's broadcast address: choose another address",
	} {
		err := h.Call(keep(a, "web")).Err
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", a, err, want)
		}
	}
}

// Who asks about an address is told of as many networks on its pool as the status tells, also of those that a new
// database was never asked for.
func TestExplainCountsNetworksAsStatusDoes(t *testing.T) {
	h := withSocket(t)
	look(h, on("10.50.0.0/24"))
	e, err := h.Machine().Explain(h.Now, address("10.50.0.9"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Machine().Status(h.Now).Pools[0].Networks; got != 1 || !strings.Contains(string(out), `"networks_here":1`) {
		t.Errorf("the status tells of %d networks, and of the address it is said: %s", got, out)
	}
}

// A pool that cannot be removed has as many addresses in use as the list of pools says: what waits for its name is not
// one of them.
func TestRemovalCountsWhatIsHeldAsPoolsDo(t *testing.T) {
	h := withSocket(t)
	look(h)
	n := network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	if err := h.Call(keep("10.50.0.9", "web")).Err; err != nil {
		t.Fatal(err)
	}
	mustAsk(t, h, n, "web", 7, "")
	release(h, n, address("10.50.0.9"))
	if err := h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/24", ID: "vm"}).Err; err != nil {
		t.Fatal(err)
	}
	held := h.Machine().Status(h.Now).Pools[0].HeldHere
	wantErr(t, h.Call(&ipam.PoolRemoval{Pool: "10.50.0.0/24"}).Err, ipam.ErrPoolInUse, fmt.Sprintf("has %d address", held))
}

// On an engine that sends no names, an address that is kept for a MAC already is not to be kept for one: the container
// is to have that MAC.
func TestKeptForMACWithoutNames(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	for _, mac := range []string{"02:42:c0:a8:01:79", "02-42-C0-A8-01-79", "0242.c0a8.0179"} {
		h.Call(unreserve("10.50.0.9", "10.50.0.9", chronicle.KindKeptForName))
		if err := h.Call(keep("10.50.0.9", mac)).Err; err != nil {
			t.Fatal(err)
		}
		err := claim(h, n, "10.50.0.9", "")
		wantErr(t, err, ipam.ErrAddressReserved, "is reserved for "+mac, "give the container that MAC")
		if strings.Contains(err.Error(), "reserve the address for a MAC instead") {
			t.Error(err)
		}
	}
}

// What is told of an address that something else has names the command that keeps it from all, while containers run.
func TestStrangerIsToBeExcluded(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	answered(h, ask(h, n, "web", 1, "").Address)
	if p, ok := hasProblem(h, "stranger"); !ok || !strings.Contains(p.Next, "ringlet exclude add") {
		t.Errorf("problem %+v", p)
	}
}

// Behind a recovery a host that is brought back as it was goes on in the cluster as it was, and hands out what this one
// does: the status, too, says that it is to lose its data first.
func TestStatusOfRecoveredBringsNobodyBackAsHeWas(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	for i := range c.peers {
		c.network(i, prefix("10.50.0.0/24"))
	}
	c.wait(time.Minute)
	order := c.order()
	c.die(order[0], order[1])
	if r := c.ask(order[2], &ipam.RecoverRequest{}); r.Err != nil {
		t.Fatal(r.Err)
	}
	n := 0
	for _, p := range c.status(order[2]).Problems {
		if p.Code == "quarantine" {
			if n++; !strings.Contains(p.Next, "recovered") || !strings.Contains(p.Next, "data") {
				t.Errorf("%s: %s", p.Text, p.Next)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d hosts are told of, want 2", n)
	}
}

// A majority that has just come back is no majority that does not agree: what waited for it is not held against it.
// One that is in sight and agrees on nothing is.
func TestMajorityThatIsJustBack(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	order := c.order()
	c.die(order[0], order[1])
	c.call(order[2], creation(prefix("10.50.0.0/24")))
	c.wait(10 * time.Second)
	c.lose = func(flight) bool { return true }
	c.heal()
	disagrees := func() bool {
		return slices.ContainsFunc(c.status(order[2]).Problems, func(p ipam.Problem) bool { return p.Code == "no-agreement" })
	}
	c.tick(time.Second, order[2])
	if disagrees() {
		t.Error("a majority that is just back is said to agree on nothing")
	}
	c.tick(8*time.Second, order[2])
	if !disagrees() {
		t.Error("nobody is told that nothing is agreed")
	}
}

// A host has come from another cluster with two networks that overlap a pool of this one. Of each it is told, and what
// ends that.
func TestNetworksThatHaveNoPoolAreTold(t *testing.T) {
	h := withSocket(t)
	look(h)
	network(t, h, "10.50.0.0/16")
	one, two := on("10.50.1.0/24", listed("10.50.1.9", "web", 9)), on("10.50.2.0/24", listed("10.50.2.9", "db", 8))
	one.Name, two.Name = "one", "two"
	look(h, on("10.50.0.0/16"), one, two)
	problems := h.Machine().Status(h.Now).Problems
	for _, name := range []string{"one", "two"} {
		told := false
		for _, p := range problems {
			told = told || strings.HasPrefix(p.Text, "network "+name+" has no pool") && strings.HasPrefix(p.Next, "remove that network")
		}
		if !told {
			t.Errorf("of network %s nothing is told, or not what ends it: %+v", name, problems)
		}
	}
	look(h, on("10.50.0.0/16"))
	if problems := h.Machine().Status(h.Now).Problems; len(problems) > 0 {
		t.Errorf("the networks are gone, and it is told: %+v", problems)
	}
}

// Who removes a pool below a network that has no container is told of the network.
func TestPoolBelowANetworkIsNotRemoved(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}); r.Err != nil {
		t.Fatal(r.Err)
	}
	wantErr(t, h.Call(&ipam.PoolRemoval{Pool: "10.50.0.0/24"}).Err, ipam.ErrPoolInUse, "1 network", "docker network rm")
}

// A network's router has the address that it has: who makes a network with it is told what ends that it is kept back.
func TestNetworkNamesWhatIsKeptBack(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	h.Call(exclude("10.50.0.1", "10.50.0.99"))
	h.Call(keep("10.50.0.101", "db"))
	for a, want := range map[string]string{"10.50.0.1": "first run ringlet exclude rm 10.50.0.1", "10.50.0.101": "first run ringlet reserve rm 10.50.0.101"} {
		for _, q := range []ipam.Request{
			&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway, Address: address(a)},
			&ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool, Gateway: ipam.GatewayAddr, GatewayAddr: address(a)},
		} {
			wantErr(t, h.Call(q).Err, ipam.ErrAddressReserved, want)
		}
	}
	wantErr(t, h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.50")}).Err, ipam.ErrAddressReserved, "ringlet exclude rm 10.50.0.50")
	wantErr(t, claim(h, n, "10.50.0.50", "web"), ipam.ErrAddressReserved, "choose another address")
}
