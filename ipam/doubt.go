package ipam

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

// Docker may send the release of an address late, once or never: the engine has taken the container off its lists before,
// waits for the network driver, and tries for 15 seconds where the plugin is away. It keeps no other container from asking
// for the address meanwhile, and a release does not name its container.
//
// So an address whose holder ended without a release is in doubt for ten minutes (R31). A release of an address in doubt
// frees nothing: the next list of the engine tells whether the present holder lives. How many such releases may come, the
// peer does not count. Doubt is kept by address and not with the record of the holder, since the record may go: the pool
// is removed, the range is closed, or a network has the address in between.

// doubtTime is how long an address is in doubt. The engine waits for the network driver as long as that takes.
const doubtTime = 10 * time.Minute

// doubt is what the peer knows of an address in doubt.
type doubt struct {
	since time.Time // the last holder ended without a release
	// released numbers a release that may have been the present holder's; 0 if none came. A list that was begun later tells.
	released uint64
}

// putInDoubt notes, also on disk, that the holder of an address ends without a release. Where no list ever comes, nothing
// could tell later whose release came, and every release is believed.
func (m *Machine) putInDoubt(p *pool, o addr.Offset) {
	if m.cfg.AwaitInventory {
		m.setDoubt(addr.Nth(p.CIDR, o), m.now)
	}
}

// setDoubt notes, also on disk, since when an address is in doubt.
func (m *Machine) setDoubt(a netip.Addr, since time.Time) {
	m.holdDoubt(a, doubt{since: since})
	m.saveDoubt(a, since)
}

// holdDoubt is setDoubt for what is on disk.
func (m *Machine) holdDoubt(a netip.Addr, d doubt) {
	if m.doubts == nil {
		m.doubts = map[netip.Addr]doubt{}
	}
	m.doubts[a] = d
}

// noteLost notes, also on disk, that a list shows what an earlier database of this host must have known: containers that
// this one knew may end yet.
func (m *Machine) noteLost() {
	if !m.lostAt.Equal(m.now) {
		m.lostAt = m.now
		m.saveLost()
	}
}

// noteUnasked is noteLost where a call shows it before a list does: it is about an address of a network that this database
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
	if m.lostAt.IsZero() && m.networks[n.ID()] == nil {
		m.noteLost()
	}
}

// mayOwe reports whether releases may come late. This peer looks at the clock each second then, to notice that it slept.
func (m *Machine) mayOwe() bool { return len(m.doubts) > 0 || !m.lostAt.IsZero() }

// doubtLonger notes that this peer slept: the engine, which slept too or waited for the peer, may send meanwhile what was
// due before.
func (m *Machine) doubtLonger(slept time.Duration) {
	for _, a := range slices.SortedFunc(maps.Keys(m.doubts), netip.Addr.Compare) {
		d := m.doubts[a]
		d.since = d.since.Add(slept)
		m.holdDoubt(a, d)
		m.saveDoubt(a, d.since)
	}
	if !m.lostAt.IsZero() {
		m.lostAt = m.lostAt.Add(slept)
		m.saveLost()
	}
}

// doubtGranted notes that an address is granted soon after a database was lost. The lost one may have had a holder of it
// whose release is yet to come.
func (m *Machine) doubtGranted(p *pool, o addr.Offset) {
	a := addr.Nth(p.CIDR, o)
	if _, known := m.doubts[a]; !known && m.isRecent(m.lostAt) {
		m.setDoubt(a, m.lostAt)
	}
}

// isRecent reports whether a late release may still come of a holder that ended then.
func (m *Machine) isRecent(at time.Time) bool { return m.now.Sub(m.sureSince(at)) < doubtTime }

// isDoubtful reports whether a release of the address frees nothing, since it may be that of an earlier container or of a
// network. The note of it has the engine asked for a list, which tells whether the present holder lives.
func (m *Machine) isDoubtful(p *pool, o addr.Offset, n *Network) bool {
	if !m.cfg.AwaitInventory || m.lacks(ruleDoubt) {
		return false
	}
	a := addr.Nth(p.CIDR, o)
	d, known := m.doubts[a]
	if (!known || !m.isRecent(d.since)) && !m.mayBeNetworks(p, o, n) {
		return false
	}
	if !hasEndpoint(p, o) {
		return true
	}
	d.released = m.stamp()
	m.holdDoubt(a, d)
	forget(p.seen, o) // that the present holder was seen says nothing any more
	return true
}

// mayBeNetworks reports whether a release of an address that a container has may be that of a network which keeps the
// address back, by its options or as the last list tells.
func (m *Machine) mayBeNetworks(p *pool, o addr.Offset, n *Network) bool {
	if !hasEndpoint(p, o) || !m.sighted() {
		return false
	}
	g, shares := gatewayOffset(p.CIDR, n.Gateway, n.GatewayAddr)
	return shares && g == o || p.keeps(o)
}

// mayBeReleased reports whether the release of the present holder may have come, and have freed nothing. A list tells.
func (m *Machine) mayBeReleased(p *pool, o addr.Offset) bool {
	return len(m.doubts) > 0 && m.doubts[addr.Nth(p.CIDR, o)].released > 0 && m.sighted()
}

// forgetReleased notes that the address has another holder, whose release has not come.
func (m *Machine) forgetReleased(p *pool, o addr.Offset) {
	if len(m.doubts) == 0 {
		return
	}
	a := addr.Nth(p.CIDR, o)
	if d, known := m.doubts[a]; known {
		d.released = 0
		m.doubts[a] = d
	}
}

// settleDoubts frees what a list tells to be released, and forgets the doubts that are over.
func (m *Machine) settleDoubts(s *sight) {
	var over, gone []netip.Addr
	for a, d := range m.doubts {
		if d.released > 0 && s.mark.knows(d.released) {
			absent, known := m.absent(a, s)
			if known {
				gone = append(gone, a)
				continue
			}
			if !absent {
				d.released = 0
				m.doubts[a] = d
			}
		}
		if d.released == 0 && !m.isRecent(d.since) {
			over = append(over, a)
		}
	}
	slices.SortFunc(gone, netip.Addr.Compare)
	for _, a := range gone {
		p := m.poolAt(a)
		o, _ := addr.OffsetOf(p.CIDR, a)
		m.freeGone(p, o, s.kept[p])
	}
	if !m.lostAt.IsZero() && !m.isRecent(m.lostAt) {
		m.lostAt = time.Time{}
		m.saveLost()
	}
	slices.SortFunc(over, netip.Addr.Compare)
	for _, a := range over {
		delete(m.doubts, a)
		m.saveDoubt(a, time.Time{})
	}
}

// absent reports whether an address in doubt is held by a container that the list does not have, and whether an earlier
// list had it. A list alone frees no container that none has shown: it may be starting.
func (m *Machine) absent(a netip.Addr, s *sight) (absent, known bool) {
	p := m.poolAt(a)
	if p == nil {
		return false, false
	}
	o, _ := addr.OffsetOf(p.CIDR, a)
	if _, lives := s.seen[p][o]; lives || !hasEndpoint(p, o) {
		return false, false
	}
	shown := p.space.Lookup(o).Ref != "" || m.lacks(ruleShown)
	return true, s.seen[p] != nil && shown && p.space.Usable(o)
}

// hasEndpoint reports whether an address is held by an endpoint of the engine.
func hasEndpoint(p *pool, o addr.Offset) bool {
	kind, held := p.space.Holds(o)
	return held && (kind == space.Container || kind == space.Unmarked)
}
