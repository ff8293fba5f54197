package ipam

import (
	"fmt"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// drainSelf begins or ends the draining of this peer.
func (m serving) drainSelf(q *DrainRequest) error {
	if err := m.members.Ready(); err != nil {
		return err
	}
	phase := chronicle.Draining
	if q.Undo {
		phase = chronicle.Active
	}
	other := func(a chronicle.Action) bool {
		switch a := a.(type) {
		case chronicle.SetState:
			return a.Peer == m.members.Self() && a.Phase != phase
		case chronicle.Retire: // it leaves, whatever somebody wants by now
			return a.Peer == m.members.Self() && q.Undo
		case chronicle.Evict:
			return a.Peer == m.members.Self() && q.Undo
		}
		return false
	}
	drains := func(a chronicle.Action) bool {
		s, is := a.(chronicle.SetState)
		return is && s.Peer == m.members.Self() && s.Phase == chronicle.Draining
	}
	if (q.Undo || !m.log.IsUnderWay(drains)) && m.opposes(other) { // who drains becomes active before
		return m.waitForEarlier()
	}
	if m.log.Accepted(other) {
		m.log.FinishSlot() // what was asked for before this process started
		return m.waitForEarlier()
	}
	if err := m.awaitEarlier(); err != nil {
		return err
	}
	actions, err := m.members.Drain(q.Undo, q.Also)
	if err != nil || len(actions) == 0 {
		return err
	}
	if !q.Undo && !q.Also && !m.log.IsUnderWay(drains) {
		if err := m.mayDrain(); err != nil {
			return err
		}
	}
	out, err := m.propose(actions...)
	if err != nil {
		return m.staysWanted(err, "ringlet status")
	}
	if !q.Undo && out[len(out)-1].Refused != "" {
		return m.members.OtherDrains()
	}
	return nil
}

// mayDrain reports why this peer is not to drain: another one does (R76), or those that stay have no room for what is in use here.
func (m *Machine) mayDrain() error {
	if err := m.members.OtherDrains(); err != nil {
		return err
	}
	var stay []peer.ID
	for _, member := range m.state.Roster {
		if member.ID != m.members.Self() && member.Phase != chronicle.Draining && m.members.View().Live(member.ID) {
			stay = append(stay, member.ID)
		}
	}
	for _, p := range m.pools.Sorted() {
		if err := m.roomFor(p, stay); err != nil {
			return err
		}
	}
	return nil
}

// guests returns how many addresses of a pool something else than the host itself holds here.
func guests(p *pool.Pool) (held addr.Count) {
	for _, kind := range p.Space.Kinds() {
		if !kind.OfHost() {
			held++
		}
	}
	return held
}

// roomFor reports that what is free in a pool, with a chunk for each of the peers that stay, is less than what is in use here.
func (m *Machine) roomFor(p *pool.Pool, stay []peer.ID) error {
	held := guests(p)
	if held == 0 {
		return nil
	}
	room := p.Space.Spare()
	spare := m.trade.Spare(p.Key)
	for _, id := range stay {
		room = room.Plus(spare[id].Free)
	}
	for r := range p.Ring.OwnedBy(ring.Free) {
		room = room.Plus(r.Size())
	}
	use := sentence.Plural(uint64(held), "address", "addresses")
	if len(stay) == 0 {
		return failf(ErrBadRequest, "%s has %s of pool %s in use, and no other host can be reached that could take them: start or reconnect another host first, or run ringlet drain --also", m.cfg.Name, use, sentence.Pool(p.Pool))
	}
	chunk := m.trade.Chunk(p.Space)
	if room >= held+chunk*addr.Count(len(stay)) {
		return nil
	}
	needs := "the host that stays needs"
	if len(stay) > 1 {
		needs = fmt.Sprintf("each of the %d hosts that stay needs", len(stay))
	}
	return failf(ErrBadRequest, "%s has %s of pool %s in use, and %v are free there; %s %v for itself: remove containers or add a host first, or run ringlet drain --also",
		m.cfg.Name, use, sentence.Pool(p.Pool), room, needs, chunk)
}
