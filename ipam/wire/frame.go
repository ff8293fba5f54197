package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Version is the version of the frames that this release writes, the only one
// that it reads.
const Version = 1

// MaxFrame is the longest frame, in bytes.
const MaxFrame = 16 << 20

// Sentinels of [Decode].
var (
	// ErrUnknown is returned when a frame is of a later version, or of a type
	// that this release does not have.
	ErrUnknown = errors.New("frame of a later release")
	// ErrTooLong is returned when a frame is longer than its type may be.
	ErrTooLong = errors.New("frame is too long")
)

// Header says who sent a frame, and what that peer knows.
type Header struct {
	Cluster [16]byte // zero: the sender belongs to none yet
	From    peer.ID
	To      peer.ID   // peer.None: everybody
	Boot    peer.Boot // 1 and up
	Nonce   uint64    // random, made at the start that Boot counts
	Slot    uint64    // the last slot that the sender knows
	Digest  uint64    // of the state at that slot; 0 before the first
}

// Frame is one message.
type Frame struct {
	Header
	Body Body
}

// Type tells bodies apart on the wire. The numbers are never reused.
type Type byte

// Body is what a frame says. The types of this package that have a Type
// method are all there are.
type Body interface {
	// Type returns the number of the body's type.
	Type() Type
	append(b []byte) []byte
}

// Encode appends the frame to b.
func Encode(b []byte, f *Frame) []byte {
	b = append(b, Version, byte(f.Body.Type()))
	b = append(b, f.Cluster[:]...)
	b = append(b, f.From[:]...)
	b = append(b, f.To[:]...)
	b = codec.Uint(b, uint64(f.Boot))
	b = binary.BigEndian.AppendUint64(b, f.Nonce)
	b = codec.Uint(b, f.Slot)
	b = binary.BigEndian.AppendUint64(b, f.Digest)
	return f.Body.append(b)
}

// TypeOf returns the type of a frame without reading the rest of it; 0 if it
// has none that this release could read.
func TypeOf(b []byte) Type {
	if len(b) < 2 || b[0] != Version {
		return 0
	}
	return Type(b[1])
}

// Decode reads one frame, which is all of b. What it returns may share memory
// with b.
func Decode(b []byte) (*Frame, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("%w: frame of %d bytes", codec.ErrCorrupt, len(b))
	}
	if b[0] != Version {
		return nil, fmt.Errorf("%w: version %d", ErrUnknown, b[0])
	}
	kind, ok := kinds[Type(b[1])]
	if !ok {
		return nil, fmt.Errorf("%w: type %d", ErrUnknown, b[1])
	}
	if len(b) > maxHeader+kind.limit {
		return nil, fmt.Errorf("%w: %d bytes, of type %d", ErrTooLong, len(b), b[1])
	}
	r := codec.NewReader(b[2:])
	f := &Frame{}
	f.Cluster = r.ID("cluster")
	f.From = r.ID("sender")
	f.To = r.ID("addressee")
	f.Boot = peer.Boot(r.Uint("boot"))
	f.Nonce = fixed64(r, "nonce")
	f.Slot = r.Uint("slot")
	f.Digest = fixed64(r, "digest")
	if r.Err() == nil && (!isPeer(f.From) || f.Boot == 0) {
		r.Fail("sender")
	}
	f.Body = kind.read(r)
	if err := r.Done(); err != nil {
		return nil, err
	}
	return f, nil
}

// maxHeader is how long a header can be, with version and type.
const maxHeader = 2 + 16 + 16 + 16 + 10 + 8 + 10 + 8

func fixed64(r *codec.Reader, what string) uint64 {
	b := r.Fixed(what, 8)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}
