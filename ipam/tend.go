package ipam

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

const (
	// tendEvery is how often a peer with others looks after its pools.
	tendEvery = time.Second
	// restAfter is for how long nothing has happened, but that others were heard of, when a peer is at rest, and
	// restEvery how often it is to be woken then: to wake costs an idle host more than all that it does when it is
	// awake, and what it waits for is minutes away. Whom others probe is stepped more often by that, and need not be
	// woken at all. By how much it may sleep unnoticed see wake.
	restAfter = time.Minute
	restEvery = 2 * time.Second
	// announceEvery is how often it announces at most what it has to spare.
	announceEvery = 10 * time.Second
	// countEvery is how late a change may be that matters to nobody but who counts.
	countEvery = time.Minute
	// lostAfter is how long a peer must not have been heard of before its
	// successor on the same machine takes it for gone.
	lostAfter = 10 * time.Second
)

// tended reports whether it is not time yet to tend again.
func (m *Machine) tended() bool {
	since := m.now.UnixNano() - m.tendedAt
	return since >= 0 && since < int64(tendEvery)
}

// rests reports whether nothing is under way, and nothing has happened for so long that whatever
// is next is not in a hurry. Where calls wait, some wait for nothing but time.
func (m *Machine) rests() bool {
	return m.now.UnixNano()-m.stirredAt >= int64(restAfter) && m.state.Slot > 0 && !m.unsure && len(m.waiting) == 0 && !m.mayOwe()
}

// stir notes whether the step has been of any consequence: something was written down, said or found. To hear that
// others live is not, nor to be told of the host what is known.
func (m *Machine) stir() {
	if len(m.fx.Save)+len(m.fx.Send)+len(m.fx.Note) > 0 {
		m.stirredAt = m.now.UnixNano()
	}
}

// tend does in the background what keeps this peer ready: it becomes active,
// gives back what it does not need, leaves, takes over from its former self,
// and says what it has to spare.
func (m *Machine) tend() {
	m.sightNew()
	if m.tended() {
		return
	}
	if m.left && m.member() && !m.booting() && m.usable() == nil {
		m.tendedAt = m.now.UnixNano()
		m.background(chronicle.Evict{Peer: m.self}) // an admission that was on its way when it left
	}
	if m.ready() != nil {
		return
	}
	m.tendedAt = m.now.UnixNano()
	m.pruneQuestions()
	m.pruneAnswers()
	if m.raise(); m.ready() != nil {
		return // to propose that it has learned of a slot that evicts it
	}
	m.meetUnlisted()
	m.markUses()
	if m.alone() && !m.draining() && !m.leaving {
		// All is its own, and nobody wants it, but for what is kept back for
		// those that were lost.
		m.setDrained(false)
		m.inherit()
		m.endQuarantine()
		for _, p := range m.sortedPools() {
			m.tendUse(p)
			m.retirePool(p)
		}
		return
	}
	if m.alone() { // there is nobody to leave
		m.stay()
		m.background(chronicle.SetState{Peer: m.self, Phase: chronicle.Active})
	}
	m.grow()
	m.inherit()
	m.reconsider()
	m.evictSilent()
	m.endQuarantine()
	for _, p := range m.sortedPools() {
		m.sightHost(p)
		m.closeKept(p)
		m.closeBehind(p)
		m.tendUse(p)
		m.retirePool(p)
	}
	m.depart()
	m.announce()
}

// grow makes a peer that was admitted active once it has space. One that was draining
// before it was evicted drains on: nobody has undone that.
func (m *Machine) grow() {
	member := m.state.Member(m.self)
	if member.Phase != chronicle.Filling {
		m.setDrained(false)
		return
	}
	settles := func(a chronicle.Action) bool {
		s, ok := a.(chronicle.SetState)
		return ok && s.Peer == m.self
	}
	if m.isUnderWay(settles) {
		return // it may be to drain
	}
	if m.drained {
		m.background(chronicle.SetState{Peer: m.self, Phase: chronicle.Draining})
		return
	}
	for _, p := range m.pools {
		if len(p.mine) > 0 {
			m.background(chronicle.SetState{Peer: m.self, Phase: chronicle.Active})
			return
		}
	}
}

