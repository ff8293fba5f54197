// Package start is who this peer is, and which start of its process this is: the ID, the number of the start, when it began
// and when it came into its cluster, and whether somebody has set the host's clock since.
//
// A peer has one ID as long as its database lives, and a new number and nonce at each start, so that others tell what it says
// now from what it said before. Both are on disk before the peer says anything.
//
// A [Start] owns these records. It refuses to know what follows from a start: whether the database may be used, and what a
// clock that was set makes of the age of an address.
package start
