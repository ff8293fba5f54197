package ipam_test

import (
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// The engine does not answer while a container starts that is on two networks with the same options, and has the same name and
// MAC on both. The peer knows one network: the process that was asked for the other one has ended. Each endpoint gets an
// address of its own. After the engine itself has started the container gets the address that it had before.
func TestTwoEndpointsOfASilentEngine(t *testing.T) {
	h := withSocket(t)
	n := network(t, h, "10.50.0.0/24")
	look(h, on("10.50.0.0/24"))
	asks := &ipam.AddressRequest{Network: n, Purpose: ipam.ForContainer, Name: "web", MAC: ipam.MAC{2, 0, 0, 0, 0, 9}}
	silent := func() {
		h.Now = h.Now.Add(time.Hour)
		h.Restart()
		h.Call(&ipam.Greeting{})
		h.Call(&ipam.Blindness{})
	}
	silent()
	network(t, h, "10.50.0.0/24") // the second one, which is taken for the first
	one, other := h.Call(asks), h.Call(asks)
	if one.Err != nil || other.Err != nil || one.Address.Address == other.Address.Address {
		t.Errorf("both endpoints have %v (%v) and %v (%v)", one.Address.Address, one.Err, other.Address.Address, other.Err)
	}

	silent()
	if again := h.Call(asks); again.Err != nil || again.Address.Address != one.Address.Address && again.Address.Address != other.Address.Address {
		t.Errorf("after the engine has started it has %v (%v), and before that %v", again.Address.Address, again.Err, one.Address.Address)
	}
}
