// Package trade moves space between peers: how much of a pool a peer keeps in stock, whom it asks for more, and what it gives
// to those who ask.
//
// A [Trade] is one peer's part in that:
//
//   - it says how much to open before it is needed, and what to close behind (stock.go)
//   - it says to whom to give what is idle as the peer drains (bequeath.go)
//   - it asks other peers, one at a time, for what only they can do, and keeps what they refused (ask.go)
//   - it answers others once, and chooses what it can spare for them (answer.go)
//   - it announces what it has to spare, and keeps what others announced (announce.go)
//
// The caller proposes the actions that a Trade returns. What a Trade keeps is advice: rings and commands alone say whose an
// address is, and nothing of it is on disk.
//
// The package refuses to know holders, networks and engines: whether an address may be given away its caller finds out. It
// does not find out who lives, and has no sentence for people.
package trade
