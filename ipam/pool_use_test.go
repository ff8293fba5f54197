package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A host that is cut off makes a network on a pool that nobody knows it to use, and asks for
// an address that another network keeps back. Before it has said that it uses the pool it
// hears that it was evicted, or its process or its engine starts anew, so that the network may be
// taken for one that the engine has. The other network goes, and what it shared with it.
func TestSharedBeforeTheUseIsSaid(t *testing.T) {
	request := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/24"), Gateway: ipam.GatewayHost}
	between := map[string]func(c *lockstep, b int){
		"nothing":           func(*lockstep, int) {},
		"the process":       func(c *lockstep, b int) { c.start(b) },
		"before the answer": func(c *lockstep, b int) { c.start(b); c.call(b, &ipam.Greeting{}); c.call(b, request) },
		"the engine":        func(c *lockstep, b int) { c.call(b, &ipam.Greeting{}); c.call(b, request) },
	}
	for _, purpose := range []ipam.Purpose{ipam.ForGateway, ipam.ForUnmarked} {
		for starts, anew := range between {
			for _, evicted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d, %s, %v", purpose, starts, evicted), func(t *testing.T) {
					testSharedBeforeTheUseIsSaid(t, request, purpose, anew, evicted)
				})
			}
		}
	}
}

func testSharedBeforeTheUseIsSaid(t *testing.T, request *ipam.PoolRequest, purpose ipam.Purpose, anew func(c *lockstep, b int), evicted bool) {
	t.Helper()
	aux := address("10.60.0.50")
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	order := c.order()
	a, b := order[0], order[2]
	first := c.network(a, request.Pool, aux.String())
	c.wait(5 * time.Second)
	if c.die(b); evicted {
		if err := c.ask(a, &ipam.EvictRequest{Peer: c.name(b)}).Err; err != nil {
			t.Fatal(err)
		}
	}
	n := c.ask(b, request)
	if n.Err != nil {
		t.Fatal(n.Err)
	}
	anew(c, b)
	call := c.call(b, &ipam.AddressRequest{Network: n.Pool.Network, Purpose: purpose, Address: aux})
	if evicted { // it hears the others, and what it wants is not decided
		c.lose = func(f flight) bool {
			switch f.frame.Body.(type) {
			case wire.Join, wire.Submit:
				return f.from == b
			}
			return false
		}
		c.heal()
	}
	c.wait(5 * time.Second)
	c.ask(a, &ipam.PoolRelease{Network: first})
	c.wait(2 * time.Minute)
	c.lose = func(flight) bool { return false }
	if r, answered := c.peers[b].replies[call]; !answered || r.Err == nil {
		t.Errorf("%s grants its network what it has not said that it needs: answered %v", c.name(b), answered)
	}
	if err := c.ip(a, request.Pool, aux); err != nil {
		t.Errorf("the last network that is known is gone, and what it kept back is not free: %v", err)
	}
	c.check()
}

