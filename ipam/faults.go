package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/rule"
)

// faults are what tests of the simulator change: rules of the protocol that
// are taken away, to see that their absence is noticed, and limits that no
// schedule would reach. The zero value is the protocol.
type faults struct {
	without rule.Set
	// apply replaces [chronicle.State.Apply], to take away what all peers
	// check alike.
	apply func(*chronicle.State, []chronicle.Command) []chronicle.Outcome
	// history replaces how many slots pass between two snapshots, how many are
	// kept behind one, and how many are kept in memory.
	history uint64
	// restless has each step ask all that goOn asks, to see that nothing of it
	// is missed at rest.
	restless bool
}

// lacks reports whether one of the rules is taken away.
func (m *Machine) lacks(rules rule.Set) bool { return m.cfg.faults.without.Has(rules) }
