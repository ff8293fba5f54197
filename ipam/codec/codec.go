// Package codec reads and writes the few binary forms that everything on the
// wire and on disk is made of: unsigned varints, fixed bytes, and bytes with
// a length before them.
//
// It refuses to know what the bytes mean.
//
// Writing is appending to a slice. Reading is done by a [Reader], which takes
// hostile bytes: it never panics, never allocates more than its input is
// long, accepts a number only in its shortest form, and after the first error
// returns zero values, so that a decoder can be written straight down and ask
// for [Reader.Err] once, at its end.
package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
)

// ErrCorrupt is wrapped by every error of a [Reader].
var ErrCorrupt = errors.New("corrupt encoding")

// Uint appends n as a varint.
func Uint(b []byte, n uint64) []byte { return binary.AppendUvarint(b, n) }

// Bytes appends the length of p and p.
func Bytes[T ~string | ~[]byte](b []byte, p T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(p))), p...)
}

// Bool appends one byte, 0 or 1.
func Bool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// Prefix appends a masked prefix: 4 or 6 for its family, its length in bits,
// and 4 or 16 bytes of address. An invalid prefix is the one byte 0.
func Prefix(b []byte, p netip.Prefix) []byte {
	switch {
	case !p.IsValid():
		return append(b, 0)
	case p.Addr().Is4():
		a := p.Addr().As4()
		return append(append(b, 4, byte(p.Bits())), a[:]...)
	}
	a := p.Addr().As16()
	return append(append(b, 6, byte(p.Bits())), a[:]...)
}

// Reader reads what the functions of this package wrote. It goes on by counting:
// a slice that gets shorter would be a pointer to write at each step, of which
// the garbage collector wants to know.
type Reader struct {
	b   []byte
	at  int // b[at:] is left
	err error
}

// NewReader returns a reader of b. What it returns may share memory with b.
func NewReader(b []byte) *Reader { return &Reader{b: b} }

// Err returns the first error.
func (r *Reader) Err() error { return r.err }

// Rest returns how many bytes are left.
func (r *Reader) Rest() int { return len(r.b) - r.at }

// Fail notes an error, unless there was one before. What names the thing that
// was being read.
func (r *Reader) Fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrCorrupt, what)
	}
	r.b, r.at = nil, 0
}

// Format reads the byte with which a record begins: its format, of which this release knows one. Of names what the record is of.
func (r *Reader) Format(known byte, of string) {
	if r.Byte("format") != known {
		r.Fail("format of " + of)
	}
}

// Done returns the first error; bytes that were not read are one.
func (r *Reader) Done() error {
	if r.err == nil && r.Rest() > 0 {
		r.Fail(fmt.Sprintf("%d bytes too many", r.Rest()))
	}
	return r.err
}

// Uint reads a varint in its shortest form.
func (r *Reader) Uint(what string) uint64 {
	if r.at < len(r.b) && r.b[r.at] < 1<<7 { // most are, as lengths
		r.at++
		return uint64(r.b[r.at-1])
	}
	if r.at+1 < len(r.b) { // and most of the others have two bytes
		if n, end := short(r.b, r.at); end > 0 {
			r.at = end
			return n
		}
	}
	n, size := binary.Uvarint(r.b[r.at:])
	if size <= 0 || size > 1 && r.b[r.at+size-1] == 0 {
		r.Fail(what)
		return 0
	}
	r.at += size
	return n
}

// Uints reads three varints as Uint reads each: in less time, if they are short.
func (r *Reader) Uints(what string) (x, y, z uint64) {
	if b := r.b[r.at:]; len(b) >= 3*2 {
		if x, i := short(b, 0); i > 0 {
			if y, j := short(b, i); j > 0 {
				if z, k := short(b, j); k > 0 {
					r.at += k
					return x, y, z
				}
			}
		}
	}
	return r.Uint(what), r.Uint(what), r.Uint(what)
}

// short reads a varint of one byte or two, the second not 0, and returns where it ends: 0 if it is none.
func short(b []byte, at int) (n uint64, end int) {
	switch n = uint64(b[at]); {
	case n < 1<<7:
		return n, at + 1
	case b[at+1]-1 < 1<<7-1:
		return n&(1<<7-1) | uint64(b[at+1])<<7, at + 2
	}
	return 0, 0
}

// Uint32 reads a varint that fits 32 bits.
func (r *Reader) Uint32(what string) uint32 {
	n := r.Uint(what)
	if n > math.MaxUint32 {
		r.Fail(what)
	}
	return uint32(n)
}

// Count reads a number of items that take at least size bytes each, and so
// cannot be more than the input has room for.
func (r *Reader) Count(what string, size int) int {
	n := r.Uint(what)
	if n > uint64(r.Rest()/size) {
		r.Fail(what)
		return 0
	}
	return int(n)
}

// Fixed reads n bytes.
func (r *Reader) Fixed(what string, n int) []byte {
	if r.Rest() < n {
		r.Fail(what)
		return make([]byte, n)
	}
	from := r.at
	r.at += n
	return r.b[from:r.at:r.at]
}

// Byte reads one byte.
func (r *Reader) Byte(what string) byte {
	if r.Rest() == 0 {
		r.Fail(what)
		return 0
	}
	r.at++
	return r.b[r.at-1]
}

// Bool reads one byte, 0 or 1.
func (r *Reader) Bool(what string) bool {
	v := r.Byte(what)
	if v > 1 {
		r.Fail(what)
	}
	return v == 1
}

// Bytes reads bytes with their length before them, at most limit.
func (r *Reader) Bytes(what string, limit int) []byte {
	n := r.Uint(what)
	if n > uint64(limit) || n > uint64(r.Rest()) {
		r.Fail(what)
		return nil
	}
	return r.Fixed(what, int(n))
}

// ID reads 16 bytes.
func (r *Reader) ID(what string) (id [16]byte) {
	copy(id[:], r.Fixed(what, 16))
	return id
}

// Prefix reads a prefix, masked, or the invalid one.
func (r *Reader) Prefix(what string) netip.Prefix {
	var a netip.Addr
	var bits int
	switch r.Byte(what) {
	case 0:
		return netip.Prefix{}
	case 4:
		bits, a = int(r.Byte(what)), netip.AddrFrom4([4]byte(r.Fixed(what, 4)))
	case 6:
		bits, a = int(r.Byte(what)), netip.AddrFrom16(r.ID(what))
	default:
		r.Fail(what)
		return netip.Prefix{}
	}
	p := netip.PrefixFrom(a, bits)
	if !p.IsValid() || p.Masked() != p || a.Is4In6() {
		r.Fail(what)
		return netip.Prefix{}
	}
	return p
}
