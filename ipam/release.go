package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
)

// releaseAddress answers libnetwork's ReleaseAddress.
func (m *Machine) releaseAddress(q *AddressRelease) {
	p := m.pools.Serving(&q.Network)
	if p == nil {
		m.pools.EndOwnWarning(q.Address)
		return
	}
	o, ok := addr.OffsetOf(p.CIDR, q.Address)
	if !ok {
		return
	}
	if p.Release(o, &q.Network) {
		m.settleEmptied(p)
	}
}

// withdraw takes back a grant that was not delivered.
func (m *Machine) withdraw(q *Withdrawal) {
	if p := m.pools.Of(q.Ticket.Pool); p != nil && p.Withdraw(&q.Ticket) {
		m.settleEmptied(p)
	}
}

// takeStranger keeps an address back for whatever answers for it, if it still is as it was granted.
func (m *Machine) takeStranger(q *Stranger) {
	if p := m.pools.Of(q.Ticket.Pool); p != nil && p.TakeStranger(&q.Ticket, q.MAC) {
		m.settleEmptied(p)
	}
}

// settleEmptied lets a pool go that was only kept for an address that was
// still held.
func (m *Machine) settleEmptied(p *pool.Pool) {
	if p.Facts().IsChosen && !p.IsBusy() && !p.Here.Has() || p.Here.Released() > 0 && !m.engine.WillList() {
		m.settle(p)
	}
}
