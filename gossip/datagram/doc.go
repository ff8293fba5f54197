// Package datagram carries frames between two peers over datagrams, and over streams where datagrams do not get through.
//
// A peer sends frames to another one as a message. A message that fits goes as one datagram, a longer one as a few
// fragments. The sender sends each datagram again until the receiver acknowledges it, and after a second it drops the
// message: by then the protocol above has timed out and asked again. If no acknowledgement comes for half a second, or the
// message is too long, the sender opens a stream for it. So what is lost costs about a round trip, and no old message
// holds up a new one.
//
// An acknowledgement is between the two endpoints. The receiver may still refuse the frames above.
//
// The package knows the ID of a peer and the length of a frame. It refuses to know addresses, sockets, keys, and what a
// frame says, except who wrote it. A [Network] sends the bytes, and [Endpoint.Receive] takes in what a network brings.
// Nothing here trusts a byte that it reads.
//
// # Wire format
//
// All that goes from one endpoint to another begins with its kind, one byte. Kinds lie above all versions of a frame, as a
// broadcast is a bare frame. Numbers are big-endian, and lengths are uvarints. IDs of messages are random.
//
//	message   kind (1), ID (8), then for each frame its length and the frame
//	ack       kind (1), peer that acknowledges (16), IDs (8 each)
//	fragment  kind (1), sender (16), ID of the message (8), number (1), count (1), bytes
//	bundle    kind (1), then for each datagram its length and the datagram
//
// A message over a stream has a kind of its own, and gets no acknowledgement. The bytes of its fragments, in the order of
// their numbers, which begin with 1, are the message behind its ID. The ack for a fragment has the ID of the message plus
// the number of the fragment. The ack for the message stands for all of its fragments. A bundle carries an ack together
// with a datagram that goes the same way.
package datagram
