// Package rule names the rules of the protocol that a test can take away, to see that the simulator notices their absence.
//
// Each part of the core that has such a rule asks a [Set] whether the rule is taken away. In production that set is empty,
// and nothing but a test can fill it. docs/protocol.md has the rules, the schedules that break the promise without them,
// and the tests.
//
// The package refuses to know how a rule works. Its code is in one place of the room that the rule belongs to.
package rule
