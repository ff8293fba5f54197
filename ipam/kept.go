package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// An address that is kept for a name belongs to nobody until a container of
// that name starts somewhere. The peer there borrows it (chronicle.Borrow) and
// hands it out. When the container goes, the address waits on that host for a
// while, held by nobody, so that no other container gets it and that one comes
// back to it without a decision; then it is given back.

// claimKept claims an address that is kept for the holder. Where it has all of them
// already, as a container does that is on two networks of the pool, it is to get any:
// then done is false.
func (m serving) claimKept(p *pool.Pool, n *Network, h *space.Holder, a *AddressGrant) (done bool, err error) {
	has := false
	for _, o := range p.KeptIn(h) {
		if err = m.claim(p, n, addr.Nth(p.CIDR, o), h, a); err == nil || sentence.Waits(err) {
			return true, err
		}
		rec := p.Space.Lookup(o)
		two := p.Here.Networks() > 1
		has = has || two && h.Name != "" && rec.State == space.Held && rec.Kind == h.Kind && rec.Name == h.Name
	}
	return err != nil && !has, err
}

// borrow makes an address this peer's: as obtain, or, with the reservation that
// keeps it for a name, from where that keeps it.
func (m serving) borrow(p *pool.Pool, o addr.Offset, r *chronicle.Reservation) error {
	if t, _ := p.Ring.At(o); r == nil || t.Owner != ring.Reserved {
		return m.obtain(p, o)
	}
	out, err := m.propose(chronicle.Borrow{Pool: p.Key, At: o})
	if err == nil && out[0].Refused != "" {
		err = m.waitForMajority() // it has changed hands just now
	}
	return err
}
