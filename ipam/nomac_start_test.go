package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
)

// RINGLET_MAC=false: an engine before 29 that starts asks for what its networks and endpoints have, network by network,
// and then starts containers, whose requests look the same; it answers no question before it is done.

// started has the engine start above the host's peer, in a process that it has started, too, with the networks that it has.
func started(h *machinetest.Host, requests ...ipam.PoolRequest) {
	h.Restart()
	h.Call(&ipam.Greeting{})
	for _, q := range requests {
		h.Call(&q)
	}
	h.Call(&ipam.Blindness{})
}

func plainPool() ipam.PoolRequest { return ipam.PoolRequest{Space: ipam.Local, Pool: prefix(bareNet)} }

// upperHalf asks for the same pool for a network with other options.
func upperHalf() ipam.PoolRequest {
	q := plainPool()
	q.Range = prefix("10.50.0.128/25")
	return q
}

// keepsAuxiliary is a network that keeps 10.50.0.5 back as auxiliary.
func keepsAuxiliary(t *testing.T, h *machinetest.Host) ipam.Network {
	t.Helper()
	n := network(t, h, bareNet)
	waits(t, h, plainly(n, "10.50.0.5"))
	if r := answeredBy(t, h); r.Err != nil {
		t.Fatal(r.Err)
	}
	return n
}

// An engine that starts is granted an auxiliary address that the host has itself, as on a shim, and one that an operator has
// excluded since: it is not refused what its networks have.
func TestBareStartOnWhatItsNetworksName(t *testing.T) {
	for _, excluded := range []bool{false, true} {
		h := withoutMAC(t)
		n := made(t, h)
		h.Now = h.Now.Add(time.Hour)
		look(h, on(bareNet))
		if excluded {
			if r := h.Call(exclude("10.50.0.9", "10.50.0.9")); r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		h.Restart()
		if !excluded {
			h.Call(&ipam.HostAddresses{Addresses: []netip.Prefix{netip.MustParsePrefix("10.50.0.9/24")}})
		}
		h.Call(&ipam.Greeting{})
		q := plainPool()
		h.Call(&q)
		h.Call(&ipam.Blindness{})
		for range 2 { // networks may share it
			if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil {
				t.Errorf("excluded %t: %v", excluded, r.Err)
			}
		}
	}
}

// Two networks on a pool, and an endpoint of the first that no list has shown: a container on the second that starts
// with the engine does not get its address.
func TestBareStartOfTwoNetworks(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h)
	second := upperHalf()
	other := h.Call(&second).Pool.Network
	wantErr(t, h.Call(plainly(n, "10.50.0.9")).Err, ipam.ErrBadRequest, "engine 29")
	look(h, on(bareNet), on(bareNet))
	h.Now = h.Now.Add(time.Second)
	started(h, plainPool())
	h.Call(&ipam.Blindness{})
	h.Call(plainly(n, "10.50.0.9")) // goes on with it, whatever it is answered
	h.Call(&second)
	wantErr(t, h.Call(plainly(other, "10.50.0.9")).Err, ipam.ErrAddressInUse)
}

