package ipam_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// One request from beginning to end: the machine is stepped, what it wants
// saved is saved, and only then is the reply handed out.
func ExampleMachine() {
	m, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))})
	if err != nil {
		panic(err)
	}
	subnet := netip.MustParsePrefix("10.50.0.0/24")
	call := ipam.Call{ID: 1, Deadline: time.Now().Add(20 * time.Second), Request: &ipam.AddressRequest{
		Network: ipam.Network{Space: ipam.Local, Pool: subnet, Range: subnet},
		Purpose: ipam.ForContainer, Name: "web",
	}}
	fx := m.Step(time.Now(), &call)
	for _, r := range fx.Save {
		fmt.Println("save", r.Bucket)
	}
	for _, r := range fx.Reply {
		fmt.Println("reply", r.Address.Address)
	}
	// Output:
	// save identity
	// save identity
	// save identity
	// save chronicle
	// save chronicle
	// save holding
	// save chronicle
	// reply 10.50.0.1/24
}
