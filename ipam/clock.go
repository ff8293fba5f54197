package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/space"
)

// ClockSlack is [engine.ClockSlack].
const ClockSlack = engine.ClockSlack

// beginClock finds out whether somebody has set the clock before this start.
func (m *Machine) beginClock() {
	if set := m.me.BeginClock(m.cfg.HostBoot); !set.IsZero() {
		m.engine.SetClock(set)
	}
}

// ageAnew takes nothing for older than now, by a clock that was set by that much.
func (m *Machine) ageAnew(by time.Duration) {
	m.engine.SetClock(m.now)
	m.me.SetClock(m.cfg.HostBoot, by)
}

// heldSince is [engine.Engine.SureSince] for the state of an address, such as held or freed.
func (m *Machine) heldSince(rec *space.Record) time.Time {
	return m.engine.SureSince(time.Unix(0, rec.Since))
}
