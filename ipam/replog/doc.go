// Package replog is the replicated log: how the peers of a cluster decide commands, slot after slot, and what each peer keeps
// of that.
//
// The core calls the log its chronicle, and package chronicle says what the commands do. This package has one peer's part in
// the agreement, a [Log]:
//
//   - what the peer has promised and accepted in the next slot (vote.go)
//   - its own attempt to have that slot decided (attempt.go)
//   - its proposals, which it numbers, and brings to a peer that proposes them (propose.go)
//   - what was decided, for itself and for peers that lag (learn.go), on disk and in memory (slots.go)
//
// Nothing is called back. A decision, a slot's outcomes and the proposals that are settled are returned. For each slot the
// caller applies the value ([Log.Apply]), follows the outcomes, closes the slot ([Log.Close]) and goes on ([Log.Next]).
//
// The package refuses to know pools, spaces and engines. It does not find out who lives or which peer may be trusted: it asks
// its [Peers]. Whether a proposal may be made its caller decides.
package replog
