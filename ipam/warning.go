package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A host whose space was given up may come back with its containers. What they use may be
// anybody's by then. So its peer warns every peer that it reaches of these addresses (wire.InUse),
// at once and again each minute, until it has started over and has them again, or the containers
// are gone. Whoever is warned hands none of them out for ten minutes: it holds those in its ranges
// as it holds the address of a device that answered a probe, also in ranges that it opens later. It
// takes none from a holder that has one: that is a conflict, and reported.
//
// A peer that starts over warns itself and the others of what its former self has left
// (Config.Remains), until it has taken that in.

const (
	// warnEvery is how often a warning is repeated.
	warnEvery = time.Minute
	// warnTime is for how long it is heeded.
	warnTime = 10 * time.Minute
	// warnedBy and warnedAll limit of how many addresses one peer can warn, and all together: a
	// host has far fewer containers.
	warnedBy  = 4096
	warnedAll = 16384
)

// warning says that an address is in use on the host of a peer that does not own it.
type warning struct {
	by    peer.ID
	until time.Time
}

// takeInUse takes in the warning of another peer. One that is not of this cluster, and never
// was, has nothing here; one that this peer does not know to be given up yet owns what it warns of.
func (m *Machine) takeInUse(from peer.ID, q wire.InUse) {
	if m.state.Member(from) == nil && m.state.Gone(from) == nil || m.lacks(ruleWarn) {
		return
	}
	if q.All {
		m.endOthers(from, q.Addresses)
	}
	for _, a := range q.Addresses {
		m.warn(a, from)
	}
	m.noteWarned()
}

// warn takes note, also on disk, that an address is in use on the host of that peer.
func (m *Machine) warn(a netip.Addr, by peer.ID) {
	w, known := m.warnings[a]
	if !known && by != m.self && (len(m.warnings) >= warnedAll || m.warnedBy[by] >= warnedBy) {
		return
	}
	if !known || w.by != by {
		m.putWarning(a, by)
		m.out.Put(bucketWarning, string(a.AsSlice()), append([]byte{formatRecord}, by[:]...))
		m.changed = true
	}
	m.keepWarning(a, m.now.Add(warnTime))
	if p := m.poolAt(a); p != nil {
		o, _ := addr.OffsetOf(p.CIDR, a)
		m.holdWarned(p, addr.One(o))
	}
}

// endOthers ends the warnings of a peer that it does not repeat.
func (m *Machine) endOthers(by peer.ID, still []netip.Addr) {
	if m.warnedBy[by] > 0 {
		m.dropWarnings(func(a netip.Addr, w warning) bool { return w.by == by && !slices.Contains(still, a) })
	}
}

// putWarning is warn for what is on disk.
func (m *Machine) putWarning(a netip.Addr, by peer.ID) {
	if m.warnings == nil {
		m.warnings, m.warnedBy = map[netip.Addr]warning{}, map[peer.ID]int{}
	}
	if w, known := m.warnings[a]; known {
		m.warnedBy[w.by]--
	}
	m.warnings[a] = warning{by: by}
	m.warnedBy[by]++
}

// keepWarning heeds a warning up to then.
func (m *Machine) keepWarning(a netip.Addr, until time.Time) {
	w := m.warnings[a]
	w.until = until
	m.warnings[a] = w
	if m.warned.IsZero() || until.Before(m.warned) {
		m.warned = until
	}
}

// warnAgain heeds all warnings for the full time from now on, or only those of one peer: after a
// start, and once this peer is in its cluster.
func (m *Machine) warnAgain(which func(peer.ID) bool) {
	for a, w := range m.warnings { // the same with all, in any order
		if which(w.by) {
			m.keepWarning(a, m.now.Add(warnTime))
		}
	}
}

// warnLonger heeds all warnings for as much longer as this peer has slept: who repeats them was not heard.
func (m *Machine) warnLonger(slept time.Duration) {
	m.warned = time.Time{}
	for a, w := range m.warnings { // the same with all, in any order
		m.keepWarning(a, w.until.Add(slept))
	}
}

