package datagram

import "github.com/ringlet/ringlet/ipam/peer"

// The kinds of what goes from one endpoint to another. The list is append-only: a number is never used again.
const (
	kindMessage  = 0xf0 // a message as one datagram, which wants an ack
	kindStream   = 0xf1 // a message over a stream, which wants none
	kindAck      = 0xf2
	kindFragment = 0xf3
	kindBundle   = 0xf4
	// KindHeartbeat is not carried by an [Endpoint]. Package gossip adds such bytes to answers to probes, and to what two
	// peers exchange when they compare their lists of members.
	KindHeartbeat = 0xf5
)

// IsFrame reports whether bytes are a bare frame, and of no kind.
func IsFrame(b []byte) bool { return len(b) > 0 && b[0] < kindMessage }

const (
	// MaxSize is the longest datagram, in bytes.
	MaxSize = 1147
	// maxBundled is how long a message may become by frames that follow a long one, in bytes.
	maxBundled    = 1 << 20
	messageHeader = 1 + 8
	ackHeader     = 1 + len(peer.ID{})
	// maxAcks is how many IDs one ack has.
	maxAcks        = (MaxSize - ackHeader) / 8
	fragmentHeader = 1 + len(peer.ID{}) + 8 + 1 + 1
	fragmentSize   = MaxSize - fragmentHeader
	// maxFragments is how many fragments a message has at most.
	maxFragments = 16
	// maxFragmented is the longest message that goes as fragments, in bytes.
	maxFragmented = messageHeader + maxFragments*fragmentSize
	// bundleHeader is how much longer a bundle of two datagrams is than both, at most, in bytes.
	bundleHeader = 1 + 2 + 2
)
