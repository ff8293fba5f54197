package ipam

import "github.com/ringlet/ringlet/ipam/chronicle"

// faults are what tests of the simulator change: rules of the protocol that
// are taken away, to see that their absence is noticed, and limits that no
// schedule would reach. The zero value is the protocol.
type faults struct {
	without rule
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

// rule is a set of rules.
type rule uint32

// The rules that can be taken away, with what breaks then (protocol, 9).
const (
	rulePromise    rule = 1 << iota // a voter writes what it promises: else two values are decided
	rulePrefix                      // a voter knows all slots before the one that it votes on: else the same
	ruleElectorate                  // voters that cannot be reached count: else the same
	ruleBoot                        // a ballot names the boot of its proposer: else the same
	ruleOwner                       // the lowest ballot, which nobody is asked to promise, is the first voter's: else the same
	ruleUnused                      // who has promised or accepted anything does not use that ballot: else the same
	ruleOnce                        // what is settled is not proposed again: else, if numbers do not count, it has effect again
	ruleAside                       // what is being given away is set aside: else it is handed out meanwhile
	ruleAsideDisk                   // also over a crash: else it is handed out after one
	ruleSight                       // who sees a cluster founds none: else there are two
	ruleList                        // without its database a peer waits for the engine's list: else it hands out what containers have
	ruleLists                       // and for those of others who may have lost theirs, too: else it hands out what containers there have
	ruleSuspend                     // who is given up stays at the slot before: else its containers have what is others'
	ruleWarn                        // who is given up warns of what its containers use: else others hand it out
	ruleUsedUp                      // who asks with an ID that is used up is told so: else each question costs a slot
	ruleChallenge                   // a peer is admitted that answers a fresh challenge: else one that is gone has a vote
	ruleMark                        // who begins anew founds nothing: else there are two clusters
	ruleShadow                      // who begins anew hands out nothing of what was in use there: else containers there have it
	ruleAwake                       // who was suspended asks as after a start: else it hands out what was given up meanwhile
	ruleDoubt                       // a release of an address in doubt frees nothing (R31): else it frees that of a container that lives
	ruleShown                       // nor does one list free a container behind it that none has shown: else it frees that of one that starts
)

func (m *Machine) lacks(r rule) bool { return m.cfg.faults.without&r != 0 }

// apply applies a decided batch.
func (m *Machine) apply(batch []chronicle.Command) []chronicle.Outcome {
	if f := m.cfg.faults.apply; f != nil {
		return f(m.state, batch)
	}
	return m.state.Apply(batch)
}