// A host that is cut off, with something under way that cannot be decided, starts anew, and again
// while its engine asks for what it has: that is answered at once, without anybody.
func TestSharedIsReplayedWhileCutOff(t *testing.T) {
	type replay struct {
		pool    ipam.PoolRequest
		purpose ipam.Purpose
		address netip.Addr
	}
	first := func(c *lockstep, b int, cidr, aux string) []replay {
		n := c.network(b, prefix(cidr), aux)
		return []replay{{ipam.PoolRequest{Space: n.Space, Pool: n.Pool, Gateway: n.Gateway}, ipam.ForUnmarked, address(aux)}}
	}
	for name, has := range map[string]func(c *lockstep, b int) []replay{
		"some is free":    func(c *lockstep, b int) []replay { return first(c, b, "10.60.0.0/24", "10.60.0.50") },
		"all is reserved": func(c *lockstep, b int) []replay { return first(c, b, "10.60.0.0/30", "10.60.0.2") },
		"a second network shares the first one's gateway": func(c *lockstep, b int) []replay {
			own := ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/24")}
			q := &ipam.AddressRequest{Network: c.ask(b, &own).Pool.Network, Purpose: ipam.ForGateway}
			gateway := c.ask(b, q).Address.Address.Addr()
			typed := own
			typed.Gateway, typed.GatewayAddr = ipam.GatewayAddr, gateway
			if err := c.ask(b, &typed).Err; err != nil {
				t.Fatal(err)
			}
			return []replay{{typed, ipam.ForGateway, gateway}, {own, ipam.ForGateway, gateway}}
		},
		"an older record": func(c *lockstep, b int) []replay {
			all := first(c, b, "10.60.0.0/24", "10.60.0.50")
			c.wait(5 * time.Second)
			for k, v := range c.peers[b].disk {
				if strings.HasPrefix(k, "network") {
					c.peers[b].disk[k] = append(slices.Clone(v), 1)
				}
			}
			c.start(b)
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newLockstep(t, 3)
			c.run(time.Minute, c.agreed)
			b := c.order()[2]
			all := has(c, b)
			c.wait(5 * time.Second)
			c.die(b)
			c.call(b, &ipam.PoolCreation{CIDR: prefix("10.61.0.0/24")})
			answered := func(q ipam.Request) ipam.Reply {
				t.Helper()
				call := c.call(b, q)
				r, ok := c.peers[b].replies[call]
				if !ok || r.Err != nil {
					t.Fatalf("%+v is not answered at once: %v, %v", q, ok, r.Err)
				}
				return r
			}
			for i := range 3 { // at once, and once it waits for nobody any more
				c.start(b)
				c.call(b, &ipam.Greeting{})
				c.wait(time.Duration(i) * 5 * time.Second)
				for _, r := range all {
					n := answered(&r.pool).Pool.Network
					if i == 0 {
						c.start(b)
						c.call(b, &ipam.Greeting{})
					}
					answered(&ipam.AddressRequest{Network: n, Purpose: r.purpose, Address: r.address})
				}
			}
		})
	}
}

// A network is about to be made on a pool that its host has not used so far, in the very step in which the host looks at its
// pools: what is said for the network is not taken back with it (seed 7127953442196675892).
func TestUseIsNotEndedAsItIsSaid(t *testing.T) {
	c := newLockstep(t, 3)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/30")
	host := c.order()[2]
	c.network((host+1)%3, cidr, "10.60.0.2") // and there is nothing that the host could own
	c.wait(time.Second)
	c.now = c.now.Add(1100 * time.Millisecond) // it has not looked for a second
	said := func() uint64 { return c.peers[0].machine.State().Number(c.peers[host].machine.Self()) }
	before := said()
	c.network(host, cidr)
	c.wait(time.Second)
	if n := said() - before; n != 1 {
		t.Errorf("it has said something %d times: that it uses the pool would do", n)
	}
	if !c.peers[host].machine.State().PoolOf(cidr).UsedBy(c.peers[host].machine.Self()) {
		t.Error("it has the network, and does not say so")
	}
}

// A process is frozen right after its start, and the time of a container that waits runs out. As it goes on it hears
// others before its alarm goes off: all that is behind one freeze. What its engine lists then is newer than the start,
// and tells that the last network is gone (seed 10583933200943511760).
func TestUseEndsBehindAFreeze(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	c.lists(0)
	cidr := prefix("10.60.0.0/24")
	host := c.order()[2]
	n := c.network(host, cidr)
	c.wait(time.Second)
	c.lists(host, on(cidr.String()))
	c.wait(time.Minute)

	c.die(host) // nobody answers whether its database is the latest
	c.start(host)
	c.call(host, &ipam.Greeting{})
	waits := c.call(host, docker(cidr))
	if _, answered := c.peers[host].replies[waits]; answered {
		t.Fatal("the container does not wait")
	}
	end := c.now.Add(3 * time.Minute)
	c.run(time.Hour, func() bool { c.peers[host].wake = time.Time{}; return c.now.After(end) })
	c.heal()
	c.wait(30 * time.Second)

	c.lists(host, on(cidr.String()))
	c.ask(host, &ipam.PoolRelease{Network: n})
	for range 3 {
		c.wait(30 * time.Second)
		c.lists(host)
	}
	c.wait(30 * time.Second)
	if p := c.peers[host].machine.State().PoolOf(cidr); p.UsedBy(c.peers[host].machine.Self()) {
		t.Error("its engine lists no network any more, and it says that it uses the pool")
	}
}
