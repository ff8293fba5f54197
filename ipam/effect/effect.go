package effect

import (
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// Out is what one step wants done. Save comes first, in one transaction and durable; only then Send. The slices, and the
// bytes in Save, are valid until the next step; those in Send and Beat for good.
type Out struct {
	Save []Record
	Send []Send
	// Beat, where it is not nil, is the frame that tells what this peer knows
	// from now on. The carrier shows it to others whenever it can.
	Beat   []byte
	Note   []Note    // for logs and metrics; may be dropped
	WakeAt time.Time // step again no later than this; zero: nothing is due
}

// Send is a frame for another peer. It may be lost.
type Send struct {
	To    peer.ID // peer.None: a hint for everybody
	Frame []byte
}

// Record is one key of the peer's database. A nil Value deletes it.
type Record struct {
	Bucket     string
	Key, Value []byte
}
