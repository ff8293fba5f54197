package prober

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/plugin/arp"
)

const (
	// inARow is for how many addresses, one after the other, one device answers until it may answer for all.
	inARow = 3
	// samples is how many other addresses of the pool are asked about then: a device may have three addresses side by side.
	samples = 3
)

// proxies knows which device answers for every address of a LAN, probes included (proxy ARP). Its answers say nothing. Safe for
// concurrent use. The zero value is ready.
type proxies struct {
	mu    sync.Mutex
	last  arp.MAC
	row   []netip.Addr // for which last answered since another one did, or nobody
	known arp.MAC      // answers for every address; zero: none does
}

// quiet takes note that an address was asked about, and nobody answered: no device answers for all.
func (x *proxies) quiet() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.last, x.row, x.known = arp.MAC{}, nil, arp.MAC{}
}

// answered takes note that a device answered for an address. It reports whether that device is known to answer for all, or
// whether it may: once in a row, since to find that out takes a probe.
func (x *proxies) answered(mac arp.MAC, a netip.Addr) (all, mayBe bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.known == mac {
		return true, false
	}
	if x.last != mac {
		x.last, x.row = mac, nil
	}
	if slices.Contains(x.row, a) {
		return false, false
	}
	x.row = append(x.row, a)
	return false, len(x.row) == inARow
}

// found takes note that a device answers for all, and returns the addresses that were set aside for it.
func (x *proxies) found(mac arp.MAC) (aside []netip.Addr) {
	x.mu.Lock()
	defer x.mu.Unlock()
	aside, x.row, x.known = x.row, nil, mac
	return aside
}

// answersForAll reports whether the device that answered for an address that was granted answers for all. Those that were set
// aside for it before are freed then.
func (p *Prober) answersForAll(ctx context.Context, r *ipam.AddressRequest, g *ipam.AddressGrant, mac arp.MAC) bool {
	at := g.Address.Addr()
	all, mayBe := p.proxies.answered(mac, at)
	if all {
		return true
	}
	if !mayBe || !p.sampled(ctx, r.Network.Pool, at, mac) {
		return false
	}
	for _, a := range p.proxies.found(mac) {
		if a == at {
			continue
		}
		who, err := p.node.Who(ctx, a)
		if err != nil || who.Kind != "stranger" || who.MAC != ipam.MAC(mac).String() {
			continue
		}
		if _, err := p.node.Free(ctx, ipam.FreeRequest{Address: a}); err != nil {
			break // it is freed in an hour
		}
	}
	p.proxied.Set(fmt.Errorf("the device with MAC %v answers ARP for every address of %v (proxy ARP)", ipam.MAC(mac), r.Network.Pool))
	return true
}

// sampled reports whether a device answers for some addresses of a pool that were not asked about: for each of them, if another
// device has none of them.
func (p *Prober) sampled(ctx context.Context, pool netip.Prefix, but netip.Addr, mac arp.MAC) bool {
	size := uint64(addr.Size(pool))
	found := 0
	for range 2 * samples {
		a := addr.Nth(pool, addr.Offset(rand.Uint64N(size))) // any address does
		if a == but {
			continue
		}
		switch got, err := p.ask(ctx, a); {
		case err != nil || got == arp.MAC{}:
			return false
		case got == mac:
			found++
		}
		if found == samples {
			return true
		}
	}
	return false
}

// errProxied refuses an address where one device answers for all, and the network is to have nothing then.
func errProxied(r *ipam.AddressRequest, mac arp.MAC) error {
	return &ipam.Error{Kind: ipam.ErrNoAddress, Text: fmt.Sprintf(
		"the device with MAC %v answers ARP for every address of %v (proxy ARP), and the network has probe=strict: end proxy ARP on that device, or create the network with probe=arp", ipam.MAC(mac), r.Network.Pool)}
}
