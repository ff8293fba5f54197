package ipam

import (
	"time"

	"github.com/ringlet/ringlet/ipam/engine"
)

// Mark is a moment of one start of a machine: [Machine.Mark] returns it.
type Mark = engine.Mark

// Mark returns the present moment, for what is about to be asked.
func (m *Machine) Mark(now time.Time) Mark { return m.engine.Mark(now) }

// ClockSlack is [engine.ClockSlack].
const ClockSlack = engine.ClockSlack
