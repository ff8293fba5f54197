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
func (m *Machine) client(q *ClientRequest, a *AddressGrant) error {
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
	if err := m.usable(); err != nil {
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
	var free []holding
	var out []AddressStatus
	var stays error
	for _, p := range pools {
		for o, rec := range m.candidates(p, q) {
			if err := m.unfreeable(p, o, rec); err != nil {
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
		if pool.IsWarned(h.p.Space.Lookup(h.o)) {
			h.p.DismissStranger(h.o)
		} else {
			h.p.Free(h.o)
		}
		h.p.SettleAt(addr.One(h.o))
		m.settleEmptied(h.p)
	}
	return out, nil
}

// unfreeable reports why an address that is held is not freed by hand, if it is not.
func (m *Machine) unfreeable(p *pool.Pool, o addr.Offset, rec space.Record) error {
	a := addr.Nth(p.CIDR, o)
	switch {
	case rec.Kind == space.Host:
		return failf(ErrAddressInUse, "address %v in %s is on an interface of this host: it is freed by itself when the host no longer has it", a, sentence.Pool(p.Pool))
	case rec.Kind == space.Gateway:
		return failf(ErrAddressInUse, "address %v in %s is the gateway of this host's networks: it is freed with the last of them", a, sentence.Pool(p.Pool))
	case rec.Kind != space.Client && rec.Kind != space.Stranger && !p.IsGone(o):
		return failf(ErrAddressInUse, "address %v in %s is in use by %s: %s, and its address is freed by itself", a, sentence.Pool(p.Pool), m.pools.HolderText(rec.Holder, rec.Since), p.EndOf(o, rec.Holder, rec.Since))
	}
	return nil
}

// candidates yields the held addresses of the pool that a request to free
// means.
func (m *Machine) candidates(p *pool.Pool, q *FreeRequest) func(func(addr.Offset, space.Record) bool) {
	return func(yield func(addr.Offset, space.Record) bool) {
		fits := func(rec space.Record) bool {
			return rec.State == space.Held && rec.Kind != space.Kept && (q.ID == "" || report.Names(rec.Holder, q.ID))
		}
		if q.Address.IsValid() {
			if o, ok := addr.OffsetOf(p.CIDR, q.Address); ok {
				if rec := p.Space.Lookup(o); fits(rec) {
					yield(o, rec)
				}
			}
			return
		}
		for o, rec := range p.Held() {
			if fits(rec) && !yield(o, rec) {
				return
			}
		}
	}
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
