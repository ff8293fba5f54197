package ipam

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// evict takes a lost peer out of the roster, for an operator.
func (m *Machine) evict(q *EvictRequest) error {
	if err := m.ready(); err != nil {
		return err
	}
	id, err := m.peerMeant(q.Peer, inRoster)
	switch {
	case err != nil:
		return err
	case m.state.Gone(id) != nil:
		return nil // it is evicted
	case id == m.self:
		return failf(ErrBadRequest, "%s is this host itself: use ringlet leave", m.cfg.Name)
	case m.live(id):
		return failf(ErrBadRequest, "%s is reachable: use ringlet leave on that host; if it was lost just now, try again in some seconds", m.nameOf(id))
	}
	underWay := m.waitsForDecision() // what is under way stays wanted
	if !underWay && !m.keepsMajority(id) {
		return failf(ErrBadRequest, "%s cannot be evicted, because even without it the reachable hosts have no majority of the votes: start or reconnect %s; if a majority is gone for good, see ringlet recover --help", m.nameOf(id), m.names(slices.DeleteFunc(m.away(m.state.Voters()), func(v peer.ID) bool { return v == id })))
	}
	if !underWay && m.cutOff() {
		// Its own vote may be what is missing: then it would be evicted when it is back.
		return waitFor(failf(ErrUnreachable, "%s cannot be evicted, because the reachable hosts have no majority of the votes while it counts: start or reconnect %s; if a majority is gone for good, see ringlet recover --help", m.nameOf(id), m.names(m.away(m.state.Voters()))))
	}
	_, err = m.propose(chronicle.Evict{Peer: id})
	return m.staysWanted(err, "ringlet peers")
}

// keepsMajority reports whether those who can be reached have a majority of the
// votes that are left without a peer.
func (m *Machine) keepsMajority(without peer.ID) bool {
	var voters, live []peer.ID
	for _, member := range m.state.Roster {
		if member.ID == without || len(voters) == chronicle.MaxVoters {
			continue
		}
		voters = append(voters, member.ID)
		if m.live(member.ID) {
			live = append(live, member.ID)
		}
	}
	e, err := paxos.NewElectorate(voters)
	return err == nil && e.Majority(live)
}

// forget gives up the space of an evicted peer, for an operator, once all
// peers that can be reached have said that they do not hear from it, and have no
// containers in its space.
func (m *Machine) forget(q *ForgetRequest) (Forgetting, error) {
	if err := m.ready(); err != nil {
		return Forgetting{}, err
	}
	id, err := m.peerMeant(q.Peer, evicted)
	if err != nil {
		return Forgetting{}, err
	}
	gone := m.state.Gone(id)
	switch {
	case gone == nil:
		return Forgetting{}, failf(ErrBadRequest, "%s is in the cluster: if the host is gone for good, evict it first with ringlet evict %s", m.nameOf(id), word(q.Peer))
	case gone.Forgotten:
		if c := m.current; c != nil && c.frees.ID == gone.ID.String() {
			return c.frees, nil // this call had it forgotten
		}
		return m.forgetting(gone), nil
	}
	if err := m.unheard(id); err != nil {
		return Forgetting{}, err
	}
	out := m.forgetting(gone)
	if q.DryRun {
		return out, nil
	}
	if c := m.current; c != nil {
		c.frees = out
	}
	_, err = m.propose(chronicle.Forget{Peer: id, Evicted: gone.Evicted})
	return out, err
}

