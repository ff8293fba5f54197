// Package ipamtest simulates clusters of the real core: the clock is a number, the disk a map, and a crash may come between any two
// effects.
//
// [Simulate] runs whole clusters: hosts with clocks that drift, disks that lose what was not committed, engines with containers,
// and between them a network that loses, delays, doubles and misdelivers. One seed makes one schedule. A nemesis strikes (see
// [Weather]), an oracle that sees everything at once compares after each commit, and when the faults are over everything has to
// come right: all peers agree, nothing is held by nobody, and every address that there is can be had. A [BreachError] names the
// invariant that broke. What lockers were told (see [Operation]) can be compared with a lock for each address by somebody who knows
// nothing of all this.
//
// Two releases of the core are compared with TestSimHashes (nothing may change: a change that only moves code) and TestSimAnswers
// (what was granted and is refused now, which no invariant shows). Both write a file with the one release and compare with the
// other.
//
// Nothing here is used in production.
package ipamtest
