package guard

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"slices"
)

// How memberlist frames what it sends.
const (
	labelled  = 244 // first byte of a label header
	encrypted = 10  // type of a message that is encrypted
	version   = 1   // of the encryption; version 0 pads, and is not sent by any release of ringlet
	nonceSize = 12
	tagSize   = 16
	// overhead is what encryption adds, in bytes. What it is added to is never empty.
	overhead = 1 + nonceSize + tagSize
)

// headSize is the size of type, length and version, with which a message begins behind its label, in bytes.
const headSize = 1 + 4 + 1

// MaxMessage is the longest message of a stream that is read, in bytes. It is the bound that memberlist has itself, and is
// above the longest frame.
const MaxMessage = 20 << 20

// Ring is the label and the keys of a cluster. It does not change, and is safe
// for concurrent use.
type Ring struct {
	label  []byte
	header []byte // the label header; empty without a label
	keys   []cipher.AEAD
}

// NewRing returns a ring with keys of 16, 24 or 32 bytes, which all open. With
// none nothing is encrypted. The label has at most 255 bytes.
func NewRing(label string, keys [][]byte) (*Ring, error) {
	r := &Ring{label: []byte(label)}
	if label != "" {
		r.header = append([]byte{labelled, byte(len(label))}, label...)
	}
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		sealed, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		r.keys = append(r.keys, sealed)
	}
	return r, nil
}

// Keyed reports whether the ring has a key.
func (r *Ring) Keyed() bool { return len(r.keys) > 0 }

// Packet checks a packet as far as that is cheap, and returns what is behind
// its label.
func (r *Ring) Packet(b []byte) (body []byte, why Reason) {
	n, why := r.labelOf(b)
	body = b[n:]
	switch {
	case why != None:
		return nil, why
	case len(body) == 0:
		return nil, Length
	case !r.Keyed():
		return body, plainPacket(body)
	case body[0] != version:
		return nil, notCurrent(body)
	case len(body) <= overhead:
		return nil, Length
	}
	return body, None
}

// OpensPacket reports whether a key opens what [Ring.Packet] has returned. Without keys everything is open. It writes to
// scratch, and returns it, longer if need be.
func (r *Ring) OpensPacket(body, scratch []byte) ([]byte, bool) {
	if !r.Keyed() {
		return scratch, true
	}
	return r.opens(body, r.label, scratch)
}

// labelOf returns how long the label header is, with which b begins.
func (r *Ring) labelOf(b []byte) (int, Reason) {
	switch has := len(b) > 0 && b[0] == labelled; {
	case !has && len(r.header) > 0:
		return 0, Unlabelled
	case !has:
		return 0, None
	case len(b) < len(r.header) || len(r.header) == 0 || string(b[:len(r.header)]) != string(r.header):
		return 0, Label
	}
	return len(r.header), None
}

// plainPackets are the types of packets that peers without keys send: not those that are compressed, which none does.
var plainPackets = []byte{ping, indirectPing, ack, suspect, alive, dead, compound, user, nack, checked}

// Types of messages.
const (
	ping         = 0
	indirectPing = 1
	ack          = 2
	suspect      = 3
	alive        = 4
	dead         = 5
	pushPull     = 6
	compound     = 7
	user         = 8
	nack         = 11
	checked      = 12
	failed       = 13
)

// plainPacket checks a packet where there are no keys. The version of the encryption is the type of an indirect ping as
// well, behind which there is a small map.
func plainPacket(body []byte) Reason {
	switch {
	case body[0] == version && !mapped(body):
		return Encrypted
	case !slices.Contains(plainPackets, body[0]):
		return Type
	}
	return None
}

// mapped reports whether a small map is behind the first byte, as MessagePack has it.
func mapped(body []byte) bool { return len(body) > 1 && body[1]&0xf0 == 0x80 }

// notCurrent says what a packet is that is not of the current version: the types of messages in the clear are close by.
func notCurrent(body []byte) Reason {
	plain := slices.Contains(plainPackets, body[0])
	if body[0] == ping {
		plain = mapped(body)
	}
	if plain {
		return Plain
	}
	return Version
}

// Direction is who has opened the stream on which a message comes.
type Direction uint8

// The directions.
const (
	Inbound Direction = iota // the other one: the message begins with a label header
	Answer                   // this peer: it does not
)

// Head is what has been learned of a message from its first bytes.
type Head struct {
	Want int // how many bytes there have to be before more is known; 0: all is known
	Len  int // of the whole message, in bytes; 0 without keys, where that is not known
}

// Head checks the first bytes of a message, as many as there are. Each byte
// that is wrong is refused as soon as it is there.
func (r *Ring) Head(b []byte, d Direction) (Head, Reason) {
	at := 0
	if d == Inbound {
		for ; at < len(r.header); at++ {
			switch {
			case at >= len(b):
				return Head{Want: at + 1}, None
			case b[at] == r.header[at]:
			case at == 0:
				return Head{}, Unlabelled
			default:
				return Head{}, Label
			}
		}
	}
	if at >= len(b) {
		return Head{Want: at + 1}, None
	}
	kind := b[at]
	switch {
	case d == Inbound && kind == labelled && at == 0: // there is no label here
		return Head{}, Label
	case !r.Keyed():
		return Head{}, plainMessage(kind, d)
	case kind != encrypted:
		if plainMessage(kind, d) == None {
			return Head{}, Plain
		}
		return Head{}, Type
	case len(b) < at+headSize:
		return Head{Want: at + headSize}, short(b[at:])
	}
	n := binary.BigEndian.Uint32(b[at+1:])
	switch {
	case n <= overhead || n > MaxMessage:
		return Head{}, Length
	case b[at+headSize-1] != version:
		return Head{}, Version
	}
	return Head{Len: at + headSize - 1 + int(n)}, None
}

// short checks the first byte of a length of which not all is there.
func short(b []byte) Reason {
	if len(b) > 1 && b[1] > MaxMessage>>24 {
		return Length
	}
	return None
}

// plainMessage checks the type of a message where there are no keys.
func plainMessage(kind byte, d Direction) Reason {
	want := []byte{pushPull, user, ping}
	if d == Answer {
		want = []byte{pushPull, ack, failed}
	}
	switch {
	case kind == encrypted:
		return Encrypted
	case !slices.Contains(want, kind):
		return Type
	}
	return None
}

// HeadSize returns how many bytes of a message have to be there at most until
// all is known that [Ring.Head] can know.
func (r *Ring) HeadSize(d Direction) int {
	if d == Answer {
		return headSize
	}
	return len(r.header) + headSize
}

// OpensMessage reports whether a key opens a whole message of the length that
// [Ring.Head] has told. It writes to scratch, and returns it, longer if need be.
func (r *Ring) OpensMessage(b []byte, d Direction, scratch []byte) ([]byte, bool) {
	h, why := r.Head(b, d)
	if why != None || h.Want > 0 || h.Len != len(b) || !r.Keyed() {
		return scratch, false
	}
	if d == Inbound {
		b = b[len(r.header):]
	}
	data := slices.Concat(b[:headSize-1], r.label)
	return r.opens(b[headSize-1:], data, scratch)
}

// opens tries all keys. Some of them may be on the way out, so the first one fits most often.
func (r *Ring) opens(sealed, data, scratch []byte) ([]byte, bool) {
	scratch = slices.Grow(scratch[:0], len(sealed))
	nonce, text := sealed[1:1+nonceSize], sealed[1+nonceSize:]
	for _, key := range r.keys {
		if _, err := key.Open(scratch, nonce, text, data); err == nil {
			return scratch, true
		}
	}
	return scratch, false
}