// endWarnings ends those that nobody has repeated. What a client of this host has yet to claim again stays, and so does what
// containers of this host had before it started over, where no list comes: the engine's release ends that, or an operator.
func (m *Machine) endWarnings() {
	if m.now.Before(m.warned) {
		return
	}
	m.warned = time.Time{}
	m.dropWarnings(func(a netip.Addr, w warning) bool {
		switch {
		case m.now.Before(w.until):
			m.keepWarning(a, w.until)
		case w.by == m.self && (m.isUnclaimed(a) || !m.cfg.AwaitInventory): // no list will tell that its container is gone
			m.keepWarning(a, m.now.Add(warnTime))
		default:
			return true
		}
		return false
	})
}

// dropWarnings ends the warnings that are over, in order of their addresses.
func (m *Machine) dropWarnings(over func(netip.Addr, warning) bool) {
	var ends []netip.Addr
	for a, w := range m.warnings {
		if over(a, w) {
			ends = append(ends, a)
		}
	}
	slices.SortFunc(ends, netip.Addr.Compare)
	for _, a := range ends {
		m.dropWarning(a)
	}
}

// endOwnWarning ends the warning of this peer itself, if there is one, and reports whether there was: the engine has released the
// address, or an operator frees it, so what used it before this peer rejoined has ended.
func (m *Machine) endOwnWarning(a netip.Addr) bool {
	own := m.warnings[a].by == m.self
	if own {
		m.dropWarning(a)
	}
	return own
}

// dropWarning ends a warning, and frees what is held because of it.
func (m *Machine) dropWarning(a netip.Addr) {
	w, known := m.warnings[a]
	if !known {
		return
	}
	delete(m.warnings, a)
	if m.warnedBy[w.by]--; m.warnedBy[w.by] == 0 {
		delete(m.warnedBy, w.by)
	}
	m.out.Delete(bucketWarning, string(a.AsSlice()))
	m.changed = true
	if p := m.poolAt(a); p != nil {
		o, _ := addr.OffsetOf(p.CIDR, a)
		if isWarned(p.space.Lookup(o)) {
			m.freeHolding(p, o)
		}
		m.settleWarned(conflict{pool: p.Key, at: o})
	}
}

// dismissWarned ends the warning of an address that its user has again.
func (m *Machine) dismissWarned(p *pool, o addr.Offset) {
	if len(m.warnings) > 0 {
		m.dropWarning(addr.Nth(p.CIDR, o))
	}
}

// isWarned reports whether an address is held because of a warning: a device has a MAC.
func isWarned(rec space.Record) bool {
	return rec.State == space.Held && rec.Kind == space.Stranger && rec.MAC == [6]byte{}
}

// holdWarned holds what others were warned of in a range of this peer, unless somebody has it.
func (m *Machine) holdWarned(p *pool, r addr.Range) {
	if len(m.warnings) == 0 || m.boot == 0 { // the first step holds what a database has
		return
	}
	for _, a := range m.warnedIn(p, r) {
		o, _ := addr.OffsetOf(p.CIDR, a)
		if !holdable(p.ReservationAt(o)) {
			continue
		}
		p.wakeKept(o, m.now)
		h := space.Holder{Kind: space.Stranger}
		if g, out := p.space.Claim(o, &h, m.now, nil); out == space.Taken {
			m.saveGrant(p, &g, &h)
			rec := p.space.Lookup(o)
			m.note(Note{Kind: NoteStranger, Pool: p.CIDR, Address: a, Holder: m.warnedText(a), Use: useOf(&rec)})
		}
	}
}

