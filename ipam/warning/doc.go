// Package warning keeps the addresses that are in use on a host whose peer does not own them (R56).
//
// A host whose space was given up may come back with its containers. Their addresses may be anybody's by then. Its peer
// warns every peer that it reaches of them, at once and again each minute, until it has started over and has them again,
// or the containers are gone. A warned peer hands none of them out for ten minutes. A peer that starts over warns itself
// and the others of what its former self has left.
//
// The package refuses to know what a warning does. It has no pool and no space, and does not know who holds an address,
// which peer can be reached or who was given up. It keeps the warnings, on disk and for how long, and says when one
// ends.
package warning
