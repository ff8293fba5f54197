package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Rule is a rule of the protocol that [Without] can take away.
type Rule = rule

// The rules; see faults.go.
const (
	RulePromise    = rulePromise
	RulePrefix     = rulePrefix
	RuleElectorate = ruleElectorate
	RuleBoot       = ruleBoot
	RuleOwner      = ruleOwner
	RuleUnused     = ruleUnused
	RuleOnce       = ruleOnce
	RuleAside      = ruleAside
	RuleAsideDisk  = ruleAsideDisk
	RuleList       = ruleList
	RuleLists      = ruleLists
	RuleChallenge  = ruleChallenge
	RuleAwake      = ruleAwake
	RuleSuspend    = ruleSuspend
	RuleWarn       = ruleWarn
	RuleUsedUp     = ruleUsedUp
	RuleMark       = ruleMark
	RuleShadow     = ruleShadow
	RuleSight      = ruleSight
	RuleDoubt      = ruleDoubt
	RuleShown      = ruleShown
)

// Without returns the settings of a peer that does without rules.
func Without(cfg Config, r Rule) Config {
	cfg.faults.without |= r
	return cfg
}

// Applying returns the settings of a peer to which decided batches do
// something else.
func Applying(cfg Config, f func(*chronicle.State, []chronicle.Command) []chronicle.Outcome) Config {
	cfg.faults.apply = f
	return cfg
}

// Restless returns the settings of a peer that never takes itself to be at rest.
func Restless(cfg Config) Config {
	cfg.faults.restless = true
	return cfg
}

// Remembering returns the settings of a peer that keeps few slots, so that
// those who lag get a snapshot.
func Remembering(cfg Config, slots uint64) Config {
	cfg.faults.history = slots
	return cfg
}

// Told returns how many announcements of others a peer remembers, of whatever pools.
func (m *Machine) Told() (n int) {
	for _, c := range m.contacts {
		n += len(c.spare)
	}
	return n
}

// TendedAt returns when a peer last looked after all of its pools, in nanoseconds since 1970.
func (m *Machine) TendedAt() int64 { return m.tendedAt }

// NameOf returns how another peer is called.
func (m *Machine) NameOf(id peer.ID) string { return m.nameOf(id) }
