package ipam_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/ring"
)

// Schedules that once handed an address to two containers, lost one, or kept
// an engine from starting. Each is a sequence of calls that engines make.

// ask requests an address as a container that starts: by name and by the last
// byte of its MAC, where the engine sends them, and a certain one if a is given.
func ask(h *machinetest.Host, n ipam.Network, name string, mac byte, a string) ipam.Reply {
	return h.Call(asking(n, name, mac, a))
}

// asking is what ask requests.
func asking(n ipam.Network, name string, mac byte, a string) *ipam.AddressRequest {
	q := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: name}
	if mac != 0 {
		q.MAC = ipam.MAC{2, 0, 0, 0, 0, mac}
	}
	if a != "" {
		q.Address = address(a)
	}
	return q
}

func mustAsk(t testing.TB, h *machinetest.Host, n ipam.Network, name string, mac byte, a string) ipam.AddressGrant {
	t.Helper()
	r := ask(h, n, name, mac, a)
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Address
}

func hostHas(h *machinetest.Host, addrs ...string) {
	q := &ipam.HostAddresses{}
	for _, a := range addrs {
		q.Addresses = append(q.Addresses, netip.MustParsePrefix(a))
	}
	h.Call(q)
}

// listed is an endpoint as the engine lists it.
func listed(a, name string, mac byte) ipam.InventoryEndpoint {
	return ipam.InventoryEndpoint{Address: address(a), Container: strings.Repeat(fmt.Sprintf("%02x", mac), 32), Name: name, MAC: ipam.MAC{2, 0, 0, 0, 0, mac}}
}

// A grant is given up, the container asks again and is told what it holds, and
// only then the first grant is withdrawn.
func TestWithdrawalAfterRepeatedRequest(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	first := mustAsk(t, h, n, "web", 7, "10.50.0.6")
	mustAsk(t, h, n, "web", 9, "10.50.0.6")
	h.Call(&ipam.Withdrawal{Ticket: first.Ticket})
	wantErr(t, ask(h, n, "db", 8, "10.50.0.6").Err, ipam.ErrAddressInUse, "web")

	gateway := &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}
	given := h.Call(gateway).Address
	again := h.Call(gateway).Address.Address.Addr()
	h.Call(&ipam.Withdrawal{Ticket: given.Ticket})
	wantErr(t, claim(h, n, again.String(), "db"), ipam.ErrAddressInUse, "gateway")

	one := h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/29", ID: "vm"}).Address
	h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/29", ID: "vm"})
	h.Call(&ipam.Withdrawal{Ticket: one.Ticket})
	wantErr(t, claim(h, n, one.Address.Addr().String(), "db"), ipam.ErrAddressInUse, "vm")
	h.CheckDisk()
}

// releasedSince returns a host, its network, and a list of the engine that has a
// container, old, whose address 10.50.0.9 was released since.
func releasedSince(t *testing.T) (*machinetest.Host, ipam.Network, *ipam.Inventory) {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	mustAsk(t, h, n, "old", 7, "10.50.0.9")
	h.Now = h.Now.Add(time.Hour)
	inv := inventory(h, n, listed("10.50.0.9", "old", 7))
	inv.After = h.Mark()
	h.Now = h.Now.Add(10 * time.Millisecond)
	release(h, n, address("10.50.0.9"))
	return h, n, inv
}

// The engine listed a container whose address a new network keeps back by now.
func TestInventoryOlderThanAnAuxiliaryAddress(t *testing.T) {
	h, _, inv := releasedSince(t)
	n := network(t, h, "10.50.0.0/24")
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.9")}); r.Err != nil {
		t.Fatal(r.Err)
	}
	h.Now = h.Now.Add(10 * time.Millisecond)
	if r := h.Call(inv); r.Again != time.Second {
		t.Errorf("the engine is asked again in %v, and what it listed is not all taken in", r.Again)
	}
	wantErr(t, claim(h, n, "10.50.0.9", "new"), ipam.ErrAddressReserved, "auxiliary")
	h.Now = h.Now.Add(time.Second)
	h.Call(inventory(h, n, listed("10.50.0.9", "old", 7))) // it has it, after all
	wantErr(t, claim(h, n, "10.50.0.9", "new"), ipam.ErrAddressReserved, "auxiliary")
	if !slices.ContainsFunc(h.Machine().Status(h.Now).Problems, func(p ipam.Problem) bool { return strings.Contains(p.Text, "10.50.0.9") }) {
		t.Error("nothing is told of the conflict")
	}
}

