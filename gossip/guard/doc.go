// Package guard tells what a peer has sent from what a stranger has, before
// memberlist sees a byte of it. While a cluster has keys, a peer's bytes are
// those that begin with the cluster's label, are of the current version of
// the encryption and open with one of its keys, as a whole.
//
// It refuses to know who sends, how often, and what a message says.
//
// The checks are pure: bytes go in, and the reason of a refusal comes out.
// Who reads, waits and counts is package gossip.
//
// A packet is
//
//	label header, version (1 byte), nonce (12), ciphertext, tag (16)
//
// and a message of a stream, of which each direction has one,
//
//	label header, type (1 byte), length (4), version (1), nonce (12), ciphertext, tag (16)
//
// where the length counts what follows it, and the label header is
//
//	244 (1 byte), length of the label (1), label
//
// in packets and from the side that opens the stream, and is absent where the label
// is empty, and in an answer. The label is associated data of both; type and
// length of a message are so as well.
package guard

// Reason is why something was refused.
type Reason uint8

// The reasons, in the order in which they are found.
const (
	// None: it was not refused.
	None Reason = iota
	// Unlabelled: there is no label. Each peer has one, so it is no peer.
	Unlabelled
	// Label: it is of another cluster.
	Label
	// Type: it is no message that peers send.
	Type
	// Plain: it is not encrypted, and this peer has keys.
	Plain
	// Encrypted: it is encrypted, and this peer has no key.
	Encrypted
	// Version: it is not of the current version of the encryption.
	Version
	// Length: it is too short to be encrypted, or longer than its sender may be.
	Length
	// Budget: it was not looked at, as too much of what its source had sent could not be decrypted.
	Budget
	// Key: no key opens it, or it was changed.
	Key
	// Cut: the stream ended before the message did.
	Cut
	// Time: the stream brought its message too slowly.
	Time
	// Room: there were too many streams, or too many bytes of them.
	Room
	// Target: an answer to it would have gone to an address that nobody is known at.
	Target

	// NumReasons is how many there are, None among them.
	NumReasons = iota
)

var reasons = [...]string{
	"", "unlabelled", "label", "type", "plain", "encrypted", "version", "length", "budget", "key", "cut", "time", "room", "target",
}

// String returns one word, which is stable.
func (r Reason) String() string { return reasons[r] }