// closeBehind gives back space that this peer has not needed for a while:
// ranges without held or resting addresses, beyond what it was dealt and a
// chunk of stock (protocol, 3.4). A peer that drains keeps nothing.
func (m *Machine) closeBehind(p *pool) {
	keep := addr.Count(0)
	if m.draining() {
		m.dropUnused(p)
	} else {
		keep = m.share(p) + m.chunk(p)
	}
	spare := p.space.Spare()
	if spare <= keep {
		p.spareSince = time.Time{}
		return
	}
	if !m.draining() {
		if p.spareSince.IsZero() {
			p.spareSince = m.now
		}
		if m.now.Sub(p.spareSince) < max(m.cfg.Rest, tendEvery) {
			return
		}
	}
	excess := spare - keep
	var actions []chronicle.Action
	for r := range p.space.Idle(m.now, m.cfg.Rest) {
		if excess == 0 || len(actions) == maxSubmit {
			break
		}
		if r.Size() > excess {
			r = r.LargestBlock(excess)
		}
		if r.Empty() {
			continue
		}
		excess -= r.Size()
		actions = append(actions, chronicle.Close{Pool: p.Key, Range: r})
	}
	m.background(actions...)
}

// dropUnused gives back what this host itself has in a pool without networks.
func (m *Machine) dropUnused(p *pool) {
	if m.uses(p) {
		return
	}
	var own []addr.Range
	for o, kind := range p.space.Kinds() {
		if ofHost(kind) && p.space.Mine(o) && !m.closing(p, addr.One(o)) {
			own = append(own, addr.One(o))
		}
	}
	m.closeHost(p, own)
}

// share returns how much of a pool is dealt to each peer.
func (m *Machine) share(p *pool) addr.Count {
	size := p.Ring.Size() / addr.Count(max(m.inRoster().dealt, 1))
	switch m.cfg.Deal {
	case chronicle.DealAll:
		return size
	case chronicle.DealNone:
		return 0
	case chronicle.DealHalf:
	}
	return size / 2
}

// unusedAfter is how long a pool must not have been used by anybody before it
// is removed.
const unusedAfter = time.Minute

// retirePool gives up a pool whose subnet was chosen and on which this host
// has no network any more, and removes it when nobody owns a part of it.
func (m *Machine) retirePool(p *pool) {
	facts := m.factsOf(p)
	if !facts.chosen {
		return
	}
	if !facts.passing || m.uses(p) {
		p.unusedSince = time.Time{}
		return
	}
	if p.unusedSince.IsZero() {
		p.unusedSince = m.now
	}
	if m.now.Sub(p.unusedSince) < unusedAfter {
		return
	}
	if len(p.mine) > 0 {
		m.closeAll(p)
		return
	}
	if len(p.parties()) > 0 {
		return
	}
	if live := m.liveVoters(); len(live) > 0 && live[0] == m.self {
		m.background(chronicle.DeletePool{Pool: p.Key})
	}
}

// depart takes a peer that is to leave out of the roster: by force at once,
// else when it owns nothing.
func (m *Machine) depart() {
	switch {
	case !m.leaving:
		return
	case m.alone():
		m.stay() // there is nobody to leave
		return
	case m.forced:
		m.background(chronicle.Evict{Peer: m.self})
		return
	case !m.draining():
		m.background(chronicle.SetState{Peer: m.self, Phase: chronicle.Draining})
		return
	}
	for _, p := range m.pools {
		if len(p.mine) > 0 || p.UsedBy(m.self) {
			return
		}
	}
	m.background(chronicle.Retire{Peer: m.self})
}

// inherit takes over the space of a former self of this peer: one of the same
// machine that has lost its database, and is heard of no more (protocol, 6.7).
func (m *Machine) inherit() {
	if m.machine() == 0 {
		return
	}
	for _, member := range m.state.Roster {
		if member.ID != m.self && m.isFormerSelf(member.ID, member.Machine) {
			m.background(chronicle.Evict{Peer: member.ID})
			return
		}
	}
	for _, gone := range m.state.Former {
		if !gone.Forgotten && m.isFormerSelf(gone.ID, gone.Machine) {
			m.background(chronicle.Inherit{Former: gone.ID})
			return
		}
	}
}

// isFormerSelf reports whether a peer was of this machine and has not been
// heard of for long enough.
func (m *Machine) isFormerSelf(id peer.ID, machine uint64) bool {
	return machine == m.machine() && !m.present(id) && !m.livedBeside(id) && m.now.Sub(m.joinedAt) >= lostAfter && m.silentFor(id) >= lostAfter
}

// livedBeside reports whether this peer, in this start or an earlier one, has heard from another one. Then that is no
// former self, which is silent since before this peer was there, but a host of which the firmware or the system says
// the same, as of one that was cloned, under the same name: it may be cut off, and its containers live.
func (m *Machine) livedBeside(id peer.ID) bool {
	c := m.contacts[id]
	return c != nil && c.start.boot != 0
}

