// Package engine is what this host's Docker engine has, and whether the peer knows it yet: whether the engine starts, when
// it last listed what it has, which networks of the host are on which subnet, and which addresses the host itself has.
//
// An engine asks again for what it has when it starts, answers no question before it is done, and releases late, twice or
// never. So what it asks for adds to what is known, and only its lists take from that. Two moments are compared by the
// numbers of one start, not by a clock: a list says nothing about what has a higher number than the list.
//
// An [Engine] owns its state, writes the records of its networks, and asks for a list by a note. It refuses to know pools,
// containers' addresses and other peers: what follows from a network that is there or gone is a matter of who asks.
package engine
