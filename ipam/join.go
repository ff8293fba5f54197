package ipam

import (
	"bytes"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Formation says how a cluster is founded by several hosts together. All of
// them must have been told the same. The zero Formation is none.
type Formation struct {
	Size     int    // how many hosts found it, 2 to 1,024
	List     uint64 // hash of their list; 0 if they were told only their number
	Seat     int    // this host's place in the list, from 1; 0 without a list
	Observer bool   // take no part in founding, and join what the others found
}

// formation returns what messages about slot 1 carry.
func (m *Machine) formation() wire.Formation {
	cfg := m.cfg.Formation
	if m.state.Slot > 0 || cfg.List != 0 && m.seat == 0 {
		return wire.Formation{} // it is not among those who found it
	}
	return wire.Formation{Size: uint32(m.cfg.Formation.Size), List: m.cfg.Formation.List}
}

// seatOf returns the seat by which slot 1 counts a peer's host: its place in
// the list, or, where there is none, its place among those that this peer has
// met. A host votes once, whatever IDs it had.
func (m *Machine) seatOf(id peer.ID) peer.ID {
	if m.cfg.Formation.List != 0 {
		seat := m.seat
		if id != m.self {
			seat = m.contact(id).seat
		}
		if seat < 1 || seat > m.cfg.Formation.Size {
			return peer.None
		}
		return paxos.Seat(seat)
	}
	if i := slices.Index(m.seats, id); i >= 0 {
		return paxos.Seat(i + 1)
	}
	return peer.None
}

// seated returns the peer that was last heard of in a seat, or peer.None.
func (m *Machine) seated(seat peer.ID) peer.ID {
	if m.seatOf(m.self) == seat {
		return m.self
	}
	return m.founders()[seat]
}

// founders returns the other peers that would found a cluster with this one,
// by seat: of those that came from one host the one heard of last.
func (m *Machine) founders() map[peer.ID]peer.ID {
	out := map[peer.ID]peer.ID{}
	own := m.seatOf(m.self)
	for id, c := range m.contacts {
		if !c.forming {
			continue
		}
		seat := m.seatOf(id)
		if seat == peer.None || seat == own {
			continue
		}
		other, taken := out[seat]
		if o := m.contacts[other]; !taken || c.heard.After(o.heard) || c.heard.Equal(o.heard) && id.Compare(other) < 0 {
			out[seat] = id
		}
	}
	return out
}

// meet notes that a peer would found a cluster with this one, or something
// that does not fit.
func (m *Machine) meet(id peer.ID, c *contact, f wire.Formation, observer bool) {
	mine := m.formation()
	if m.state.Slot > 0 || c.cluster != ([16]byte{}) {
		return
	}
	if mine.Size == 0 || f.Size == 0 || observer {
		return
	}
	if f != mine {
		m.misfits[id] = f
		return
	}
	delete(m.misfits, id)
	c.forming = true
	if m.cfg.Formation.List == 0 && !slices.Contains(m.seats, id) {
		// With a bare number just so many hosts may take part.
		if len(m.seats) < m.cfg.Formation.Size {
			m.seats = append(m.seats, id)
		} else {
			m.misfits[id] = f
		}
	}
}

// mayFound reports whether this peer votes on slot 1, asked by that peer.
func (m *Machine) mayFound(from peer.ID, f wire.Formation) bool {
	cfg := m.cfg.Formation
	if cfg.Size == 0 {
		return from == m.self // the first host
	}
	if cfg.Observer || m.hesitates || m.seesCluster() {
		return false
	}
	if f != m.formation() {
		m.misfits[from] = f
		return false
	}
	return m.seatOf(m.self) != peer.None && m.seatOf(from) != peer.None
}

// decideAlone ends the hesitation of a peer whose engine has so many networks of
// this driver: with none it is new and founds a cluster, with some it was one of
// a cluster before, or alone, and cannot tell. One that an operator told that
// there is none looks first whether there is one after all (looksFirst), as does
// one that had seen one before this start.
func (m *Machine) decideAlone(networks int) {
	if m.cfg.FoundAlone && (networks > 0 || !m.gaveWay.IsZero()) {
		return
	}
	forms := m.cfg.Formation.Size > 0
	if !m.cfg.Join || forms {
		m.orphaned = networks
	}
	if m.orphaned > 0 || m.seesCluster() {
		return
	}
	if m.cfg.Join || forms {
		m.hesitates = false
		return
	}
	m.foundAlone()
}

// lookTime is how long a peer looks for others before it founds a cluster that may
// not be the only one: who knows it from before its database was lost calls it every
// 30 seconds, more or less.
const lookTime = 45 * time.Second

// looksFirst reports whether this peer was told to found a cluster alone, and looks
// for one first: it may have been told long ago, and have lost its database since.
func (m *Machine) looksFirst() bool { return m.hesitates && m.cfg.FoundAlone && m.state.Slot == 0 }

// looksAround reports whether more may be learned of who is there, in a moment,
// than is known.
func (m *Machine) looksAround() bool {
	switch passed := m.now.Sub(m.startedAt); {
	case passed < reachTime:
		return true
	case passed >= lookTime:
		return false
	}
	return !m.metAll()
}

// metAll reports whether some others can be reached, and all of these have said
// who they are.
func (m *Machine) metAll() bool {
	some := false
	for id, c := range m.contacts {
		if m.present(id) {
			if c.met.IsZero() {
				return false
			}
			some = true
		}
	}
	return some
}

// forsaken reports whether this peer gave way to a cluster that is no more: it did
// so a while ago, and of those that can be reached nobody is in one. They gave way
// to each other, by a frame that was late.
func (m *Machine) forsaken() bool {
	return !m.gaveWay.IsZero() && !m.cfg.Join && m.now.Sub(m.gaveWay) >= lookTime && m.metAll() && !m.seesCluster()
}

// foundAlone ends the hesitation of a peer that founds a cluster alone.
func (m *Machine) foundAlone() {
	m.hesitates, m.joins = false, false
	m.found()
	m.note(Note{Kind: NoteFounded})
	m.drain()
}

// foundAfter is how long a peer waits for the others once it could found a
// cluster with those it has met, so that more of them are in it from the
// start.
const foundAfter = time.Second

// found founds a cluster, alone or with those that it has met.
func (m *Machine) found() {
	cfg := m.cfg.Formation
	switch {
	case m.state.Slot > 0 || m.attempt != nil || cfg.Observer:
		return
	case cfg.Size > 0:
		if !m.enoughFounders() {
			return
		}
	case m.joins:
		return
	}
	var cluster [16]byte
	for i := range cluster {
		cluster[i] = byte(m.cfg.Rand.Uint32())
	}
	founders := []chronicle.Founder{m.founder()}
	for _, id := range m.founders() {
		c := m.contacts[id]
		founders = append(founders, chronicle.Founder{ID: id, Name: c.name, Boot: c.start.boot, Machine: c.machine})
	}
	slices.SortFunc(founders, func(a, b chronicle.Founder) int { return a.ID.Compare(b.ID) })
	m.founding = true
	m.background(chronicle.Found{Cluster: cluster, Peers: founders})
}

// enoughFounders reports whether a majority of the hosts has been met, and it
// is this peer's turn: those with lower IDs go first.
func (m *Machine) enoughFounders() bool {
	size := m.cfg.Formation.Size
	met, before := 1, 0
	for _, id := range m.founders() {
		met++
		if id.Compare(m.self) < 0 && m.live(id) {
			before++
		}
	}
	if m.seatOf(m.self) == peer.None || 2*met <= size || m.hesitates || m.seesCluster() {
		m.enoughSince = time.Time{}
		return false
	}
	if m.enoughSince.IsZero() {
		m.enoughSince = m.now
	}
	wait := foundAfter * time.Duration(min(before, 8))
	if met < size {
		wait += foundAfter
	}
	return m.now.Sub(m.enoughSince) >= wait
}

// seesCluster reports whether a peer that can be reached is in a cluster. Then
// no other one is founded beside it: hosts that lost their databases join those
// that did not.
func (m *Machine) seesCluster() bool {
	if m.lacks(ruleSight) {
		return false
	}
	for id, c := range m.contacts {
		if c.cluster != ([16]byte{}) && m.present(id) {
			return true
		}
	}
	return false
}

// joinEvery is how often a peer that is in no roster asks to be admitted, or
// looks for a cluster.
const joinEvery = time.Second

// seek looks for a cluster to be in: it says hello while it has none, and asks
// to be admitted when it is in no roster.
func (m *Machine) seek() {
	if m.left || m.isSuspended() {
		return
	}
	if m.state.Slot == 0 {
		if since := m.now.Sub(m.helloAt); since >= joinEvery || since < 0 {
			m.greetPeers()
		}
		if m.looksFirst() && !m.looksAround() && !m.seesCluster() || m.forsaken() {
			m.foundAlone()
			return
		}
		m.found()
		return
	}
	if m.member() || m.booting() {
		return
	}
	if since := m.now.Sub(m.askedToJoin); since >= 0 && since < joinEvery {
		return
	}
	m.askedToJoin = m.now
	gone := m.state.Gone(m.self)
	// Also where it had been admitted again, and did not come to drain before it was lost anew.
	m.setDrained(gone != nil && !gone.Forgotten && (m.drained || gone.Phase == chronicle.Draining))
	var live []peer.ID
	for _, id := range m.others() {
		if m.live(id) {
			live = append(live, id)
		}
	}
	if len(live) == 0 {
		m.greetPeers()
		return
	}
	m.send(live[m.cfg.Rand.IntN(len(live))], wire.Join{Name: m.cfg.Name, Machine: m.cfg.Machine})
}

// applicant is a peer that asks to be admitted, and the challenge that it was sent.
type applicant struct {
	join     wire.Join
	start    start // of the peer that asks
	question uint64
	at       time.Time // the question was made
}

// challengeTime is for how long an answer to a challenge counts.
const challengeTime = 5 * time.Second

// takeJoin challenges a peer that asks to be admitted (R63). The challenge is a Hello with a new question, and its Welcome is the
// answer, as releases without the rule send it, too. A device may send a recorded Join again after the peer is gone, and a dead
// peer that has a vote can keep the others from deciding anything. A recorded Welcome cannot contain a question that is made now.
func (m *Machine) takeJoin(f *wire.Frame, q wire.Join) {
	if !m.mayAdmit() {
		return
	}
	if m.state.Member(f.From) != nil {
		m.sendSlots(f.From, f.Slot)
		return
	}
	if m.state.UsedUp(f.From) && !m.lacks(ruleUsedUp) {
		m.send(f.From, wire.UsedUp{}) // a command would be refused, and cost a slot each second
		return
	}
	if gone := m.state.Gone(f.From); gone != nil && f.Slot < gone.Evicted {
		return // it asked before it was evicted last, and may have left since
	}
	c := m.contact(f.From)
	if m.lacks(ruleChallenge) {
		m.admit(f.From, c, q)
		return
	}
	if a := c.applies; a == nil || a.start != c.start || !m.answersInTime(a) {
		c.applies = &applicant{start: c.start, question: m.cfg.Rand.Uint64(), at: m.now}
	}
	c.applies.join = q
	m.greetWith(f.From, c.applies.question)
}

func (m *Machine) mayAdmit() bool {
	return m.state.Slot > 0 && m.member() && !m.booting() && !m.outdated()
}

func (m *Machine) answersInTime(a *applicant) bool {
	since := m.now.Sub(a.at)
	return since >= 0 && since < challengeTime
}

// takeAnswered has a peer admitted that has answered its challenge.
func (m *Machine) takeAnswered(id peer.ID, question uint64) {
	c := m.contact(id)
	a := c.applies
	if a == nil || a.question != question || a.start != c.start {
		return
	}
	c.applies = nil
	if m.answersInTime(a) && m.mayAdmit() && m.state.Member(id) == nil && (!m.state.UsedUp(id) || m.lacks(ruleUsedUp)) {
		m.admit(id, c, a.join)
	}
}

// admit proposes that a peer be admitted, unless it does not speak what the cluster uses.
func (m *Machine) admit(id peer.ID, c *contact, q wire.Join) {
	if c.spoken == 0 || c.spoken < m.state.Level {
		return
	}
	// A former peer of the same machine is gone, and its vote with it: the two
	// together must not cost the cluster its majority.
	var actions []chronicle.Action
	for _, member := range m.state.Roster {
		if q.Machine != 0 && member.Machine == q.Machine && !m.live(member.ID) {
			actions = append(actions, chronicle.Evict{Peer: member.ID})
		}
	}
	admit := chronicle.Admit{Founder: chronicle.Founder{ID: id, Name: q.Name, Boot: c.start.boot, Machine: q.Machine}, Speaks: c.spoken}
	m.background(append(actions, admit)...)
}

// stubborn is for how long a foreign cluster must have been met before it is
// taken for one that does not give way.
const stubborn = 5 * time.Second

// giveWay dissolves the cluster of this peer, if it is its only member and
// has no pool, so that it can join one that it has met. Of two such clusters
// the one with the higher ID does. It also turns from a cluster that it was
// about to join, and that is no more.
func (m *Machine) giveWay(f *wire.Frame) {
	if m.strayed() {
		m.dissolve()
		m.pull(f.From)
		return
	}
	if !m.alone() || len(m.state.Pools) > 0 || len(m.networks) > 0 || len(m.proposals) > 0 || m.booting() || m.wasShared() {
		return
	}
	if bytes.Compare(f.Cluster[:], m.state.Cluster[:]) > 0 && m.now.Sub(m.foreign[f.Cluster].first) < stubborn {
		return
	}
	m.note(Note{Kind: NoteGaveWay})
	m.dissolve()
	m.pull(f.From)
}

// wasShared reports whether others may know the cluster in which this peer is alone by
// now: one that was evicted, or that has left and does not know it yet, is in it as far
// as it knows, and goes on from there with whoever is there again. So it is with one that
// this peer has recovered: it has voted in the one before.
func (m *Machine) wasShared() bool {
	values, all := m.log.After(0)
	if !all {
		return true // nobody can say
	}
	for _, v := range values {
		batch, err := chronicle.DecodeBatch(v)
		if err != nil || slices.ContainsFunc(batch, func(c chronicle.Command) bool { return m.admits(c.Action) }) {
			return true
		}
	}
	return false
}

// admits reports whether a command makes another peer one of the cluster.
func (m *Machine) admits(a chronicle.Action) bool {
	switch a := a.(type) {
	case chronicle.Admit:
		return a.ID != m.self
	case chronicle.Found:
		return slices.ContainsFunc(a.Peers, func(f chronicle.Founder) bool { return f.ID != m.self })
	}
	return false
}

// strayed reports whether this peer knows a cluster that it was never in, and
// in which nobody is left, as far as it hears. Who has voted there is not to
// forget that: it would vote anew on the same slots, once it met one that lags.
// One that was in it has left by a command of its own; one that was not may have
// founded it with others.
func (m *Machine) strayed() bool {
	was := m.member() || m.state.Gone(m.self) != nil || m.state.Number(m.self) > 0 || m.ownedBy(m.self) > 0
	if m.state.Slot == 0 || was || m.cfg.Formation.Size > 0 && !m.cfg.Formation.Observer {
		return false
	}
	return !slices.ContainsFunc(m.state.Roster, func(member chronicle.Member) bool { return m.live(member.ID) })
}

// dissolve forgets a cluster in which this peer had nothing.
func (m *Machine) dissolve() {
	for _, p := range m.sortedPools() {
		m.dropPool(p)
	}
	m.log.Replace(m.state.Slot, nil)
	m.saveNumber() // the state knew it
	m.state = &chronicle.State{}
	m.acceptor, m.attempt, m.early = paxos.Acceptor{}, nil, early{}
	m.later = 0
	clear(m.inbox)
	// In the cluster that it comes to others may have lost their databases.
	m.unsure = !m.lacks(ruleList | ruleLists)
	m.saveUnlisted()
	m.joins, m.gaveWay = true, m.now
	m.saveGaveWay()
	m.changed = true
}
