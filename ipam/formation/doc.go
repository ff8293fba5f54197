// Package formation is how a peer comes to be in a cluster: it founds one alone, founds one with the hosts of a list, or
// joins one that it meets.
//
// A [Seeker] decides which of these, and when. Its rules keep two clusters from being founded where one is meant (R36 to
// R39): a peer that sees a cluster founds none, one whose engine has networks that its database lacks does not either,
// and of two clusters in which nobody has anything, one gives way. [Admissions] are the peers that ask to be admitted
// to the cluster of this one: each has to answer a fresh challenge (R63).
//
// The package refuses to know how slot 1 is decided and what a cluster is for. It proposes nothing and sends nothing: it
// returns the commands that the caller is to have decided.
package formation
