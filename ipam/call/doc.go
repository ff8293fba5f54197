// Package call is what can be asked of a peer, and what it answers: by the engine, for the networks and containers that it
// makes; by the shell, of what it sees on the host; by an operator or a client, with a command.
//
// A request is data. What can be told from it alone to be wrong, its Check tells, with a sentence that says what to do.
// The package refuses to know the state: which pools there are, who holds an address, and whether the peer may answer.
package call
