package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
)

// Rule is a rule of the protocol that [Without] can take away.
type Rule = rule.Set

// The rules; see package rule.
const (
	RulePromise     = rule.Promise
	RulePrefix      = rule.Prefix
	RuleElectorate  = rule.Electorate
	RuleBoot        = rule.Boot
	RuleOwner       = rule.Owner
	RuleUnused      = rule.Unused
	RuleOnce        = rule.Once
	RuleAside       = rule.Aside
	RuleAsideDisk   = rule.AsideDisk
	RuleList        = rule.List
	RuleLists       = rule.Lists
	RuleChallenge   = rule.Challenge
	RuleAwake       = rule.Awake
	RuleDisturbed   = rule.Disturbed
	RuleStale       = rule.Stale
	RuleSuspend     = rule.Suspend
	RuleWarn        = rule.Warn
	RuleUsedUp      = rule.UsedUp
	RuleMark        = rule.Mark
	RuleShadow      = rule.Shadow
	RuleSight       = rule.Sight
	RuleDoubt       = rule.Doubt
	RuleShown       = rule.Shown
	RuleMaking      = rule.Making
	RuleLater       = rule.Later
	RuleTwoLists    = rule.TwoLists
	RuleConfirmed   = rule.Confirmed
	RuleNonce       = rule.Nonce
	RuleSerials     = rule.Serials
	RuleListed      = rule.Listed
	RuleIdle        = rule.Idle
	RuleParting     = rule.Parting
	RuleNumbers     = rule.Numbers
	RuleOpposite    = rule.Opposite
	RuleLevels      = rule.Levels
	RuleDigests     = rule.Digests
	RuleFreedAside  = rule.FreedAside
	RuleReplays     = rule.Replays
	RuleWhereabouts = rule.Whereabouts
	RuleStarts      = rule.Starts
	RuleZoneVotes   = rule.ZoneVotes
	RuleLeap        = rule.Leap
	RuleBehind      = rule.Behind
	RuleCounted     = rule.Counted
	RuleUndecided   = rule.Undecided
	RulePresent     = rule.Present
	RuleSupposed    = rule.Supposed
	RuleRecovery    = rule.Recovery
	RuleNeighbour   = rule.Neighbour
	RuleOld         = rule.Old
	RuleTwins       = rule.Twins
	RuleStopped     = rule.Stopped
	RuleStoppedDisk = rule.StoppedDisk
	RuleTrust       = rule.Trust
	RuleOldSlots    = rule.OldSlots
	RuleShared      = rule.Shared
	RuleSeats       = rule.Seats
	RuleStarting    = rule.Starting
	RuleUnmarked    = rule.Unmarked
	RuleWithheld    = rule.Withheld
	RuleStanding    = rule.Standing
	RuleQuarantine  = rule.Quarantine
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
func (m *Machine) Told() int { return m.trade.Announcements() }

// TendedAt returns when a peer last looked after all of its pools, in nanoseconds since 1970.
func (m *Machine) TendedAt() int64 { return m.pace.tendedAt }

// NameOf returns how another peer is called.
func (m *Machine) NameOf(id peer.ID) string { return m.members.View().NameOf(id) }
