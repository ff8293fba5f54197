package ipam

import "time"

// wake sets when the machine wants to be stepped again.
func (m *Machine) wake() {
	if !m.strangers.IsZero() {
		m.out.WakeAt(m.strangers)
	}
	if !m.warned.IsZero() {
		m.out.WakeAt(m.warned)
	}
	if m.warns() {
		m.out.WakeAt(m.warnedAt.Add(warnEvery))
	}
	if len(m.waiting) > 0 {
		m.wakeForCalls()
	}
	var tend time.Time
	switch {
	case m.isSuspended():
	case len(m.proposals) > 0 || m.attempt != nil || m.check != nil || m.changed:
		m.out.WakeAt(m.now.Add(pulse))
	case m.left && !m.member():
	case m.state.Slot == 0 || m.unsure || !m.soleUser() || m.mayOwe():
		tend = m.now.Add(tendEvery)
	}
	if m.due = m.fx.WakeAt; !m.due.IsZero() && m.due.Before(m.now) {
		// It is overdue, as a call is whose time ran out in a freeze, until an alarm has it tried again. The freeze was
		// noticed in this step: the next one is late by what has passed since, or each would take it for another freeze.
		m.due = m.now
	}
	if tend.IsZero() {
		return
	}
	if m.due.IsZero() || tend.Before(m.due) {
		m.due = tend
	}
	if m.rests() {
		tend = m.now.Add(restEvery) // how long it may sleep unnoticed stays as it is
	}
	m.out.WakeAt(tend)
}

// wakeForCalls is wake for what waits.
func (m *Machine) wakeForCalls() {
	for _, c := range m.waiting {
		m.out.WakeAt(c.Deadline)
	}
	if len(m.questions) > 0 {
		m.out.WakeAt(m.now.Add(pulse))
	}
	if late := m.startedAt.Add(replayWait); m.replaying && m.now.Before(late) {
		m.out.WakeAt(late)
	}
	if late := m.greeted.at.Add(replayWait); m.bare() && m.now.Before(late) {
		m.out.WakeAt(late)
	}
}

// pulse is how often a machine is stepped while something is under way.
const pulse = 50 * time.Millisecond
