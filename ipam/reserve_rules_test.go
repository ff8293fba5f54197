package ipam_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// The last network of one host goes: what those of another keep back stays.
func TestSharedReservationsStayForOthers(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	cidr := prefix("10.60.0.0/24")
	n := c.network(0, cidr, "10.60.0.9")
	c.network(1, cidr, "10.60.0.9")
	c.ask(0, &ipam.AddressRelease{Network: n, Address: address("10.60.0.9")})
	c.ask(0, &ipam.PoolRelease{Network: n})
	c.wait(3 * time.Minute)
	for _, a := range []string{"10.60.0.1", "10.60.0.9"} {
		wantErr(t, c.ip(2, cidr, address(a)), ipam.ErrAddressReserved)
	}
}

// A pool in which an operator keeps something back makes no room for another.
func TestExcludedPoolMakesNoRoom(t *testing.T) {
	for _, q := range []*ipam.ReserveRequest{exclude("10.60.0.240", "10.60.0.250"), keep("10.60.0.9", "web")} {
		h := machinetest.NewHost(t, ipam.Config{})
		n := network(t, h, "10.60.0.0/24")
		if err := h.Call(q).Err; err != nil {
			t.Fatal(err)
		}
		h.Call(&ipam.PoolRelease{Network: n})
		wantErr(t, h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.60.0.0/16")}).Err, ipam.ErrPoolOverlap)
	}
}

// Nor does it go with its last network, nor does one that has a name.
func TestChosenPoolStays(t *testing.T) {
	for _, named := range []string{"", "lab"} {
		c := newLockstepWith(t, 3, func(c *lockstep) {
			for _, p := range c.peers {
				p.cfg.Subnets.Universe = append(p.cfg.Subnets.Universe, prefix("10.32.0.0/12"))
			}
		})
		c.found()
		n := c.ask(1, &ipam.PoolRequest{Space: ipam.Local, PoolName: named}).Pool.Network
		if named == "" {
			first := n.Pool.Addr().Next().Next()
			if err := c.ask(0, &ipam.ReserveRequest{First: first, Last: first, Kind: chronicle.KindExcluded}).Err; err != nil {
				t.Fatal(err)
			}
		}
		c.ask(1, &ipam.PoolRelease{Network: n})
		c.wait(10 * time.Minute)
		if c.peers[0].machine.State().PoolOf(n.Pool) == nil {
			t.Errorf("name %q: the pool is gone", named)
		}
	}
}

// A grant of what is kept for a name is taken back, and waits for that name.
func TestKeptIsWithdrawn(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/28")
	h.Call(keep("10.50.0.1", "web"))
	for i := range 13 {
		run(t, h, n, fmt.Sprint("c", i))
	}
	g := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web"}).Address
	h.Call(&ipam.Withdrawal{Ticket: g.Ticket})
	if r := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "more"}); r.Err == nil {
		t.Errorf("%v is kept for web, and went to another", r.Address.Address)
	}
}

// What the engine has asked for without a word may be a container: an operator does
// not exclude it, and a gateway of this host is nobody's auxiliary address.
func TestWhatIsInUseYieldsToNobody(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.50.0.0/24")
	gateway := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	run(t, h, n, "web")
	h.Restart()
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool}) // the engine replays
	replayed := &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: address("10.50.0.77")}
	if err := h.Call(replayed).Err; err != nil {
		t.Fatal(err)
	}
	r := h.Call(exclude("10.50.0.76", "10.50.0.78"))
	if len(r.Reserving.Collisions) != 1 || r.Reserving.Collisions[0].First != replayed.Address || r.Reserving.Addresses != 2 {
		t.Errorf("excluded: %+v, %v", r.Reserving, r.Err)
	}
	if r = h.Call(exclude(gateway.String(), gateway.String())); len(r.Reserving.Collisions) != 1 {
		t.Errorf("the host's own gateway is excluded: %+v, %v", r.Reserving, r.Err)
	}
	h.Now = h.Now.Add(time.Hour)
	again := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: n.Pool, Gateway: ipam.GatewayNone}).Pool.Network
	aux := &ipam.AddressRequest{Network: again, Purpose: ipam.ForUnmarked, Address: gateway}
	wantErr(t, h.Call(aux).Err, ipam.ErrAddressInUse, "as its own gateway")
}

// What is reserved and on an interface of the host is reserved: the gateway that all
// engines share is on each of their bridges.
func TestReservedOnTheHost(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Gateway: ipam.GatewayFirst})
	hostHas(h, "10.50.0.1/24")
	if st, err := h.Machine().Who(h.Now, address("10.50.0.1")); err != nil || st.State != "reserved" {
		t.Errorf("it is %+v, %v", st, err)
	}
	if p := h.Machine().Status(h.Now).Problems; len(p) > 0 {
		t.Errorf("problems: %+v", p)
	}
}
