package holding

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/space"
)

// Bucket is where the database has the addresses that a peer holds, or held: under the slot of the pool (8 bytes), the
// place of its command in the slot (4) and the offset of the address (8), big-endian, so that addresses handed out one
// after the other lie side by side.
const Bucket = "holding"

// keyLen is the length of the key of an address.
const keyLen = 8 + 4 + 8

func putKey(b *[keyLen]byte, k chronicle.PoolKey, o addr.Offset) {
	binary.BigEndian.PutUint64(b[:], k.Slot)
	binary.BigEndian.PutUint32(b[8:], k.Place)
	binary.BigEndian.PutUint64(b[12:], uint64(o))
}

// ParseKey returns the pool and the address whose record has the key.
func ParseKey(b []byte) (k chronicle.PoolKey, o addr.Offset, err error) {
	if len(b) != keyLen {
		return k, 0, fmt.Errorf("%w: key of an address has %d bytes", codec.ErrCorrupt, len(b))
	}
	k = chronicle.PoolKey{Slot: binary.BigEndian.Uint64(b), Place: binary.BigEndian.Uint32(b[8:])}
	return k, addr.Offset(binary.BigEndian.Uint64(b[12:])), nil
}

// The value of an address. All that has a length of its own stands at a place of its own: two
// values are written for each container that comes and goes, and a start reads one for each
// address that is held.
//
//	byte 0       format
//	byte 1       state
//	byte 2       kind
//	byte 3       1 if the reference is packed (space.AppendID), else 0
//	bytes 4-11   since when, in nanoseconds since 1970
//	bytes 12-19  sequence number
//	bytes 20-27  key, 0 for none
//	bytes 28-31  network, 0 for none
//	bytes 32-37  MAC, all 0 for none
//	bytes 38-39  length of the name
//	then         the name; the reference, up to the end
const (
	format   = 2
	fixedLen = 40
	format1  = 1 // of earlier releases
)

func put(b *[fixedLen]byte, h *space.Holder, state space.State, seq uint64, since int64) {
	b[0], b[1], b[2], b[3] = format, byte(state), byte(h.Kind), 0
	binary.BigEndian.PutUint64(b[4:], uint64(since))
	binary.BigEndian.PutUint64(b[12:], seq)
	binary.BigEndian.PutUint64(b[20:], uint64(h.Key))
	binary.BigEndian.PutUint32(b[28:], h.Network)
	*(*[6]byte)(b[32:]) = h.MAC
	binary.BigEndian.PutUint16(b[38:], uint16(len(h.Name))) // no name is longer than MaxHolder, or MaxNote
}

// maxText limits the names that are read back.
const maxText = 4096

// Parse reads a record into r, and returns its name and reference, which
// share the memory of b. A reference that is packed is one of [space.AppendID].
func Parse(b []byte, r *space.Record) (name, ref []byte, packed bool, err error) {
	if len(b) > 0 && b[0] == format1 {
		return parse1(b, r)
	}
	if len(b) < fixedLen || b[0] != format {
		return nil, nil, false, fmt.Errorf("%w: format of an address", codec.ErrCorrupt)
	}
	f := (*[fixedLen]byte)(b)
	r.State, r.Kind, packed = space.State(f[1]), space.Kind(f[2]), f[3] == 1
	r.Since = int64(binary.BigEndian.Uint64(f[4:]))
	r.Seq = binary.BigEndian.Uint64(f[12:])
	r.Key = space.Key(binary.BigEndian.Uint64(f[20:]))
	r.Network = binary.BigEndian.Uint32(f[28:])
	r.MAC = [6]byte(f[32:])
	n := fixedLen + int(binary.BigEndian.Uint16(f[38:]))
	if f[3] > 1 || !isHolding(r) || len(b) < n || n-fixedLen > maxText || len(b)-n > maxText || packed && len(b)-n != space.IDLen {
		return nil, nil, false, fmt.Errorf("%w: state of an address", codec.ErrCorrupt)
	}
	return b[fixedLen:n], b[n:], packed, nil
}

// isHolding reports whether state and kind are those of an address of which something is
// known.
func isHolding(r *space.Record) bool {
	return (r.State == space.Held || r.State == space.Freed) && r.Kind >= space.Container && r.Kind <= space.Kept
}

// parse1 is Parse for the format before format, of which a
// database may still have records: it says what follows, and has no more than that.
func parse1(b []byte, r *space.Record) (name, ref []byte, packed bool, err error) {
	rd := codec.NewReader(b)
	head := rd.Fixed("state of an address", 4+8)
	has := head[3]
	r.State, r.Kind = space.State(head[1]), space.Kind(head[2])
	r.Since = int64(binary.BigEndian.Uint64(head[4:]))
	r.Seq = rd.Uint("sequence number")
	if has&1 != 0 {
		r.Key = space.Key(binary.BigEndian.Uint64(rd.Fixed("key", 8)))
	}
	if has&2 != 0 {
		r.MAC = [6]byte(rd.Fixed("MAC", 6))
	}
	if has&4 != 0 {
		r.Network = binary.BigEndian.Uint32(rd.Fixed("network", 4))
	}
	name = rd.Bytes("name", maxText)
	if packed = has&8 != 0; packed {
		ref = rd.Fixed("ID", space.IDLen)
	} else {
		ref = rd.Bytes("reference", maxText)
	}
	if has > 15 || !isHolding(r) {
		rd.Fail("state of an address")
	}
	return name, ref, packed, rd.Done()
}

// Save writes the record of an address, part by part: to put it together first would cost as much.
func Save(out *effect.Writer, pool chronicle.PoolKey, o addr.Offset, h *space.Holder, state space.State, seq uint64, since int64) {
	const fixed = keyLen + fixedLen
	b := out.Buffer()
	from := len(b)
	b = slices.Grow(b, fixed+len(h.Name)+len(h.Ref))[:from+fixed]
	f := (*[fixed]byte)(b[from:])
	putKey((*[keyLen]byte)(f[:]), pool, o)
	put((*[fixedLen]byte)(f[keyLen:]), h, state, seq, since)
	b = append(b, h.Name...)
	if h.Ref != "" {
		if id, ok := space.AppendID(b, h.Ref); ok {
			b, f[keyLen+3] = id, 1
		} else {
			b = append(b, h.Ref...)
		}
	}
	out.PutBuffer(Bucket, b, from+keyLen)
}

// Delete deletes the record of an address.
func Delete(out *effect.Writer, pool chronicle.PoolKey, o addr.Offset) {
	var key [keyLen]byte
	putKey(&key, pool, o)
	out.Delete(Bucket, string(key[:]))
}