// A new database: nothing is granted that the engine may have.
func TestNothingBeforeTheInventory(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	n := ipam.Network{Space: ipam.Local, Pool: prefix("10.32.0.0/16"), Range: prefix("10.32.0.0/16")}
	if r, ok := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "x", Address: address("10.32.0.5")}); ok {
		t.Errorf("a claim is answered with %+v", r)
	}
	if r, ok := h.Try(&ipam.PoolRequest{Space: ipam.Local}); ok {
		t.Errorf("a subnet is chosen: %+v", r.Pool)
	}
	h = machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	h.Call(inventory(h, n)) // a network without endpoints
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local})
	if r.Err != nil || r.Pool.Network.Pool.Overlaps(n.Pool) {
		t.Errorf("chose %v, %v, beside a network on %v", r.Pool.Network.Pool, r.Err, n.Pool)
	}
	if again := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool}); again.Err != nil {
		t.Errorf("replay of the network: %v", again.Err)
	}
	mustAsk(t, h, n, "web", 1, "")
}

// One inventory that shows an address twice is a conflict, never silent.
func TestTwoContainersInOneInventory(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	h.Call(inventory(h, n, listed("10.50.0.5", "web", 1), listed("10.50.0.5", "db", 2)))
	s := h.Machine().Status(h.Now)
	if len(s.Problems) != 1 || s.Problems[0].Code != "conflict" || s.Verdict == ipam.Fine {
		t.Errorf("%s: %+v", s.Verdict, s.Problems)
	}
}

// A replayed network whose shared gateway the bridge still has, after the
// database was lost: engines before 29 do not survive an error here.
func TestReplayOfASharedGateway(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	hostHas(h, "10.50.0.1/24")
	n := ipam.Network{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.50.0.0/24"), Gateway: ipam.GatewayFirst}
	h.Call(inventory(h, n, listed("10.50.0.5", "web", 1)))
	r := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Gateway: ipam.GatewayFirst})
	if r.Err != nil || r.Pool.Gateway.Addr() != address("10.50.0.1") {
		t.Errorf("%+v, %v", r.Pool, r.Err)
	}
	wantErr(t, claim(h, n, "10.50.0.1", "x"), ipam.ErrAddressReserved, "gateway")
	h.CheckDisk()
}

// Two networks on a subnet, and an endpoint that the engine replayed to a new
// database: it was taken for an auxiliary address, and is found to be none.
func TestReplayedEndpointIsNotLost(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	h.Call(&ipam.Greeting{})
	n := network(t, h, "10.50.0.0/30")
	h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.1")})
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/30"), Range: prefix("10.50.0.0/31")})
	release(h, n, address("10.50.0.1"))
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		inv := inventory(h, n)
		inv.Networks = append(inv.Networks, inv.Networks[0])
		h.Call(inv)
	}
	mustAsk(t, h, n, "x", 1, "10.50.0.1")
}

// The clock was a year ahead when an address was granted and lost.
func TestClockThatWasAhead(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/29")
	h.Now = h.Now.Add(24 * 365 * time.Hour)
	mustAsk(t, h, n, "web", 1, "10.50.0.5")
	h.Now = machinetest.Start
	h.Restart()
	for range 3 {
		h.Now = h.Now.Add(time.Minute)
		h.Call(inventory(h, n))
	}
	mustAsk(t, h, n, "db", 2, "10.50.0.5")
}

// A pool on the host's own LAN can be removed, and makes room.
func TestPoolOnTheHostsLAN(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	hostHas(h, "192.168.1.10/24")
	for _, remove := range []bool{false, true} {
		n := network(t, h, "192.168.1.0/24")
		h.Call(&ipam.PoolRelease{Network: n})
		if remove {
			if r := h.Call(&ipam.PoolRemoval{Pool: "192.168.1.0/24"}); r.Err != nil {
				t.Error(r.Err)
			}
		}
		n = network(t, h, "192.168.1.0/25")
		wantErr(t, claim(h, n, "192.168.1.10", "x"), ipam.ErrAddressInUse)
		h.Call(&ipam.PoolRelease{Network: n})
	}
	h.CheckDisk()
}

