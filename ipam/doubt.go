package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/rule"
)

// noteUnasked notes that an earlier database was lost, where a call shows it before a list does: it is about an address of a network that this database
// was never asked for, and the engine asks for networks first. A list may have no more networks than were asked for since.
func (m *Machine) noteUnasked(c *Call) {
	var n Network
	switch r := c.Request.(type) {
	case *AddressRequest:
		n = r.Network
	case *AddressRelease:
		n = r.Network
	default:
		return
	}
	if !m.doubts.HasLoss() && m.engine.Network(n.ID()) == nil {
		m.doubts.TakeLoss()
	}
}

// settleDoubts frees what a list tells to be released, and forgets the doubts that are over.
func (m *Machine) settleDoubts(s *sight) {
	judge := func(a netip.Addr) (absent, frees bool) { return m.absent(a, s) }
	m.doubts.Settle(s.mark, judge, func(a netip.Addr) {
		p := m.pools.At(a)
		o, _ := addr.OffsetOf(p.CIDR, a)
		m.freeGone(p, o, s.kept[p])
	})
}

// absent reports whether an address in doubt is held by a container that the list does not have, and whether an earlier
// list had it. A list alone frees no container that none has shown: it may be starting.
func (m *Machine) absent(a netip.Addr, s *sight) (absent, known bool) {
	p := m.pools.At(a)
	if p == nil {
		return false, false
	}
	o, _ := addr.OffsetOf(p.CIDR, a)
	if _, lives := s.seen[p][o]; lives || !p.HasEndpoint(o) {
		return false, false
	}
	shown := p.Space.Lookup(o).Ref != "" || m.lacks(rule.Shown)
	return true, s.seen[p] != nil && shown && p.Space.Usable(o)
}
