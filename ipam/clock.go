package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/bootcheck"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/rule"
)

// ClockSlack is [engine.ClockSlack].
const ClockSlack = engine.ClockSlack

// beginClock finds out whether somebody has set the clock before this start.
func (m *Machine) beginClock() {
	if set := m.members.Me.BeginClock(m.cfg.HostBoot); !set.IsZero() {
		m.engine.SetClock(set)
	}
}

// disturb has this peer go on after somebody has set its clock by that much, or frozen the process: in either case it may
// have missed that much. What must last for a time begins to last anew (R66), and what was heard before counts no more (R67).
// Who has missed much asks the others as after a start (R11): they may have evicted this peer meanwhile, and given up its
// space.
func (m *Machine) disturb(by, missed time.Duration) {
	if !m.lacks(rule.Disturbed) {
		m.engine.SetClock(m.now)
		m.members.Me.Disturb(m.cfg.HostBoot, by)
	}
	if missed < bootcheck.Slumber {
		return
	}
	m.warnings.Sleep(missed)
	if !m.lacks(rule.Awake) { // R11
		m.members.Check.Stop()
		m.beginCheck()
	}
}