// A compose file with several networks that join a pool by name.
func TestManyNetworksJoinAPool(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	h.Call(&ipam.PoolCreation{CIDR: prefix("10.50.0.0/24"), Name: "lab"})
	for range 10 {
		h.Now = h.Now.Add(100 * time.Millisecond)
		if r := h.Call(&ipam.PoolRequest{Space: ipam.Local, PoolName: "lab"}); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// What an inventory lacked long ago says nothing of who has the address now.
func TestOldAbsenceIsForgotten(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	first := network(t, h, "10.50.0.0/24")
	h.Call(&ipam.AddressRequest{Network: first, Purpose: ipam.ForUnmarked, Address: address("10.50.0.5")})
	second := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.50.0.128/25")}).Pool.Network
	h.Now = h.Now.Add(time.Minute)
	h.Call(inventory(h, second)) // no network names the auxiliary address
	h.Call(&ipam.PoolRelease{Network: second})
	for range 3 {
		h.Now = h.Now.Add(30 * time.Second)
		h.Call(&ipam.Inventory{})
	}
	n := network(t, h, "10.50.0.0/24")
	mustAsk(t, h, n, "", 1, "10.50.0.5")
	wantErr(t, ask(h, n, "", 2, "10.50.0.5").Err, ipam.ErrAddressInUse)
	h.Now = h.Now.Add(25 * time.Second)
	h.Call(inventory(h, n)) // a slow start: not listed yet
	if s := h.Machine().Status(h.Now); s.Pools[0].Held != 1 {
		t.Error("freed after one look")
	}
}

// An operator excludes what a network has on its bridge, of which a new database does not know. The engine, when it
// starts, is granted that again, and a new network is refused it (seed 9645881499627028232 of TestSim).
func TestReplayOfWhatIsExcluded(t *testing.T) {
	const cidr, a = "10.50.0.0/24", "10.50.0.5"
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	look(h)
	n := network(t, h, cidr)
	look(h, on(cidr))
	if r := h.Call(&ipam.ReserveRequest{First: address(a), Last: address(a), Kind: chronicle.KindExcluded}); r.Err != nil {
		t.Fatal(r.Err)
	}
	for _, purpose := range []ipam.Purpose{ipam.ForGateway, ipam.ForUnmarked} {
		want := &ipam.AddressRequest{Network: n, Purpose: purpose, Address: address(a)}
		network(t, h, cidr)
		wantErr(t, h.Call(want).Err, ipam.ErrAddressReserved, "excluded")
		h.Call(&ipam.PoolRelease{Network: n})
		look(h, on(cidr))
		h.Call(&ipam.Greeting{})
		network(t, h, cidr)
		h.Call(&ipam.Blindness{})
		if r := h.Call(want); r.Err != nil || r.Address.Address.Addr() != address(a) {
			t.Errorf("%v, %v", r.Address.Address, r.Err)
		}
		look(h, on(cidr))
	}
	if s := stateOf(t, h, a); s.State != "reserved" {
		t.Errorf("it is %s", s.State)
	}
}

// So it is where a container asks before the engine has been answered (seed 4955952384592025634 of TestSim).
func TestContainerBeforeTheGatewayOfANetwork(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	c.lists(0)
	cidr, other, a := prefix("10.50.0.0/24"), prefix("10.60.0.0/24"), address("10.50.0.5")
	for _, r := range []ipam.Request{&ipam.PoolCreation{CIDR: cidr}, exclude(a.String(), a.String())} {
		if r := c.ask(0, r); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.network(0, other)
	c.wait(time.Second)
	c.lists(0, on(cidr.String()), on(other.String())) // of a network that it had before its database was lost
	c.wait(time.Second)
	c.ask(0, &ipam.Greeting{})
	gateway := c.call(0, &ipam.AddressRequest{Network: c.network(0, cidr), Purpose: ipam.ForGateway, Address: a})
	c.network(0, other)
	if r := c.ask(0, docker(other)); r.Err != nil {
		t.Fatal(r.Err)
	}
	c.call(0, &ipam.Blindness{})
	c.wait(time.Second)
	if r, answered := c.peers[0].replies[gateway]; !answered || r.Err != nil {
		t.Errorf("its gateway: %v, %v", answered, r.Err)
	}
}

// A process starts below an engine whose first list takes longer than a call may: a new network is not granted what an operator
// excluded, as it is known to be new.
func TestNewNetworkOnWhatIsExcluded(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	c.lists(0)
	cidr, a := prefix("10.50.0.0/24"), address("10.50.0.5")
	for _, r := range []ipam.Request{&ipam.PoolCreation{CIDR: cidr}, exclude(a.String(), a.String())} {
		if r := c.ask(0, r); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	c.wait(time.Hour)
	c.lists(0)
	c.wait(time.Minute)
	c.start(0)
	c.ask(0, &ipam.Greeting{})
	c.run(time.Minute, c.agreed)
	c.wait(time.Second)
	gateway := &ipam.AddressRequest{Network: c.network(0, cidr), Purpose: ipam.ForGateway, Address: a}
	wantErr(t, c.ask(0, gateway).Err, ipam.ErrAddressReserved, "excluded")
}

// RINGLET_MAC=false: an engine starts, answers no question, and starts a container while the gateway of another network
// waits for a majority. It starts no more, then: what that container got no other gets that names it.
func TestBareContainerWhileAGatewayWaits(t *testing.T) {
	for _, known := range []bool{false, true} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for _, p := range c.peers {
				p.cfg.AwaitInventory, p.cfg.NoMAC = true, true
			}
		})
		c.found()
		c.wait(time.Minute)
		for i := range 3 {
			c.lists(i)
		}
		c.wait(time.Second)
		q, other := plainPool(), prefix("10.60.0.0/24")
		n := c.ask(0, &q).Pool.Network
		c.network(1, other)
		networks := []ipam.InventoryNetwork{on(bareNet)}
		if known {
			networks = append(networks, on(other.String()))
		}
		for range 2 {
			c.wait(time.Hour)
			c.lists(0, networks...)
		}

		c.ask(0, &ipam.Greeting{})
		if r := c.ask(0, &q); r.Err != nil {
			t.Fatal(r.Err)
		}
		r := c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: other, Gateway: ipam.GatewayLast})
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		c.call(0, &ipam.Blindness{})
		c.die(1, 2)
		c.call(0, &ipam.AddressRequest{Network: r.Pool.Network, Purpose: ipam.ForGateway, Address: address("10.60.0.77")})
		first := c.ask(0, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer})
		if first.Err != nil {
			t.Fatal(first.Err)
		}
		a := first.Address.Address.Addr()
		if r := c.ask(0, plainly(n, a.String())); r.Err == nil {
			t.Errorf("known %t: two containers have %v", known, a)
		}
	}
}