// reconsider wants no peer evicted or forgotten any more that this one hears from again, and
// none forgotten by what others said too long ago: they may hear from it by now; nor one
// admitted that it does not hear from any more: that one asks again, or has left meanwhile.
// What was sent may still be decided, as long as nobody has admitted that peer;
// it is not sent again, and whoever was to propose it is told.
func (m *Machine) reconsider() {
	n := len(m.proposals)
	m.proposals = slices.DeleteFunc(m.proposals, func(p *proposal) bool {
		late := false
		switch a := p.commands[0].Action.(type) {
		case chronicle.Evict:
			late = a.Peer != m.self && m.live(a.Peer)
		case chronicle.Forget:
			late = m.present(a.Peer) || m.now.Sub(p.since) >= inquiryTime
		}
		if a, admits := p.commands[len(p.commands)-1].Action.(chronicle.Admit); admits {
			late = late || !m.live(a.ID)
		}
		if late {
			m.endProposal(p)
		}
		return late
	})
	if len(m.proposals) == n {
		return
	}
	delete(m.inbox, m.self)
	if m.attempt != nil {
		m.begin() // with another value
	}
	m.submitted, m.changed = false, true
	for _, id := range m.liveVoters() {
		m.send(id, wire.Submit{Batch: chronicle.EncodeBatch(m.unsettled())})
	}
}

// forgetting says what forgetting a peer frees.
func (m *Machine) forgetting(gone *chronicle.Gone) Forgetting {
	f := Forgetting{Peer: m.nameOf(gone.ID), ID: gone.ID.String(), Evicted: gone.Evicted}
	var all addr.Count
	for _, p := range m.state.Pools {
		for r := range p.Ring.OwnedBy(gone.ID) {
			f.Ranges++
			all = all.Plus(r.Size())
		}
	}
	f.Addresses = uint64(all)
	return f
}

// inquiry is how far this peer has come with asking whether another is heard, or its
// space used.
type inquiry struct {
	id      uint64
	since   time.Time
	askedAt time.Time
	reports map[peer.ID]bool // whether it is
}

// inquiryTime is for how long the reports on a peer are believed.
const inquiryTime = 10 * time.Second

// unheard reports that nobody hears from a peer, or has containers in its space, as far
// as can be asked, and a majority of the voters can; or why that is not known.
func (m *Machine) unheard(id peer.ID) error {
	if m.present(id) || m.livesIn(id) {
		return m.errThere(id, m.self)
	}
	if !m.mayTell() {
		return waitFor(failf(ErrNotReady, "ringlet on %s has just started, and waits for the other hosts and for the engine's list: try again in a moment, and see ringlet status if it fails again", m.cfg.Name))
	}
	q := m.inquiries[id]
	if q == nil || m.now.Sub(q.since) >= inquiryTime || m.now.Before(q.since) {
		m.lastQuestion++
		q = &inquiry{id: m.lastQuestion, since: m.now, reports: map[peer.ID]bool{}}
		m.inquiries[id] = q
	}
	for _, from := range sortedIDs(q.reports) {
		if q.reports[from] {
			return m.errThere(id, from)
		}
	}
	open := slices.DeleteFunc(m.others(), func(other peer.ID) bool { _, told := q.reports[other]; return told || !m.live(other) })
	majority := m.majority(m.liveVoters())
	if len(open) == 0 && majority {
		return nil
	}
	if m.now.Sub(q.askedAt) >= answerTime || m.now.Before(q.askedAt) {
		q.askedAt = m.now
		for _, other := range open {
			m.send(other, wire.Inquire{ID: q.id, Peer: id})
		}
	}
	if !majority {
		return m.waitForMajority()
	}
	return waitFor(failf(ErrNotReady, "%s is reachable, but did not say whether it hears from %s, or has containers with addresses of it: see ringlet status there, and try again", m.names(open), m.nameOf(id)))
}

// mayTell reports whether this peer can say that it does not hear from another one, and has no
// containers in its space: it has been there for a while, and its engine has listed what it has,
// if it will.
func (m *Machine) mayTell() bool {
	return m.now.Sub(m.startedAt) >= reachTime && !m.booting() && (!m.sighted() || !m.inventory.isZero())
}

// livesIn reports whether containers of this host have addresses in the space of
// another peer, by the engine's last list: as where its plugin was installed anew under
// another name, and that peer is its former self.
func (m *Machine) livesIn(id peer.ID) bool {
	for _, p := range m.pools {
		for o := range p.seen {
			if t, _ := p.Ring.At(o); t.Owner == id {
				return true
			}
		}
	}
	return false
}

