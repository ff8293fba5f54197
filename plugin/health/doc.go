// Package health shows whether the network of the containers works between hosts. Gossip may go over another one: a management
// network works on while the VLAN of the containers is broken.
//
// A host that sets RINGLET_HEALTH to one of its addresses on that network answers there, and asks all other hosts that have a health
// address, from its own. So both ways of a packet go over that network. An answer is one line with the ID of the peer: another host
// that has the same address is no answer.
//
// # How much it asks
//
// One host after the other, spread over a round: 30 seconds, or half a second for each host, if that is longer. So a host of a cluster
// of 150 opens two connections a second, and gets as many. At most eight questions are under way. Without the setting nothing runs.
//
// # What it refuses to know
//
// It is information. No address waits for it, and no decision reads it. It refuses to know how gossip does, which addresses
// containers have, and how other hosts tell where they answer.
//
// A [Monitor] is safe for concurrent use. To test against it, run two on addresses of the loopback network.
package health
