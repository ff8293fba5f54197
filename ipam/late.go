package ipam

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

// lateRelease is how long after the holder of an address was found to be gone its release
// may come yet. The engine has taken it off its lists before, waits for the network driver,
// however long that takes, and tries for 15 seconds where the plugin is away.
const lateRelease = 10 * time.Minute

// countless stands for a number of holders of which nothing is known.
const countless = 1 << 20

// owing is what is known of an address whose holders ended without a release. An engine
// brings one for each of them, once or never, and keeps nobody from asking for the address
// meanwhile: whose a release is that comes nobody can say.
type owing struct {
	at time.Time // the last of them ended
	n  int       // releases that may come yet
	// doubted is when a release came that was taken for that of one of them, and may have been
	// that of whoever has the address now. Lists that were begun later tell.
	doubted uint64
}

// setOwed takes note of what an address is owed, also on disk.
func (m *Machine) setOwed(a netip.Addr, w owing) {
	m.holdOwed(a, w)
	m.saveOwed(a, &w)
}

// holdOwed is setOwed for what is on disk, or need not be.
func (m *Machine) holdOwed(a netip.Addr, w owing) {
	if m.owed == nil {
		m.owed = map[netip.Addr]owing{}
	}
	m.owed[a] = w
}

// owe takes note that the holder of an address ends without a release. Where no list ever
// comes, nobody would tell whose one was that comes later.
func (m *Machine) owe(p *pool, o addr.Offset) {
	if !m.cfg.AwaitInventory {
		return
	}
	a := addr.Nth(p.CIDR, o)
	w := owing{at: m.now, n: 1}
	if before := m.owed[a]; m.owes(before) {
		w.n += before.n
	}
	m.setOwed(a, w)
}

// noteLost takes note that a list shows what an earlier database of this host must have known,
// also on disk: what else that one knew may end yet.
func (m *Machine) noteLost() {
	if !m.lostAt.Equal(m.now) {
		m.lostAt = m.now
		m.saveLost()
	}
}

// noteUnasked is noteLost where a call tells it before a list does: it is about an address of a
// network that this database was never asked for, and the engine asks for networks first. A list may
// have no more networks than were asked for meanwhile.
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

// mayOwe reports whether releases may come late. This peer looks at the clock each second then, to
// notice that it has slept.
func (m *Machine) mayOwe() bool { return len(m.owed) > 0 || !m.lostAt.IsZero() }

// oweLonger takes note that this peer has slept that long: the engine, which slept, too, or waited
// for it, may bring meanwhile what it owed before.
func (m *Machine) oweLonger(slept time.Duration) {
	for _, a := range slices.SortedFunc(maps.Keys(m.owed), netip.Addr.Compare) {
		w := m.owed[a]
		w.at = w.at.Add(slept)
		m.setOwed(a, w)
	}
	if !m.lostAt.IsZero() {
		m.lostAt = m.lostAt.Add(slept)
		m.saveLost()
	}
}

// oweUnknown takes note that an address is granted above a new database. The one that was lost
// may have had a holder of it whose release may come yet.
func (m *Machine) oweUnknown(p *pool, o addr.Offset) {
	a, w := addr.Nth(p.CIDR, o), owing{at: m.lostAt, n: countless}
	if _, known := m.owed[a]; !known && m.owes(w) {
		m.setOwed(a, w)
	}
}

// owes reports whether a release may come late.
func (m *Machine) owes(w owing) bool { return w.n > 0 && m.now.Sub(m.sureSince(w.at)) < lateRelease }

// isLate reports whether a release of the address may be that of a container which had it
// before whoever has it now, if anybody has.
func (m *Machine) isLate(p *pool, o addr.Offset) bool {
	return len(m.owed) > 0 && m.cfg.AwaitInventory && m.doubtOwed(p, o) // lists came when it was written down
}

// doubtOwed is isLate where some address is owed a release: the compiler has what is in most calls inline.
func (m *Machine) doubtOwed(p *pool, o addr.Offset) bool {
	a := addr.Nth(p.CIDR, o)
	w := m.owed[a]
	if !m.owes(w) {
		return false
	}
	if w.n < countless {
		w.n--
	}
	if hasEndpoint(p, o) {
		w.doubted = m.stamp()
		forget(p.seen, o) // that the one which has it now was seen says nothing any more
	}
	m.setOwed(a, w) // at is the last one's: of which of them this was nobody knows
	return true
}

