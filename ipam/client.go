package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/report"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// client allocates or claims for a holder outside Docker.
func (m serving) client(q *ClientRequest, a *AddressGrant) error {
	if err := q.Check(); err != nil {
		return err
	}
	p := m.poolRef(q.Pool)
	if p == nil {
		return sentence.NoPool(q.Pool)
	}
	if m.members.Wish.IsLeaving() && !m.members.Wish.HasLeft() { // who has left is told so below
		return sentence.Leaving(m.cfg.Name)
	}
	err := m.requestAddress(&AddressRequest{
		Network: Network{Space: Local, Pool: p.CIDR, Range: p.CIDR},
		Address: q.Address, Purpose: ForClient, ID: q.ID,
	}, a)
	if err == nil {
		in := p.CIDR
		if q.Address.IsValid() {
			in = netip.PrefixFrom(q.Address, q.Address.BitLen())
		}
		m.members.Former.Claimed(q.ID, in)
	}
	return err
}

// free frees addresses for an operator. A name may be that of a container as well,
// whose address stays.
func (m *Machine) free(q *FreeRequest) ([]AddressStatus, error) {
	if err := m.members.Usable(); err != nil {
		return nil, err
	}
	pools, err := m.poolsRef(q.Pool)
	if err != nil {
		return nil, err
	}
	if q.ID == "" && !q.Address.IsValid() {
		return nil, failf(ErrBadRequest, "name the holder or the address to free")
	}
	if !q.Address.IsValid() {
		m.members.Former.Claimed(q.ID, netip.Prefix{}) // it wants none any more
	}
	type holding struct {
		p *pool.Pool
		o addr.Offset
	}
	named := func(h space.Holder) bool { return q.ID == "" || report.Names(h, q.ID) }
	var free []holding
	var out []AddressStatus
	var stays error
	for _, p := range pools {
		for o, rec := range p.Meant(q.Address, named) {
			if err := p.MayFree(o, rec); err != nil {
				stays = err
				continue
			}
			free = append(free, holding{p, o})
			out = append(out, m.addressStatus(p, o, rec))
		}
	}
	if len(free) == 0 {
		if p := m.pools.At(q.Address); p != nil && m.pools.EndOwnWarning(q.Address) { // which this host only kept others from
			o, _ := addr.OffsetOf(p.CIDR, q.Address)
			return []AddressStatus{m.addressStatus(p, o, p.Space.Lookup(o))}, nil
		}
		return nil, stays
	}
	for _, h := range free {
		h.p.FreeByHand(h.o)
		m.leaveEmptied(h.p)
	}
	return out, nil
}

// poolsRef returns the pool that a user names, or all if none is named.
func (m *Machine) poolsRef(ref string) ([]*pool.Pool, error) {
	if ref == "" {
		return m.pools.Sorted(), nil
	}
	if p := m.poolRef(ref); p != nil {
		return []*pool.Pool{p}, nil
	}
	return nil, sentence.NoPool(ref)
}