// Who allocates outside Docker while an engine starts does not end what that asks for again.
func TestClientWhileAnEngineStarts(t *testing.T) {
	h := withoutMAC(t)
	n := made(t, h, listed("10.50.0.9", "web", 9))
	h.Now = h.Now.Add(time.Hour)
	h.Restart()
	h.Call(&ipam.Greeting{})
	h.Call(&ipam.Blindness{})
	if r := h.Call(&ipam.ClientRequest{Pool: bareNet, ID: "printer"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	q := plainPool()
	h.Call(&q)
	if r := h.Call(plainly(n, "10.50.0.9")); r.Err != nil {
		t.Errorf("the engine is refused what it has: %v", r.Err)
	}
}

// A call of the engine that was, which waits still, does not end what the engine that starts asks for again.
func TestCallOfAnEngineThatWas(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true, NoMAC: true})
	look(h)
	first, second := network(t, h, bareNet), network(t, h, "10.51.0.0/24")
	h.Now = h.Now.Add(time.Hour)
	look(h, on(bareNet), on("10.51.0.0/24"))
	mustAsk(t, h, first, "web", 0, "10.50.0.9")
	if r, ok := h.Try(&ipam.AddressRequest{Network: first, Purpose: ipam.ForContainer, Name: "web", Address: address("10.50.0.9")}); ok {
		t.Fatalf("%+v, %v", r.Address, r.Err)
	}
	h.Now = h.Now.Add(time.Second)
	h.Call(&ipam.Greeting{})
	h.Tick()
	network(t, h, "10.51.0.0/24")
	for _, s := range h.Machine().Status(h.Now).Networks {
		if s.ID == second.ID() && s.Count != 1 {
			t.Errorf("counted %d times", s.Count)
		}
	}
}

// The same with any RINGLET_MAC, and without the engine's socket: nobody would ever tell that the network is gone.
func TestClientWhileAnEngineStartsWithoutSocket(t *testing.T) {
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, bareNet)
	g := h.Call(&ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}).Address.Address.Addr()
	h.Restart()
	h.Call(&ipam.Greeting{})
	if r := h.Call(&ipam.ClientRequest{Pool: bareNet, ID: "printer"}); r.Err != nil {
		t.Fatal(r.Err)
	}
	network(t, h, bareNet) // asked for again
	h.Now = h.Now.Add(time.Hour)
	release(h, n, g)
	h.Call(&ipam.PoolRelease{Network: n})
	if s := stateOf(t, h, g.String()); s.State == "held" {
		t.Errorf("%+v", s)
	}
	if left := h.Machine().Status(h.Now).Networks; len(left) > 0 {
		t.Errorf("%+v", left)
	}
}

// An engine starts on a host whose process was frozen, long ago or in the middle of that, and asks again for a network beside
// others, and for what it and a container on it have, without saying which is which. It is granted that: what the freeze made
// uncertain is not whether it had asked before this process started.
func TestEngineStartsBehindAFreeze(t *testing.T) {
	const cidr = "10.50.0.0/24"
	device, web := address("10.50.0.5"), address("10.50.0.9")
	for name, freeze := range map[string]struct{ before, starting time.Duration }{
		"never": {}, "long ago": {before: time.Minute}, "while it starts": {starting: 26 * time.Second},
	} {
		for _, process := range []bool{false, true} { // whether it starts, too
			h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true, NoMAC: true})
			pool := func(within string) ipam.Network {
				q := &ipam.PoolRequest{Space: ipam.Local, Pool: prefix(cidr), Gateway: ipam.GatewayNone}
				if within != "" {
					q.Range = prefix(within)
				}
				return h.Call(q).Pool.Network
			}
			look(h)
			n := pool("")
			h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: device})
			look(h)
			first, second := on(cidr, listed(web.String(), "web", 9)), on(cidr)
			first.Auxiliary = []netip.Addr{device}
			second.ID, second.Name = "n2", "net2"
			pool("10.50.0.128/25")
			for range 5 {
				h.Now = h.Now.Add(2 * time.Minute)
				look(h, first, second)
			}
			pool("10.50.0.64/26")
			if freeze.before > 0 {
				h.Freeze(freeze.before)
				h.Tick()
			}
			for range 3 {
				h.Now = h.Now.Add(time.Hour)
				look(h, first, second)
			}
			if process {
				h.Restart()
			} else {
				h.Call(&ipam.Greeting{})
			}
			h.Call(&ipam.Blindness{})
			pool("")
			if freeze.starting > 0 {
				h.Freeze(freeze.starting)
			}
			for _, a := range []netip.Addr{device, web} {
				if r, answered := h.Try(&ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: a}); !answered || r.Err != nil {
					t.Errorf("frozen %s, with the process %t: %v: %t, %v", name, process, a, answered, r.Err)
				}
			}
		}
	}
}
