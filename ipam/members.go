package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/departure"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// evict takes a lost peer out of the roster, for an operator.
func (m serving) evict(q *EvictRequest) error {
	id, err := m.peerMeant(q.Peer, departure.InRoster)
	if err != nil {
		return err
	}
	actions, err := m.members.Evict(id, m.waitsForDecision()) // what is under way stays wanted
	if err != nil || len(actions) == 0 {
		return err
	}
	_, err = m.propose(actions...)
	return m.staysWanted(err, "ringlet peers")
}

// forget gives up the space of an evicted peer, for an operator, once all
// peers that can be reached have said that they do not hear from it, and have no
// containers in its space.
func (m serving) forget(q *ForgetRequest) (Forgetting, error) {
	id, err := m.peerMeant(q.Peer, departure.Evicted)
	if err != nil {
		return Forgetting{}, err
	}
	gone := m.state.Gone(id)
	switch {
	case gone == nil:
		return Forgetting{}, failf(ErrBadRequest, "%s is in the cluster: if the host is gone for good, evict it first with ringlet evict %s", m.members.View().NameOf(id), sentence.Word(q.Peer))
	case gone.Forgotten:
		if freed := m.call.host.frees; freed.ID == gone.ID.String() {
			return freed, nil // this call had it forgotten
		}
		return m.forgetting(gone), nil
	}
	if err := m.members.Unheard(id); err != nil {
		return Forgetting{}, err
	}
	out := m.forgetting(gone)
	if q.DryRun {
		return out, nil
	}
	m.call.host.frees = out
	_, err = m.propose(chronicle.Forget{Peer: id, Evicted: gone.Evicted})
	return out, err
}

// forgetting says what forgetting a peer frees.
func (m *Machine) forgetting(gone *chronicle.Gone) Forgetting {
	out := Forgetting{
		Peer: m.members.View().NameOf(gone.ID), ID: gone.ID.String(), Evicted: gone.Evicted, Addresses: uint64(m.state.OwnedBy(gone.ID)),
	}
	for _, p := range m.state.Pools {
		for range p.Ring.OwnedBy(gone.ID) {
			out.Ranges++
		}
	}
	return out
}

// host tells the membership what only the rest of this peer knows.
type host struct{ m *Machine }

func (h host) NextQuestion() uint64 { return h.m.trade.NextQuestion() }

func (h host) LivesIn(id peer.ID) bool {
	for _, p := range h.m.pools.Sorted() {
		for o := range p.Seen {
			if t, _ := p.Ring.At(o); t.Owner == id {
				return true
			}
		}
	}
	return false
}

// peerMeant is [departure.Find] for a call of a peer that is ready, which may be served several times: it means
// the same peer each time, also when that has been evicted meanwhile.
func (m serving) peerMeant(ref string, wanted departure.Membership) (peer.ID, error) {
	if err := m.members.Ready(); err != nil {
		return peer.None, err
	}
	if m.call.host.meant != peer.None {
		return m.call.host.meant, nil
	}
	id, err := departure.Find(m.members.View(), ref, wanted)
	m.call.host.meant = id
	return id, err
}

// recover founds the cluster anew from this peer's own state, see [membership.Membership.Recover].
func (m *Machine) recover() error {
	state, err := m.members.Recover()
	if err != nil || state == nil {
		return err
	}
	for p, r := range m.asides(m.log.Drop()) {
		p.Space.Restore(r) // nobody can decide it now, and whose it is the state tells that comes next
	}
	m.members.Refound()
	m.install(state)
	m.log.Next()
	m.note(Note{Kind: NoteRecovered})
	return nil
}
