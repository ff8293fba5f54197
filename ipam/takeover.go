package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/space"
)

// isBack reports whether whoever asks for a held address comes back to it. The error makes the call wait until an inventory can
// tell.
func (m *Machine) isBack(p *pool.Pool, o addr.Offset, rec *space.Record, may pool.Return) (bool, error) {
	switch may {
	case pool.IsBack:
		return true, nil
	case pool.BackOnceTold:
		return true, m.awaitTold(p, o, rec)
	case pool.OtherOnceTold:
		return false, m.awaitTold(p, o, rec)
	case pool.Untold:
		return false, m.errUntold(p, o, *rec)
	case pool.IsOther:
	}
	return false, nil
}

// awaitTold makes a call wait for an inventory that was begun after it came, where one
// will come. The holder's name is the container's that asks now, and need not have been the
// holder's then: that one may have been renamed, and live. An engine has no other container
// take a name before the one that had it has started, and so is listed.
func (m *Machine) awaitTold(p *pool.Pool, o addr.Offset, rec *space.Record) error {
	if !m.engine.WillList() {
		return nil
	}
	c := m.calls.current
	if c.doubted == 0 {
		c.doubted = m.engine.Stamp()
		m.note(Note{Kind: NoteDoubted, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o)})
	}
	if m.engine.Knows(c.doubted) {
		return nil
	}
	return m.errUntold(p, o, *rec)
}
