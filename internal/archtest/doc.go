// Package archtest keeps the architecture: it has no code of its own, only a test that reads the imports of all
// packages with go list and compares them with tables. Each row of a table carries the reason for the rule, which a
// failing test prints.
//
// The rules, by the names that the tests have:
//
//	R1  the core imports directly only from a short list of the standard library, and core packages by the arrows below
//	R2  nothing below the core or ipam/node, however deep, is a module of others, net or net/http; nothing below the core logs
//	R3  ring, space and paxos do not know one another; nor do the adapters, nor they ipam/node
//	R4  each chosen module stands behind one package
//	R5  nothing but plugin imports what is under plugin; internal/logattr is for the shell
//	R6  no test equipment in the binary
//	R7  the binary's modules are a list that a reviewer sees change
//	R8  every package explains itself: a comment of more than one sentence, and for the core an example that runs
//	R9  virtual time comes from internal/bubble, which keeps the race detector whole
//	R10 one toolchain, the same in all go.mod files
//	R11 no type of the core has more than 25 fields
//	R12 each room around the core imports of ours only what its row says, beside internal
//	R12 a nolint names linters that .golangci.yml enables
//
// The arrows of the core are the rows of one table. ipam imports all core packages, and nothing of the core imports ipam.
// addr, peer, codec and rule know nothing above them.
//
// A package that is named in a table and does not exist fails the test too, so that no row outlives its package.
package archtest