// isPredecessor reports whether a peer was probably this one before it lost
// its database: one of the same machine that cannot be reached, and was not
// given up.
func (m *Machine) isPredecessor(id peer.ID) bool {
	machine := m.machine()
	if machine == 0 || id == m.self || m.present(id) || m.livedBeside(id) {
		return false
	}
	if member := m.state.Member(id); member != nil {
		return member.Machine == machine
	}
	gone := m.state.Gone(id)
	return gone != nil && !gone.Forgotten && gone.Machine == machine
}

// machine returns what tells this peer's machine from others, as the cluster was told when
// it admitted this peer: the host may have another name since, and what is taken over goes
// by what the cluster knows.
func (m *Machine) machine() uint64 {
	if member := m.me(); member != nil {
		return member.Machine
	}
	return m.cfg.Machine
}

// settledIn reports whether there is no former self left that this peer has
// yet to take over from.
func (m *Machine) settledIn() bool {
	return !slices.ContainsFunc(m.state.Roster, func(member chronicle.Member) bool { return m.isPredecessor(member.ID) }) &&
		!slices.ContainsFunc(m.state.Former, func(gone chronicle.Gone) bool { return m.isPredecessor(gone.ID) })
}

// silentFor returns how long a peer has not been heard of, counted from this
// peer's own start at most.
func (m *Machine) silentFor(id peer.ID) time.Duration {
	since := m.startedAt
	if c := m.contacts[id]; c != nil {
		if c.heard.After(since) {
			since = c.heard
		}
		if c.since.After(since) {
			since = c.since
		}
		if c.joined.After(since) {
			since = c.joined
		}
	}
	return m.now.Sub(since)
}

// evictSilent has a peer evicted of which a voter has had no sign for the
// lease time (protocol, 4.1). The lowest live voter begins.
func (m *Machine) evictSilent() {
	if m.cfg.EvictAfter <= 0 {
		return
	}
	live := m.liveVoters()
	if len(live) == 0 || live[0] != m.self || !m.majority(live) {
		return
	}
	for _, member := range m.state.Roster {
		if member.ID != m.self && !m.live(member.ID) && m.silentFor(member.ID) >= m.cfg.EvictAfter && m.keepsMajority(member.ID) {
			m.background(chronicle.Evict{Peer: member.ID})
			return
		}
	}
}

// announce tells the others how much this peer has to spare, when that has
// changed a good deal, or when somebody was refused and there is something now; and any
// other change after a while, since by it they count what is held.
func (m *Machine) announce() {
	due := m.now.Sub(m.announcedAt) >= announceEvery || m.now.Before(m.announcedAt)
	if !due && len(m.begged) == 0 {
		return
	}
	var v wire.Announce
	for _, p := range m.sortedPools() {
		now := wire.Spare{Pool: p.Key, Free: p.space.Spare(), Resting: p.space.Resting(m.now, m.cfg.Rest)}
		wanted := m.begged[p.Key] && now.Free > 0
		if !wanted && (!due || p.toldOnce && !changedMuch(p.announced, now) && !m.countsDiffer(p, now)) {
			continue
		}
		delete(m.begged, p.Key)
		p.announced, p.announcedAt, p.toldOnce = now, m.now, true
		if v.Pools = append(v.Pools, now); len(v.Pools) == maxAnnounce {
			break
		}
	}
	if due {
		m.announcedAt = m.now
	}
	if len(v.Pools) > 0 {
		m.send(peer.None, v)
	}
}

// countsDiffer reports whether others have counted what is held in a pool wrongly for long
// enough.
func (m *Machine) countsDiffer(p *pool, now wire.Spare) bool {
	return p.announced != now && (m.now.Sub(p.announcedAt) >= countEvery || m.now.Before(p.announcedAt))
}

// changedMuch reports whether others should hear of a change: always while
// little is left, else when it is an eighth.
func changedMuch(was, is wire.Spare) bool {
	const little = 256
	if min(was.Free, is.Free) < little {
		return was != is
	}
	most, least := max(was.Free, is.Free), min(was.Free, is.Free)
	return most-least >= most/8 // (most-least)*8 may be too much for IPv6
}

// tellSpare tells a peer that has started anew what was announced before.
func (m *Machine) tellSpare(to peer.ID) {
	var all []wire.Spare
	for _, p := range m.sortedPools() {
		if p.toldOnce {
			all = append(all, p.announced)
		}
	}
	for pools := range slices.Chunk(all, maxAnnounce) {
		m.send(to, wire.Announce{Pools: pools})
	}
}

// maxAnnounce is how many pools fit into one broadcast.
const maxAnnounce = 60
