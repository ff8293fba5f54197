package ipam

import (
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// bootCheck is the time after a start in which a peer neither votes nor hands
// out, because its database may be a copy, or older than what the others know
// (protocol, 6.6). Silence of the others is no answer: nothing tells a process that
// starts anew how long the host, or the process before it, was suspended or off, and
// whether the others have given up its space meanwhile.
type bootCheck struct {
	until    time.Time
	question uint64             // by which answers to it are known: others may lie in the sockets of a host that was suspended
	answered map[peer.ID]uint64 // up to which slot each may know what was decided; this peer counts, too
	helloAt  time.Time
}

// helloEvery is how often a peer says hello while it waits for answers.
const helloEvery = 500 * time.Millisecond

// booting reports whether the boot check is under way.
func (m *Machine) booting() bool { return m.check != nil }

// bootWait is how long a peer waits for a majority after a start. What queued in its socket
// while it started is answered within CallTime, and must not fail just before the wait ends.
func (m *Machine) bootWait() time.Duration {
	return max(m.cfg.CallTime-2*time.Second, m.cfg.CallTime/2)
}

// beginCheck begins the boot check of a peer that is not alone.
func (m *Machine) beginCheck() {
	if m.state.Slot == 0 || m.alone() {
		return
	}
	m.check = &bootCheck{until: m.now.Add(m.bootWait()), question: m.cfg.Rand.Uint64(), answered: map[peer.ID]uint64{}}
	m.greetPeers()
}

// slumber is how far a clock is ahead at least of where it would be before the host is taken for one
// that was suspended; at rest, of where it would be had it been woken after tendEvery. In less nobody
// can be evicted and forgotten: who was heard of so lately is there.
const slumber = reachTime

// watch is how a peer that no alarm wakes soon notices that its process was frozen: for as long as the engine may wait for
// what it was granted, it wants to be woken.
type watch struct {
	left  int       // how often still
	until time.Time // next; nanos is the same in nanoseconds since 1970, and 0 if it does not
	nanos int64
}

const (
	watchEvery = slumber
	// watches are how many of them pass before no engine waits any more.
	watches = 4
)

// watchIf begins a watch, anew, where something was granted. A host that has left has nobody to ask behind a freeze.
func (m *Machine) watchIf(granted bool) {
	if granted && !m.left {
		m.watch.left = watches
	}
}

// keepWatch has the machine woken behind what it granted, unless it is soon anyway.
func (m *Machine) keepWatch() {
	w := &m.watch
	switch {
	case !m.due.IsZero() && m.due.Sub(m.now) < watchEvery:
		w.nanos = 0
		return
	case w.nanos == 0, m.now.UnixNano() >= w.nanos:
		if w.left--; w.left < 0 {
			*w = watch{}
			return
		}
		w.until = m.now.Add(watchEvery)
		w.nanos = w.until.UnixNano()
	}
	m.out.WakeAt(w.until)
}

// late returns by how much this step comes later than the last one wished; not positive if it does not.
func (m *Machine) late() (late time.Duration) {
	if m.watch.nanos != 0 {
		late = time.Duration(m.now.UnixNano() - m.watch.nanos)
	}
	if !m.due.IsZero() {
		late = max(late, m.now.Sub(m.due))
	}
	return late
}

// thaw has this peer go on after its process was frozen for that long, and its clocks were not. What it had granted
// the engine may hear only now, and begin to use: it is no older than that.
func (m *Machine) thaw(late time.Duration) {
	m.ageAnew(0)
	young := m.now.Add(-late - makeTime)
	for _, n := range m.networks { // the same with all, in any order
		if n.asked.at.After(young) && n.asked.serial > 0 {
			n.asked.at = n.asked.at.Add(late)
		}
	}
	if m.replaying && m.greeted.at.After(young) {
		m.greeted.at = m.greeted.at.Add(late)
	}
	m.awaken(late)
}

// awaken has a peer ask the others for news, as after a start, whose host seems to have been
// suspended: they may have evicted it meanwhile, and given up its space.
func (m *Machine) awaken(ahead time.Duration) {
	m.doubtLonger(ahead)
	m.warnLonger(ahead)
	if m.lacks(ruleAwake) {
		return
	}
	m.check = nil // what was answered before says nothing of the time since
	m.beginCheck()
}

// greetPeers says hello to all that this peer knows.
func (m *Machine) greetPeers() {
	if m.check != nil {
		m.check.helloAt = m.now
	}
	m.helloAt = m.now
	for _, id := range m.known() {
		// Who has just said who it is need not be asked again while a cluster
		// is looked for, only for the answer to a boot check.
		if c := m.contacts[id]; m.check == nil && c != nil && !c.met.IsZero() && m.now.Sub(c.met) < reachTime {
			continue
		}
		if m.check != nil {
			if _, answered := m.check.answered[id]; answered {
				continue
			}
		}
		m.greetPeer(id)
	}
}

// greetPeer says hello to one peer.
func (m *Machine) greetPeer(id peer.ID) {
	question := uint64(0)
	if m.check != nil {
		question = m.check.question
	}
	m.greetWith(id, question)
}

// greetWith says hello to one peer, with a question that the answer repeats.
func (m *Machine) greetWith(id peer.ID, question uint64) {
	m.send(id, wire.Hello{
		Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.formation(), Observer: m.cfg.Formation.Observer,
		Listing: m.listingHere(), Spoken: m.cfg.Spoken, Question: question,
	})
}

// known returns all other peers that this peer knows of, in order of their
// IDs.
func (m *Machine) known() []peer.ID {
	seen := map[peer.ID]bool{m.self: true}
	var out []peer.ID
	add := func(id peer.ID) {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	for _, member := range m.state.Roster {
		add(member.ID)
	}
	for id := range m.contacts {
		add(id)
	}
	slices.SortFunc(out, peer.ID.Compare)
	return out
}

// welcome answers a hello, from what is on disk. Where that is known to be wrong, the answer says
// of nobody's start that it is known.
func (m *Machine) welcome(to peer.ID, question uint64) {
	undecided := m.undecided()
	m.completes = m.completes || undecided // it cannot go on before that
	known := m.contact(to).start
	if m.isSuspended() || m.broken != nil {
		known = start{}
	}
	if m.left && !m.member() {
		question = 0 // a device may have sent its Join of before it left again, and this would have it admitted (R63)
	}
	m.send(to, wire.Welcome{
		Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.formation(), Observer: m.cfg.Formation.Observer,
		Listing: m.listingHere(), Undecided: undecided, Spoken: m.cfg.Spoken, Question: question, Boot: known.boot, Nonce: known.nonce,
	})
}

// undecided reports whether this peer has accepted a change of the roster in the slot
// that is next. That may be decided although it does not know, and those who decide the
// slots behind it need not be of the present roster: they may have evicted a peer, and
// given up its space, of which neither it nor a majority that it knows has heard.
func (m *Machine) undecided() bool {
	return m.accepted(func(a chronicle.Action) bool {
		switch a.(type) {
		case chronicle.Admit, chronicle.Evict, chronicle.Retire:
			return true
		}
		return false
	})
}

// accepted reports whether this peer has accepted such an action in the slot that is next, which may be decided
// although nobody asks for it any more, as what was asked of a process that ended. It may be one that cannot be read.
func (m *Machine) accepted(such func(chronicle.Action) bool) bool {
	if len(m.acceptor.Value) == 0 {
		return false
	}
	batch, err := chronicle.DecodeBatch(m.acceptor.Value)
	return err != nil || slices.ContainsFunc(batch, func(c chronicle.Command) bool { return such(c.Action) })
}

// takeWelcome counts an answer to this peer's hello.
func (m *Machine) takeWelcome(f *wire.Frame, w wire.Welcome) {
	m.takeCopied(f.From, wire.Copied{Boot: m.boot, Nonce: m.nonce, KnownBoot: w.Boot, KnownNonce: w.Nonce})
	if w.Boot == m.boot && w.Nonce == m.nonce {
		m.contact(f.From).accepts = true
	}
	if f.Cluster != m.state.Cluster || w.Boot != m.boot || w.Nonce != m.nonce {
		return // who is in no cluster knows nothing of this one
	}
	m.takeAnswered(f.From, w.Question)
	c := m.check
	if c == nil || w.Question != c.question {
		return
	}
	knows := f.Slot
	if w.Undecided {
		knows++
	}
	c.answered[f.From] = max(c.answered[f.From], knows)
}

// answersToCheck returns who has answered the boot check, with this peer, and those of them who know
// of nothing that this peer does not.
func (m *Machine) answersToCheck() (all, level []peer.ID) {
	c := m.check
	// Who cannot be reached any more may have heard since of what was decided since: one that is gone is
	// not asked before this peer is forgotten.
	maps.DeleteFunc(c.answered, func(id peer.ID, knows uint64) bool { return knows <= m.state.Slot && !m.live(id) })
	c.answered[m.self] = m.state.Slot
	if m.undecided() {
		c.answered[m.self]++
	}
	all = sortedIDs(c.answered)
	level = slices.DeleteFunc(slices.Clone(all), func(id peer.ID) bool { return c.answered[id] > m.state.Slot })
	return all, level
}

// completing reports whether this peer is to see to it that the next slot is decided,
// though it has just started: a change of the roster has been accepted there, and until
// it is known what was decided nobody can tell whether this database is up to date. A
// majority has answered, so it is no copy, and what it has promised is on its disk.
func (m *Machine) completing() bool {
	all, level := m.answersToCheck()
	return m.majority(all) && len(level) < len(all) && !m.behind()
}

// checkBoot ends the boot check when it can.
func (m *Machine) checkBoot() {
	c := m.check
	if c == nil {
		m.meetMajority()
		return
	}
	// The answer of one who is lost, and knew what nobody has told, is none: by that the space
	// of this peer may have been given up.
	all, level := m.answersToCheck()
	m.completes = m.completes || m.undecided()
	switch over := !m.now.Before(c.until); {
	case m.majority(all) && m.outdated():
		m.endCheck() // what is its own it cannot learn, and a start that speaks what they do asks anew
		return
	case m.majority(all) && len(level) < len(all) && (!over || !m.cutOff() && m.behind()):
		// What they know comes first, as long as they are there to tell it.
	case m.majority(level):
		m.endCheck()
		return
	case over && m.cfg.BootAlone:
		m.bootedAlone = true
		m.note(Note{Kind: NoteBootedAlone})
		m.endCheck()
		return
	}
	if since := m.now.Sub(c.helloAt); since >= helloEvery || since < 0 {
		m.greetPeers()
	}
}

// meetMajority ends that this peer is known to have started alone, once a majority of its cluster has spoken to this
// start of it: what was given up meanwhile it learns from them.
func (m *Machine) meetMajority() {
	if !m.bootedAlone {
		return
	}
	spoken := slices.DeleteFunc(m.liveVoters(), func(id peer.ID) bool {
		c := m.contacts[id]
		return id != m.self && (c == nil || c.heard.IsZero() || c.cluster != m.state.Cluster)
	})
	if m.majority(spoken) && !m.behind() {
		m.bootedAlone, m.changed = false, true
	}
}

// behind reports whether a peer that can be reached knows slots that this one does not.
// If the only one who did is lost, the others decide the slot anew, as they have accepted
// it, and may need the vote of this one for that.
func (m *Machine) behind() bool {
	for id, c := range m.contacts {
		if c.slot > m.state.Slot && c.cluster == m.state.Cluster && m.live(id) {
			return true
		}
	}
	return false
}

// endCheck lets this peer vote and hand out.
func (m *Machine) endCheck() {
	m.check = nil
	m.submitted = false
	m.changed = true
}
