// Package newdb has a peer with a new database wait before it chooses an address.
//
// A new database knows nothing of the addresses that containers have. Those of its own host the engine lists. Where several
// databases were lost together, space of this peer may be in use on another host, and only the engine there can tell. So
// the peer chooses nothing before the peers that it sees have taken in their own lists, too. They say in Hello and Welcome
// how far they are. A peer that does not get ahead is waited for two minutes at most. A host whose database was lost as
// well, and that nobody sees meanwhile, is found out about too late.
//
// The package refuses to know pools, addresses and calls: the caller says whether what this host keeps back is still
// another peer's.
package newdb