// warnedIn returns the addresses of a range that others were warned of, in order.
func (m *Machine) warnedIn(p *pool, r addr.Range) (out []netip.Addr) {
	if r.Size() == 1 {
		if a := addr.Nth(p.CIDR, r.Start); m.isInUse(a) {
			out = append(out, a)
		}
		return out
	}
	for a := range m.warnings {
		if o, ok := addr.OffsetOf(p.CIDR, a); ok && r.Contains(o) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// isInUse reports whether a peer warns of the address.
func (m *Machine) isInUse(a netip.Addr) bool {
	_, warned := m.warnings[a]
	return warned
}

// inUseElsewhere reports whether another peer warns of the address.
func (m *Machine) inUseElsewhere(a netip.Addr) bool {
	w, warned := m.warnings[a]
	return warned && w.by != m.self
}

// warnedText says who uses an address of which a peer warns.
func (m *Machine) warnedText(a netip.Addr) string {
	w := m.warnings[a]
	if w.by == m.self {
		return "a container or client of " + string(m.cfg.Name) + " from before it started over"
	}
	return "a container or client on " + m.nameOf(w.by) + ", whose addresses were released with ringlet forget"
}

// noteWarned reports what holders here have although a peer warns of it, as long as it does.
func (m *Machine) noteWarned() {
	if len(m.warnings) == 0 {
		return
	}
	for _, p := range m.sortedPools() {
		for _, a := range m.warnedIn(p, addr.Whole(p.CIDR)) {
			o, _ := addr.OffsetOf(p.CIDR, a)
			rec := p.space.Lookup(o)
			if !m.inUseElsewhere(a) || rec.State != space.Held || rec.Kind == space.Stranger || rec.Kind == space.Kept {
				continue
			}
			d := m.disputeOf(a, rec.Holder, rec.Since, "also by "+m.warnedText(a))
			d.warned = true
			m.disagree(p, o, d)
		}
	}
}

// settleWarned ends the conflict that a warning has made.
func (m *Machine) settleWarned(k conflict) {
	for _, all := range []map[conflict]dispute{m.conflicts, m.disputed} {
		if all[k].warned {
			delete(all, k)
		}
	}
}

// toWarnOf returns the addresses of which this peer warns the others.
func (m *Machine) toWarnOf() (out []netip.Addr) {
	if m.suspended.reason == givenUp {
		return m.usedHere()
	}
	if m.isSuspended() || m.warnedBy[m.self] == 0 {
		return nil
	}
	for a, w := range m.warnings {
		if w.by == m.self {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// warnOthers warns all peers that this one reaches, when it is time.
func (m *Machine) warnOthers() {
	if !m.warns() {
		return
	}
	if since := m.now.Sub(m.warnedAt); since >= 0 && since < warnEvery && !m.warnedAt.IsZero() {
		return
	}
	m.warnedAt = m.now
	for _, id := range m.known() {
		m.warnPeer(id)
	}
}

// warns reports whether this peer has to warn others.
func (m *Machine) warns() bool {
	return m.suspended.reason == givenUp || !m.isSuspended() && m.warnedBy[m.self] > 0 && m.member()
}

// warnPeer warns one peer, if it can be reached.
func (m *Machine) warnPeer(to peer.ID) {
	if to == m.self || !m.warns() || !m.live(to) {
		return
	}
	all := m.toWarnOf()
	if len(all) <= wire.MaxInUse {
		m.send(to, wire.InUse{Addresses: all, All: true})
		return
	}
	for part := range slices.Chunk(all, wire.MaxInUse) {
		m.send(to, wire.InUse{Addresses: part})
	}
}

// isUnclaimed reports whether a client of the former peer of this host has yet to claim the address again.
func (m *Machine) isUnclaimed(a netip.Addr) bool {
	return slices.ContainsFunc(m.unclaimed, func(c ClientRequest) bool { return c.Address == a })
}

// mayClaim reports why an address of which a peer warns is refused, if it is: only who has it may claim it.
func (m *Machine) mayClaim(p *pool, a netip.Addr, h *space.Holder) error {
	if !m.isInUse(a) {
		return nil
	}
	isIts := func(c ClientRequest) bool { return c.Address == a && c.ID == h.Ref }
	if h.Kind == space.Client && slices.ContainsFunc(m.unclaimed, isIts) {
		return nil
	}
	return m.errWarned(p, a)
}

// errWarned refuses an address of which a peer warns.
func (m *Machine) errWarned(p *pool, a netip.Addr) error {
	next := "choose another address; if that host stays, run ringlet rejoin on it"
	if !m.inUseElsewhere(a) {
		next = "choose another address, or try again in ten minutes"
		if !m.cfg.AwaitInventory {
			next = fmt.Sprintf("choose another address; if nothing uses it, run ringlet release %v on this host", a)
		}
	}
	return failf(ErrAddressInUse, "address %v in %s is in use by %s: %s", a, poolText(p.Pool), m.warnedText(a), next)
}

// parseWarning reads whom a warning comes from.
func parseWarning(key, value []byte) (a netip.Addr, by peer.ID, err error) {
	a, ok := netip.AddrFromSlice(key)
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord || !ok {
		r.Fail("format of a warning")
	}
	by = r.ID("peer that warns")
	return a, by, r.Done()
}
