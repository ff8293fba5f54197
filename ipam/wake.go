package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/engine"
)

// wake sets when the machine wants to be stepped again.
func (m *Machine) wake() {
	if at := m.pools.StrangersUntil(); !at.IsZero() {
		m.out.WakeAt(at)
	}
	m.warnings.Wake(m.warns())
	if len(m.calls.waiting) > 0 {
		m.wakeForCalls()
	}
	var tend time.Time
	switch {
	case m.members.IsSuspended():
	case m.log.IsBusy() || m.members.IsChecking() || m.hasNews():
		m.out.WakeAt(m.now.Add(pulse))
	case m.members.Wish.HasLeft() && !m.members.IsMember():
	case m.state.Slot == 0 || m.members.NewDB.IsUnsure() || !m.log.IsSole() || m.doubts.Any():
		tend = m.now.Add(tendEvery)
	}
	m.members.Check.Expect(m.fx.WakeAt, tend)
	if tend.IsZero() {
		return
	}
	if m.isQuiescent() {
		tend = m.now.Add(restEvery) // how long it may sleep unnoticed stays as it is
	}
	m.out.WakeAt(tend)
}

// wakeForCalls is wake for what waits.
func (m *Machine) wakeForCalls() {
	for _, c := range m.calls.waiting {
		m.out.WakeAt(c.Deadline)
	}
	if m.trade.IsAsking() {
		m.out.WakeAt(m.now.Add(pulse))
	}
	for _, at := range []time.Time{m.members.Me.Undisturbed().Add(engine.ListTime), m.engine.Greeted().At.Add(engine.ListTime)} {
		if m.engine.Mode() != engine.Running && m.now.Before(at) {
			m.out.WakeAt(at)
		}
	}
}

// pulse is how often a machine is stepped while something is under way.
const pulse = 50 * time.Millisecond