// A container asks for an address that is nobody's, on a host that has more than it needs, all of which rests yet. What is opened
// for it comes in the very step in which the host looks at its pools: it is not given back then (seed 6469520754188425316).
func TestWhatIsOpenedForACallIsNotGivenBack(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) {
		for _, p := range c.peers {
			p.cfg.Rest = time.Minute
		}
	})
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.50.0.0/24")
	host, free := c.order()[0], address("10.50.0.0") // it knows of a decision first
	n := c.network(host, cidr)
	for _, count := range slices.Concat([]int{150}, slices.Repeat([]int{40}, 20)) {
		var held []netip.Addr
		for range count {
			r := c.ask(host, docker(cidr))
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			held = append(held, r.Address.Address.Addr())
		}
		for _, a := range held {
			c.ask(host, &ipam.AddressRelease{Network: n, Address: a})
		}
		c.wait(5 * time.Second)
	}
	for r, t := range c.peers[host].machine.State().PoolOf(cidr).Ring.All() {
		if t.Owner == ring.Free {
			free = addr.Nth(cidr, r.Start)
		}
	}
	id := c.call(host, &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Address: free})
	c.now = c.now.Add(1100 * time.Millisecond)
	c.tick(20*time.Millisecond, (host+1)%3, (host+2)%3)
	c.run(time.Minute, func() bool { _, ok := c.peers[host].replies[id]; return ok })
	if err := c.peers[host].replies[id].Err; err != nil {
		t.Errorf("%v, which nobody has, is refused: %v", free, err)
	}
}