// errThere refuses to forget a peer that may be there yet, as another one says, or this
// one.
func (m *Machine) errThere(id, by peer.ID) error {
	name, witness := m.nameOf(id), m.nameOf(by)
	switch {
	case by != m.self:
		return failf(ErrBadRequest, "%s may be in use: %s hears from it, or has containers with its addresses, and ringlet status there says which. If it runs, it is admitted again by itself; if there are such containers, stop them first", name, witness)
	case m.livesIn(id):
		return failf(ErrBadRequest, "containers on %s have addresses of %s, for example because its plugin was reinstalled under another name, and others would get these, too: stop those containers first, ringlet status names them", witness, name)
	}
	return failf(ErrBadRequest, "%s is running, %s hears from it, and its containers may use its addresses: it is admitted again by itself, unless it is leaving; to remove it, run ringlet leave there, remove its containers, and then stop its plugin", name, witness)
}

// takeReport takes in what another peer knows of one that is to be forgotten.
func (m *Machine) takeReport(from peer.ID, r wire.Report) {
	if q := m.inquiries[r.Peer]; q != nil && q.id == r.ID {
		q.reports[from] = r.Heard
		m.changed = true
	}
}

// peerMeant is peerRef for a call that may be served several times: it means
// the same peer each time, also when that has been evicted meanwhile.
func (m *Machine) peerMeant(ref string, wanted membership) (peer.ID, error) {
	c := m.current
	if c != nil && c.meant != peer.None {
		return c.meant, nil
	}
	id, err := m.peerRef(ref, wanted)
	if c != nil && err == nil {
		c.meant = id
	}
	return id, err
}

// membership is where a peer stands; it tells which one is meant where a name
// fits several, as that of a host that was rebuilt.
type membership uint8

const (
	inRoster membership = iota
	evicted
	forgotten
)

// peerRef returns the peer of the roster, or the evicted one, that somebody
// means: by its ID, the beginning of it, or its name. A name that fits several
// means the only one of them that is as wanted, if there is one.
func (m *Machine) peerRef(ref string, wanted membership) (peer.ID, error) {
	found := map[membership][]peer.ID{}
	var all []peer.ID
	look := func(id peer.ID, admitted peer.Name, as membership) {
		if string(m.goesBy(id, admitted)) == ref || len(ref) >= 8 && strings.HasPrefix(id.String(), strings.ToLower(ref)) {
			found[as] = append(found[as], id)
			all = append(all, id)
		}
	}
	for _, member := range m.state.Roster {
		look(member.ID, member.Name, inRoster)
	}
	for _, gone := range m.state.Former {
		as := evicted
		if gone.Forgotten {
			as = forgotten
		}
		look(gone.ID, gone.Name, as)
	}
	switch {
	case len(all) == 0:
		return peer.None, failf(ErrPeerNotFound, "there is no peer %s: use a name that ringlet peers shows, or 8 digits or more of an ID", ref)
	case len(all) == 1:
		return all[0], nil
	}
	for _, as := range []membership{wanted, inRoster, evicted} {
		if len(found[as]) == 1 {
			return found[as][0], nil
		}
		if len(found[as]) > 1 {
			break
		}
	}
	texts := make([]string, len(all))
	for i, id := range all {
		texts[i] = fmt.Sprintf("%s (%s)", id, m.nameOf(id))
	}
	return peer.None, failf(ErrBadRequest, "%s can mean several peers, %s: name one by its ID", ref, strings.Join(texts, ", "))
}

