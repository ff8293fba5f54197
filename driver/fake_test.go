package driver

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"

	"github.com/ringlet/ringlet/ipam"
)

// fake is a backend that writes down what it is asked, and grants in a row. It
// knows only what the driver must not break: who holds what, and what was
// taken back.
type fake struct {
	// Hooks are called instead of the method, if set.
	requestPool    func(context.Context, ipam.PoolRequest) (ipam.PoolGrant, error)
	requestAddress func(context.Context, ipam.AddressRequest) (ipam.AddressGrant, error)
	release        func(context.Context) error
	greeted        func(context.Context)
	withdraw       func(context.Context, ipam.Ticket) error

	mu        sync.Mutex
	asked     []string
	granted   map[ipam.Ticket]netip.Addr
	withdrawn []ipam.Ticket
	released  []ipam.Network
	serial    uint64
	pools     byte
	rechecks  int
}

func (f *fake) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, fmt.Sprintf(format, args...))
}

// take returns what was asked since the last take.
func (f *fake) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	asked := f.asked
	f.asked = nil
	return asked
}

func (f *fake) RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
	f.note("RequestPool %+v", r)
	if f.requestPool != nil {
		return f.requestPool(ctx, r)
	}
	return f.grantPool(r), nil
}

func (f *fake) grantPool(r ipam.PoolRequest) ipam.PoolGrant {
	n := networkOf(r, r.Pool)
	if !n.Pool.IsValid() {
		f.mu.Lock()
		f.pools++
		n = networkOf(r, choice(r, f.pools))
		f.mu.Unlock()
	}
	g := ipam.PoolGrant{Network: n}
	if n.Gateway == ipam.GatewayFirst {
		g.Gateway = netip.PrefixFrom(n.Pool.Addr().Next(), n.Pool.Bits())
	}
	return g
}

// choice is the n-th pool that is chosen for such a request.
func choice(r ipam.PoolRequest, n byte) netip.Prefix {
	a, bits := netip.AddrFrom4([4]byte{10, 32, n}), 24
	if r.V6 {
		a, bits = netip.AddrFrom16([16]byte{0xfd, 7: n}), 64
	}
	if r.Bits != 0 {
		bits = r.Bits
	}
	return netip.PrefixFrom(a, bits).Masked()
}

// networkOf is the network that asks so, once it has its pool.
func networkOf(r ipam.PoolRequest, pool netip.Prefix) ipam.Network {
	n := ipam.Network{
		Space: r.Space, Pool: pool, Range: r.Range, Gateway: r.Gateway, GatewayAddr: r.GatewayAddr,
		Sticky: r.Sticky, PoolName: r.PoolName, Probe: r.Probe, Subnet: r.Subnet,
	}
	if !n.Range.IsValid() {
		n.Range = pool
	}
	return n
}

func (f *fake) ReleasePool(ctx context.Context, n ipam.Network) error {
	f.note("ReleasePool %v", n.ID())
	f.mu.Lock()
	f.released = append(f.released, n)
	f.mu.Unlock()
	if f.release != nil {
		return f.release(ctx)
	}
	return nil
}

func (f *fake) RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	f.note("RequestAddress %v addr=%v purpose=%s name=%q mac=%v", r.Network.ID(), r.Address, purposes[r.Purpose], r.Name, r.MAC)
	if f.requestAddress != nil {
		return f.requestAddress(ctx, r)
	}
	return f.grant(r), nil
}

var purposes = map[ipam.Purpose]string{
	ipam.ForContainer: "container", ipam.ForGateway: "gateway", ipam.ForUnmarked: "unmarked",
}

func (f *fake) grant(r ipam.AddressRequest) ipam.AddressGrant {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.serial++
	a := r.Address
	if !a.IsValid() {
		b := r.Network.Pool.Addr().As16()
		b[14] |= byte(f.serial >> 8) // every address once, in a /16 or wider
		b[15] |= byte(f.serial)
		a = netip.AddrFrom16(b)
		if r.Network.Pool.Addr().Is4() {
			a = a.Unmap()
		}
	}
	g := ipam.AddressGrant{
		Address: netip.PrefixFrom(a, r.Network.Pool.Bits()),
		Ticket:  ipam.Ticket{Serial: f.serial},
	}
	if f.granted == nil {
		f.granted = map[ipam.Ticket]netip.Addr{}
	}
	f.granted[g.Ticket] = a
	return g
}

func (f *fake) ReleaseAddress(ctx context.Context, n ipam.Network, a netip.Addr) error {
	f.note("ReleaseAddress %v addr=%v", n.ID(), a)
	if f.release != nil {
		return f.release(ctx)
	}
	return nil
}

func (f *fake) Withdraw(ctx context.Context, t ipam.Ticket) error {
	f.mu.Lock()
	f.withdrawn = append(f.withdrawn, t)
	f.mu.Unlock()
	f.note("Withdraw %d", t.Serial)
	if f.withdraw != nil {
		return f.withdraw(ctx, t)
	}
	return nil
}

func (f *fake) Greeted(ctx context.Context) {
	f.note("Greeted")
	if f.greeted != nil {
		f.greeted(ctx)
	}
}

func (f *fake) Recheck() {
	f.note("Recheck")
	f.mu.Lock()
	f.rechecks++
	f.mu.Unlock()
}

func (f *fake) has(asked string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.asked, asked)
}
