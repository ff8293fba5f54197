// Package paxos decides one value among peers that crash, restart and lose
// messages: one run of basic Paxos for one slot of the chronicle.
//
// The [Electorate] says whose answers count, an [Acceptor] is what one voter
// remembers, a [Proposer] is one peer's attempt to have a value decided. All
// three are plain values that a caller steps: no goroutine, clock, disk or
// network is here, and the same calls give the same results. The package does
// not know which slot it decides, what a value means (opaque bytes, never
// written to, possibly shared) or when to try again.
//
// # The two phases
//
// A proposer picks a [Ballot] above any it has seen and asks every voter to
// promise it ([Prepare]). A voter that promised nothing higher does so, and
// names the value it accepted last ([Promise]). With promises of a majority
// the proposer asks for a value to be accepted ([Accept]): of those named, the
// one with the highest ballot; its own only if none was named. When a majority
// has accepted that ballot ([Accepted]) its value is decided, for ever.
//
// It works because any two majorities share a voter. Say v was decided at
// ballot b. The majority that promises the next higher ballot contains a voter
// that accepted v at b, and it did so before it promised, since afterwards it
// would have refused b. So v is named, nothing above b is, and v is proposed
// again. By induction so it is at every ballot above b.
//
// # The ballot that needs no promises
//
// Promises are asked for to learn what was accepted at lower ballots, and to
// end those. Below round 0 there is none, so an Accept at round 0 may leave at
// once ([Proposer.StartUnprepared]), which saves a round of messages and of
// writes. What is left to see to is that round 0 stands for one value: it is
// one peer's alone, its owner's, and the owner uses it once. Its own acceptor
// remembers that it did: it accepts the value first, on disk before the Accept
// leaves, and the ballot is begun only while that acceptor has promised and
// accepted nothing. Everybody else begins at round 1 with Prepare, and so does
// the owner from then on; they find a value of round 0 in the promises as they
// find any other, and the induction above begins there.
//
// # The caller's duties
//
//  1. For one slot all peers use the same electorate, and name the same owner
//     of round 0, if any. Both follow from the slot before, so who does not
//     know that one takes no part.
//  2. What an acceptor's call changed is on disk before the answer leaves. A
//     call that changed nothing may repeat a promise of an earlier call, so its
//     answer waits until what the earlier one changed is on disk. Only a
//     [Refusal] may leave at once.
//  3. Answers to oneself count like all others, and likewise only with the
//     write: nothing that follows from them leaves before it. A lone peer may
//     thus put promise, acceptance and decision into a single write.
//  4. The boot given to a proposer was raised on disk before anything was sent,
//     and there is one proposer per slot and boot. Then no ballot is ever used
//     for two values, although a proposer keeps nothing on disk. An Accept at
//     round 0 leaves only with the write of the sender's own acceptance.
//  5. The sender of an answer is who the transport says it is. Acceptors are
//     counted by that ID, which outlives restarts and dies with its disk.
//  6. Acceptor state is dropped once the decision is on disk. From then on the
//     decision is the answer to every question about the slot.
//  7. Messages get lost: ask those in [Proposer.Missing] again. Two proposers
//     can outbid each other for ever: wait at random, and longer each time,
//     before the next [Proposer.Start].
//
// Duties 1 to 6 are for safety, the last is for progress, for which also a
// majority must be alive and heard. No clock is needed for safety.
//
// A peer learns a decision from its own proposer, or because it is told; there
// is nothing to count in that case and so no third role here.
//
// # Concurrency
//
// An Electorate does not change and is safe to share. An Acceptor and a
// Proposer are not safe for concurrent use.
//
// # Tests
//
// The tests run the rules through seeded schedules of loss, repetition, delay
// and restarts, and small worlds through every order of events there is. Then
// they take away one rule at a time, to see that two decisions are found. A
// schedule that fails prints its seed and its trace; -seed repeats it,
// -schedules asks for another number of them, -short takes a tenth.
package paxos