// recover founds the cluster anew from this peer's own state, for an operator
// who states that a majority of its votes is gone for good (protocol, 4.5).
func (m *Machine) recover(*RecoverRequest) error {
	switch {
	case m.broken != nil || m.isSuspended():
		return m.usable()
	case m.outdated():
		return m.errOutdated()
	case m.state.Slot == 0 || !m.member() && !m.mayReturn():
		return failf(ErrBadRequest, "ringlet on %s is in no cluster that it could recover: see ringlet status", m.cfg.Name)
	case m.alone():
		return nil
	case !m.cutOff():
		return failf(ErrBadRequest, "%s reaches a majority of the cluster: use ringlet evict for the lost hosts", m.cfg.Name)
	}
	for _, id := range m.others() {
		switch {
		case m.live(id):
			return failf(ErrBadRequest, "%s is reachable from %s, and only one host may recover a cluster: stop ringlet there first, and let it join again afterwards with its data removed", m.nameOf(id), m.cfg.Name)
		case m.present(id):
			return m.errRecovered(id)
		}
	}
	for _, id := range m.known() {
		if c := m.contacts[id]; c != nil && m.present(id) && m.joinedElsewhere(c) {
			return m.errRecovered(id)
		}
	}
	var cluster [16]byte
	for i := range cluster {
		cluster[i] = byte(m.cfg.Rand.Uint32())
	}
	state, err := m.supposed()
	if err == nil {
		state, err = state.Refound(cluster, m.founder())
	}
	if err != nil {
		return failf(ErrSuspended, "the state of %s cannot be used: %v", m.cfg.Name, err)
	}
	state.Forgo(m.self, m.underWay())
	m.dropProposals()
	m.check = nil
	m.left = false // there is nobody left whom it would leave
	m.stay()
	m.install(state)
	m.next()
	m.note(Note{Kind: NoteRecovered})
	return nil
}

// joinedElsewhere reports whether a peer is in another cluster, and on the host of one of this cluster: its data was
// removed, and it has joined one that was recovered from this, as far as anybody can tell.
func (m *Machine) joinedElsewhere(c *contact) bool {
	return c.cluster != ([16]byte{}) && c.cluster != m.state.Cluster && slices.ContainsFunc(m.state.Roster, func(other chronicle.Member) bool {
		return other.ID != m.self && (other.Name == c.name || other.Machine != 0 && other.Machine == c.machine)
	})
}

// errRecovered refuses to recover the cluster beside one that has: both would have what is free, and what
// either frees.
func (m *Machine) errRecovered(id peer.ID) error {
	return failf(ErrBadRequest, "%s is reachable from %s, and is in another cluster, for example because this one was recovered there: let %s join that one, with its data removed, or stop ringlet on %s first", m.nameOf(id), m.cfg.Name, m.cfg.Name, m.nameOf(id))
}

// supposed returns the state with what may have been decided since, by what this peer has
// accepted: whoever decided it is gone, and its containers may live.
func (m *Machine) supposed() (*chronicle.State, error) {
	if len(m.acceptor.Value) == 0 {
		return m.state, nil
	}
	batch, err := chronicle.DecodeBatch(m.acceptor.Value)
	if err != nil {
		return nil, err
	}
	return m.state.Supposing(batch, m.self)
}

// mayReturn reports whether this peer was evicted, has what it had still, and
// waits to be admitted again.
func (m *Machine) mayReturn() bool {
	gone := m.state.Gone(m.self)
	return gone != nil && !gone.Forgotten
}

// dropProposals forgets what was to be agreed with a cluster that is no more.
// What was set aside for it is no more: nobody can decide it now, and whose it is the
// state tells that comes next.
func (m *Machine) dropProposals() {
	proposals := m.proposals
	m.proposals = nil
	for _, p := range proposals {
		m.endProposal(p)
		m.restoreAside(p)
	}
	clear(m.inbox)
}

// endQuarantine has a peer forgotten that was evicted long ago, if the
// settings say so. It trades safety for space.
func (m *Machine) endQuarantine() {
	if m.cfg.Quarantine <= 0 || !m.isVoter(m.self) {
		return
	}
	for _, gone := range m.state.Former {
		since, known := m.goneSince[gone.ID]
		switch {
		case gone.Forgotten:
			delete(m.goneSince, gone.ID)
		case !known || since.evicted != gone.Evicted || m.live(gone.ID):
			m.goneSince[gone.ID] = departure{gone.Evicted, m.now}
		case m.now.Sub(since.at) >= m.cfg.Quarantine && m.unheard(gone.ID) == nil:
			m.background(chronicle.Forget{Peer: gone.ID, Evicted: gone.Evicted})
			return
		}
	}
}

// departure is an eviction.
type departure struct {
	evicted uint64    // its slot
	at      time.Time // when this peer first knew of it, or last heard from who was evicted
}
