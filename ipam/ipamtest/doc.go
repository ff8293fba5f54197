// Package ipamtest simulates clusters of the real core: hosts with clocks that drift, disks that lose what was not committed, engines
// with containers, users and operators, and between the hosts a network that loses, delays, doubles and misdelivers. A crash may come
// between any two effects. One seed makes one schedule.
//
// [Simulate] draws the [Weather] and runs it. When the faults are over everything has to come right: all peers agree, nothing is held
// by nobody, and every address that there is can be had. A [BreachError] names the invariant that broke. To read on, from the top:
//
//   - simulate.go: the schedule, its options and its result, and what takes time, written as if it could wait. weather.go: all that is
//     drawn, in one table. nemesis.go: the faults, in one table, and what happens again and again.
//   - site.go, process.go: a host, and the plugin's process on it. network.go: what is between hosts, and a device that sends again
//     what it has recorded.
//   - dockerd.go, container.go, starts.go, lists.go: what an engine asks, and what it and the host's interfaces tell. users.go,
//     locker.go: who has it do so, and clients. keepback.go: what networks and operators keep back. identities.go: label sets and locks.
//   - absence.go, givenup.go, recovery.go: hosts that are away, that were given up and start over, and clusters that lost a majority.
//     fairness.go: what keeps a schedule winnable.
//   - oracle.go, history.go: who sees everything at once, and compares after each commit.
//   - settle.go, account.go, clearaway.go: what must be so in the end.
//   - effects.go: what machines do, as a hash, as counts, as answers and as text.
//
// What lockers were told (see [Operation]) can be compared with a lock for each address, without any knowledge of all this. Two releases
// of the core are compared with TestSimHashes (nothing may change: a change that only moves code) and TestSimAnswers (what was granted
// and is refused now, which no invariant shows). Both write a file with the one release and compare with the other.
//
// Nothing here is used in production.
package ipamtest
