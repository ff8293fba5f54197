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
//
// The arrows: ipam imports all core packages; replog imports effect, which imports wire; chronicle imports ring and
// table; ring, space and table import addr; and whatever is above addr, peer and codec may import them.
//
// A package that is named in a table and does not exist fails the test too, so that no row outlives its package.
package archtest
