// Package doubt keeps the addresses of which a release may still come that is not the present holder's.
//
// Docker may send the release of an address late, once or never: the engine has taken the container off its lists before,
// waits for the network driver, and tries for 15 seconds where the plugin is away. It keeps no other container from asking
// for the address meanwhile, and a release does not name its container.
//
// So an address whose holder ended without a release is in doubt for ten minutes (R31). A release of an address in doubt
// frees nothing: the next list of the engine tells whether the present holder lives. How many such releases may come, the
// peer does not count. Doubt is kept by address and not with the record of the holder, since the record may go: the pool
// is removed, the range is closed, or a network has the address in between.
//
// The package refuses to know who holds an address: the caller says what a list tells of the holder, and frees.
package doubt
