// Package wire is what peers say to one another: one frame for each message,
// with a header that says who speaks and what it knows.
//
// It refuses to know what follows from a frame, and how it travels.
//
// A frame is
//
//	version (1 byte), type (1 byte), header, body
//
// Every header carries its author's ID, boot and nonce, so that a frame is
// judged by what it says and not by the connection on which it came, and the
// last slot that its author knows with a digest of the state there, so that
// every message also shows who lags and who differs.
//
// [Decode] takes hostile bytes: it never panics, never allocates more than its
// input is long, and refuses a body above the limit of its type before it
// reads it. A frame of a later version, or of a type that this release does
// not know, is an error of its own ([ErrUnknown]): it is counted and dropped,
// and nothing else happens. What changes its meaning gets a new type.
//
// Which types and commands a cluster uses is agreed: its level (see
// [chronicle.Level]). Hello and Welcome say which levels their sender speaks;
// they are never changed, so that releases that have nothing else in common can
// tell each other which of them has to be upgraded.
package wire
