// Command bench measures ringlet against the floor of the same work and against its peers, and prints a table of
// ratios, one row for each goal: make bench.
//
// It is a module of its own, so that what ringlet is compared with never becomes a dependency of ringlet.
//
// # How it measures
//
// Absolute times say more about a machine than about a program, so every figure is a ratio. All contenders of a row
// run in turns in one process, or with their servers beside it, for a short slice each, in an order that is shuffled
// anew in each round. The ratio is taken within the round, where all had the same machine; the table has the median
// of the rounds, and the quartiles.
//
// What only computes is measured in processor time of its thread, which others on the machine hardly change. What
// waits for disks and sockets is measured by the clock, as the median of many calls, for the mean of a loaded machine
// is worth nothing.
//
// A goal is met if the median is. If only the quartile nearer to the goal is, the row says so. A row whose quartiles
// are more than a quarter away from the median is marked as noisy. The head of the table says what else the machine
// did meanwhile.
//
// Counted beats timed: allocations, bytes and syncs are exact on any machine, and rows of them say so.
//
// # Peers
//
// The engine's built-in IPAM is imported as a library, and is compared with in an engine of the equipment of
// internal/e2e, where there is root and an engine's programs. etcd and CNI's host-local are run if they are installed,
// as the Debian packages etcd-server and containernetworking-plugins, or unpacked in the directory -peers. With -weave
// the allocator of Weave Net is built from bench/weave, a module that nothing else needs, and run beside ringlet. Rows
// for which something is missing are left out, with a line that says so.
package main
