package ipam

import "github.com/ringlet/ringlet/ipam/engine"

// ClockSlack is [engine.ClockSlack].
const ClockSlack = engine.ClockSlack
