// Package holding is the record of an address in a peer's database: the holder, the time, and the number of the grant.
//
// Each address has a key of its own, so an allocation writes some sixty bytes, whatever else is held. Two records are
// written for each container that comes and goes, without an allocation, and a start reads one for each address that is
// held.
//
// The package refuses to know what a record means. It does not know whose an address is or whether its pool exists, and
// it keeps no record in memory.
package holding
