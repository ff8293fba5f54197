package ipam_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// Every verdict on an address of a host that has all kinds, with what to do.
func TestExplain(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	h.Call(&ipam.Inventory{})
	n := network(t, h, "10.50.0.0/27")
	id := strings.Repeat("4f3a2b1c", 8)
	web := run(t, h, n, "web")  // .1
	gone := run(t, h, n, "job") // .2
	old := run(t, h, n, "old")  // .3
	h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/27", ID: "printer", Address: address("10.50.0.4")})
	lan := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Address: address("10.50.0.5")}).Address
	h.Call(&ipam.Stranger{Ticket: lan.Ticket, MAC: ipam.MAC{0x0a, 0, 0, 0, 0, 0x50}})
	h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}) // .6
	h.Call(exclude("10.50.0.7", "10.50.0.8"))
	h.Call(keep("10.50.0.9", "db"))
	h.Call(&ipam.HostAddresses{Addresses: []netip.Prefix{prefix("10.50.0.10/27")}})
	for range 2 {
		if claim(h, n, "10.50.0.4", "web2") == nil || claim(h, n, "10.50.0.9", "web2") == nil {
			t.Fatal("they were granted")
		}
		h.Now = h.Now.Add(time.Second)
	}
	if h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/27", ID: "tv", Address: address("10.50.0.4")}).Err == nil {
		t.Fatal("it was granted")
	}
	h.Now = h.Now.Add(time.Minute)
	release(h, n, old)
	h.Call(inventory(h, n, ipam.InventoryEndpoint{Address: web, Container: id, Name: "web"}, ipam.InventoryEndpoint{Address: address("10.50.0.7"), Container: id, Name: "web"}))

	var b strings.Builder
	for _, a := range []netip.Addr{
		web, gone, old, address("10.50.0.4"), address("10.50.0.5"), address("10.50.0.6"), address("10.50.0.7"), address("10.50.0.9"),
		address("10.50.0.10"), address("10.50.0.12"), address("10.50.0.0"), address("10.50.0.30"),
	} {
		e, err := h.Machine().Explain(h.Now, a)
		if err != nil {
			t.Fatalf("%v: %v", a, err)
		}
		fmt.Fprintf(&b, "%v %s\n  next: %s\n  pool made by a %s, %d network; %v-%v of %s (%s)\n", a, e.Verdict, e.Next, e.Origin, len(e.Networks), e.First, e.Last, e.Owner, e.OwnedHow)
		if e.Reserved != nil {
			fmt.Fprintf(&b, "  reserved: %s %s\n", e.Reserved.Kind, e.Reserved.Note)
		}
		if e.Engine != nil {
			fmt.Fprintf(&b, "  engine: listed %v for %q, looked %v, missing since %v\n", e.Engine.Listed, e.Engine.Container, e.Engine.Looked, e.Engine.Missing)
		}
		if e.Conflict != "" {
			fmt.Fprintf(&b, "  conflict: %s\n", e.Conflict)
		}
		for _, r := range e.Refusals {
			fmt.Fprintf(&b, "  refused %d times to %s, %s: %s\n", r.Times, r.To, r.Code, r.Why)
		}
	}
	golden.Check(t, "explain.txt", []byte(b.String()))
	h.Call(inventory(h, n, ipam.InventoryEndpoint{Address: gone, Name: "job"}))
	if e, err := h.Machine().Explain(h.Now, gone); err != nil || e.Next != "the engine has this endpoint without a container: remove it with docker network disconnect --force net job" {
		t.Errorf("of an endpoint without a container it says %q, %v", e.Next, err)
	}
	_, err := h.Machine().Explain(h.Now, address("10.99.0.1"))
	wantErr(t, err, ipam.ErrPoolNotFound, "is in no pool")
}

// The last address of a /64 is in its pool for whoever asks, and nobody's.
func TestExplainLastOf64(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	network(t, h, "fd00:50::/64")
	last := address("fd00:50::ffff:ffff:ffff:ffff")
	e, err := h.Machine().Explain(h.Now, last)
	if err != nil || e.State != "reserved" || e.Owner != "reserved" || e.First != last || e.Last != last {
		t.Errorf("%+v, %v", e, err)
	}
	if want := "is the pool's subnet anycast address"; e.Verdict != want || len(e.Networks) != 1 {
		t.Errorf("it %s, and has %d networks", e.Verdict, len(e.Networks))
	}
	_, err = h.Machine().Explain(h.Now, address("fd00:51::ffff:ffff:ffff:ffff"))
	wantErr(t, err, ipam.ErrPoolNotFound, "is in no pool")
}

// What is in another's space, and what a lost host has.
func TestExplainElsewhere(t *testing.T) {
	c, _ := lab(t)
	if err := c.ask(2, keep("10.50.0.20", "db")).Err; err != nil {
		t.Fatal(err)
	}
	verdicts := func() string {
		var out []string
		for _, a := range []string{"10.50.0.1", "10.50.0.20", "10.50.0.32", "10.50.0.64"} {
			e, err := c.peers[0].machine.Explain(c.now, address(a))
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e.OwnedHow+": "+e.Verdict+"; "+e.Next)
		}
		return strings.Join(out, "\n")
	}
	for _, want := range []string{
		"reachable: is in a range of host-2, which knows whether it is in use; run ringlet explain 10.50.0.1 on that host",
		"unreachable: is in a range of host-2, which is unreachable: no other host knows whether it is in use; start or reconnect that host; if it is off for good, release its addresses with ringlet evict host-2 and then ringlet forget host-2",
		"unreachable: is reserved for db, and is in a range of host-2; start or reconnect that host; if it is off for good, release its addresses with ringlet evict host-2 and then ringlet forget host-2; to end the reservation, run ringlet reserve rm 10.50.0.20",
		"evicted: is reserved for db, and is in a range of host-2; bring that host back, or release its addresses with ringlet forget host-2 if it is gone for good; to end the reservation, run ringlet reserve rm 10.50.0.20",
		"evicted: may be in use on host-2, which was lost and evicted; bring that host back, or release its addresses with ringlet forget host-2 if it is gone for good",
	} {
		if got := verdicts(); !strings.Contains(got, want) || !strings.Contains(got, "self: is held by a container on host-0 since") {
			t.Errorf("got\n%s\nwithout\n%s", got, want)
		}
		if strings.HasPrefix(want, "reachable") {
			c.die(2)
		} else if strings.HasPrefix(want, "unreachable: is reserved") {
			if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
				t.Fatal(err)
			}
		}
	}
}