// mayBeNetworks reports whether a release of an address that an endpoint has may be that of a network of this
// host, which keeps it back, too, by its options, or as the last list told: the endpoint may have got it while this
// host was given up.
func (m *Machine) mayBeNetworks(p *pool, o addr.Offset, n *Network) bool {
	return (len(p.kept) > 0 || n.Gateway != GatewayHost) && m.doubtKept(p, o, n)
}

// doubtKept is mayBeNetworks where some address may be kept back.
func (m *Machine) doubtKept(p *pool, o addr.Offset, n *Network) bool {
	g, shares := gatewayOffset(p.CIDR, n.Gateway, n.GatewayAddr)
	keeps := shares && g == o
	if p.keeps(o) && !keeps {
		// Who got it after the last network that was listed went has it from nobody.
		keeps = p.partings < p.listed || p.space.Lookup(o).Seq <= p.parted.serial || m.inventory.knows(p.parted.serial)
	}
	if !keeps || !m.sighted() {
		return false
	}
	a := addr.Nth(p.CIDR, o)
	m.holdOwed(a, owing{at: m.now, doubted: m.stamp()}) // nothing is owed, or it would be late
	forget(p.seen, o)
	return true
}

// oweKept takes note that a pool goes which networks of this host are on, as it was given up: what they keep back
// may be had by others before a list tells of it, and they bring its release whenever they go.
func (m *Machine) oweKept(p *pool) {
	for range m.networksOf(p) { // each may keep back the same
		for _, r := range p.Reserved {
			if sharesReservation(&r) {
				m.owe(p, r.Range.Start)
			}
		}
		if p.hasGateway {
			m.owe(p, p.gateway)
		}
	}
}

// mayBeReleased reports whether the release of whoever holds the address at o may have been
// taken for that of a container which had it before. A list can tell.
func (m *Machine) mayBeReleased(p *pool, o addr.Offset) bool {
	return len(m.owed) > 0 && m.owed[addr.Nth(p.CIDR, o)].doubted > 0 && m.sighted()
}

// doubtNobody takes note that the address has a holder whose release has not come.
func (m *Machine) doubtNobody(p *pool, o addr.Offset) {
	if len(m.owed) == 0 {
		return
	}
	a := addr.Nth(p.CIDR, o)
	if w, known := m.owed[a]; known {
		w.doubted = 0
		m.owed[a] = w
	}
}

// settleOwed takes note of what a list tells of releases that were doubted, and forgets
// those that come no more.
func (m *Machine) settleOwed(s *sight) {
	var over, gone []netip.Addr
	for a, w := range m.owed {
		if w.doubted > 0 && s.mark.knows(w.doubted) {
			absent, known := m.absent(a, s)
			if known {
				gone = append(gone, a)
				continue
			}
			if !absent {
				w.doubted = 0
				m.owed[a] = w
			}
		}
		if w.doubted == 0 && m.now.Sub(m.sureSince(w.at)) >= lateRelease {
			over = append(over, a)
		}
	}
	slices.SortFunc(gone, netip.Addr.Compare)
	for _, a := range gone {
		p := m.poolAt(a)
		o, _ := addr.OffsetOf(p.CIDR, a)
		m.freeGone(p, o, s.kept[p])
	}
	if !m.lostAt.IsZero() && m.now.Sub(m.sureSince(m.lostAt)) >= lateRelease {
		m.lostAt = time.Time{}
		m.saveLost()
	}
	slices.SortFunc(over, netip.Addr.Compare)
	for _, a := range over {
		delete(m.owed, a)
		m.saveOwed(a, &owing{})
	}
}

// absent reports whether a doubted address is held by an endpoint that the list does not have, and whether
// that one was listed before: the release was its own, or that is yet to come.
func (m *Machine) absent(a netip.Addr, s *sight) (absent, known bool) {
	p := m.poolAt(a)
	if p == nil {
		return false, false
	}
	o, _ := addr.OffsetOf(p.CIDR, a)
	if _, lives := s.seen[p][o]; lives || !hasEndpoint(p, o) {
		return false, false
	}
	return true, s.seen[p] != nil && p.space.Lookup(o).Ref != "" && p.space.Usable(o)
}

// hasEndpoint reports whether an address is held by an endpoint of the engine.
func hasEndpoint(p *pool, o addr.Offset) bool {
	kind, held := p.space.Holds(o)
	return held && (kind == space.Container || kind == space.Unmarked)
}
