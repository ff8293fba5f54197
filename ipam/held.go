package ipam

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

// HeldAfter lists the addresses of a pool that are held on this peer and come
// after one, or from its beginning if that is the zero one, in order and so many
// at most: who wants all asks again and again, and holds up nobody for long.
func (m *Machine) HeldAfter(now time.Time, cidr netip.Prefix, after netip.Addr, limit int) []AddressStatus {
	p := m.poolOf(cidr)
	if p == nil {
		return nil
	}
	m.now = now
	r := addr.Whole(p.CIDR)
	if o, ok := addr.OffsetOf(p.CIDR, after); ok {
		r.Start = o + 1
	}
	var out []AddressStatus
	for o, rec := range p.space.HeldIn(r) {
		if rec.Kind == space.Kept {
			continue
		}
		if out = append(out, m.addressStatus(p, o, rec)); len(out) == limit {
			break
		}
	}
	return out
}
