// Package addr does the arithmetic of addresses inside one pool.
//
// It refuses to know who has an address, and what one is used for.
//
// A pool is a prefix, masked. Inside it an address is an [Offset], its
// distance from the pool's first address, so that every other package of the
// core counts in one 64-bit unit and never asks whether it deals with IPv4 or
// IPv6. netip stops here: on the way in an address becomes an offset, on the
// way out an offset becomes an address.
//
// Ranges are half-open. To let the end of any range, and the size of any
// pool, fit into 64 bits, the very last address of an IPv6 /64 is not part of
// its pool: it is a reserved subnet anycast address (RFC 2526, section 2) and
// could never be handed out anyway.
//
// A [MAC] is here, too: whoever names an address may have to name the device that has it.
//
// All types are plain values, safe to copy and to share.
package addr

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
	"strconv"
)

// Offset is the position of an address in its pool, 0 for the first.
type Offset uint64

// Count is a number of addresses.
type Count uint64

// Plus returns the sum, or the largest number there is if that is more: what
// several /64 have together.
func (c Count) Plus(n Count) Count { return c + min(n, math.MaxUint64-c) }

// String prints the number for people: exactly while they can read it, and of the sizes
// that IPv6 has only how large it is.
func (c Count) String() string {
	if c < 1e9 {
		return strconv.FormatUint(uint64(c), 10)
	}
	power := math.Round(math.Log2(float64(c)))
	if math.Abs(float64(c)/math.Pow(2, power)-1) < 1e-6 { // all of an IPv6 pool but what is in use
		return "2^" + strconv.Itoa(int(power))
	}
	return strconv.FormatFloat(float64(c), 'g', 3, 64)
}

// MaxBits is the number of host bits in the widest pool, an IPv6 /64 or the
// whole of IPv4.
const MaxBits = 64

// Size returns the number of addresses of a pool: 2^hostbits, and one less
// for a /64 (see the package comment). It panics if the prefix has more than
// [MaxBits] host bits, which [Checked] refuses.
func Size(pool netip.Prefix) Count {
	host := pool.Addr().BitLen() - pool.Bits()
	switch {
	case host > MaxBits:
		panic("addr: pool wider than 64 host bits: " + pool.String())
	case host == MaxBits:
		return math.MaxUint64
	}
	return 1 << host
}

// Checked returns the prefix in the form that pools have, masked and with an
// IPv4-mapped address unmapped, or an error if no pool can be that wide.
func Checked(p netip.Prefix) (netip.Prefix, error) {
	if !p.IsValid() {
		return netip.Prefix{}, fmt.Errorf("not a subnet")
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("%v is an IPv4-mapped prefix wider than all of IPv4", p)
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	if p.Addr().Is6() && p.Bits() < 64 {
		return netip.Prefix{}, fmt.Errorf("%v is wider than a /64, the widest IPv6 subnet that can be a pool", p)
	}
	return p.Masked(), nil
}

// Nth returns the address at offset o of the pool.
func Nth(pool netip.Prefix, o Offset) netip.Addr {
	base := pool.Addr()
	if base.Is4() {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], bits4(base)+uint32(o))
		return netip.AddrFrom4(b)
	}
	b := base.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+uint64(o))
	return netip.AddrFrom16(b)
}

// OffsetOf returns the position of a in the pool. It is false if the pool
// does not contain a, or if a is the last address of a /64.
func OffsetOf(pool netip.Prefix, a netip.Addr) (Offset, bool) {
	base := pool.Addr()
	if a = a.Unmap(); a.Is4() && base.Is4() {
		o := Offset(bits4(a) - bits4(base)) // of an address before the pool it is far beyond its end
		return o, o>>(32-pool.Bits()) == 0
	}
	if !pool.Contains(a) {
		return 0, false
	}
	o := Offset(low64(a) - low64(base))
	return o, Count(o) < Size(pool)
}

// EndOf returns the end of a range whose last address is a. It is false if the
// pool does not contain a. The last address of a /64 is no part of its pool, and
// adds nothing to a range.
func EndOf(pool netip.Prefix, a netip.Addr) (Offset, bool) {
	if o, ok := OffsetOf(pool, a); ok {
		return o + 1, true
	}
	return Offset(Size(pool)), pool.Contains(a.Unmap())
}

// bits4 returns the bits of an IPv4 address.
func bits4(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

// low64 returns the low 64 bits of an IPv6 address.
func low64(a netip.Addr) uint64 {
	b := a.As16()
	return binary.BigEndian.Uint64(b[8:])
}

// Range is the half-open interval [Start, End) of a pool's offsets. It is
// empty if End is not above Start.
type Range struct{ Start, End Offset }

// One returns the range that holds just o.
func One(o Offset) Range { return Range{o, o + 1} }

// Whole returns the range that holds all of the pool.
func Whole(pool netip.Prefix) Range { return Range{0, Offset(Size(pool))} }

// RangeOf returns the part of the pool that sub covers, empty if they do not
// overlap.
func RangeOf(pool, sub netip.Prefix) Range {
	if !pool.Overlaps(sub) {
		return Range{}
	}
	if sub.Bits() <= pool.Bits() {
		return Whole(pool)
	}
	start, ok := OffsetOf(pool, sub.Masked().Addr())
	if !ok {
		return Range{} // the last address of a /64
	}
	end := Offset(Size(pool))
	if n := Offset(Size(sub)); n < end-start {
		end = start + n
	}
	return Range{start, end}
}

// Empty reports whether r holds no offset.
func (r Range) Empty() bool { return r.End <= r.Start }

// Size returns the number of offsets in r.
func (r Range) Size() Count {
	if r.Empty() {
		return 0
	}
	return Count(r.End - r.Start)
}

// Contains reports whether o lies in r.
func (r Range) Contains(o Offset) bool { return r.Start <= o && o < r.End }

// Covers reports whether all of s lies in r. An empty s lies anywhere.
func (r Range) Covers(s Range) bool {
	return s.Empty() || r.Start <= s.Start && s.End <= r.End
}

// Overlaps reports whether some offset lies in both.
func (r Range) Overlaps(s Range) bool { return !r.Intersect(s).Empty() }

// Intersect returns what lies in both, possibly an empty range.
func (r Range) Intersect(s Range) Range {
	return Range{max(r.Start, s.Start), min(r.End, s.End)}
}

// LargestBlock returns the largest aligned block inside r that is no larger
// than limit addresses, the first one if several are as large. A block's size
// is a power of two and its start a multiple of it. limit must be at least 1;
// the block of an empty range is empty.
func (r Range) LargestBlock(limit Count) Range {
	if r.Empty() {
		return Range{}
	}
	for size := floorPow2(min(limit, r.Size())); ; size /= 2 {
		start := (uint64(r.Start) + uint64(size) - 1) &^ (uint64(size) - 1)
		if start < uint64(r.Start) { // rounding up went past 2^64
			continue
		}
		if Offset(start) < r.End && Count(r.End)-Count(start) >= size {
			return Range{Offset(start), Offset(start + uint64(size))}
		}
	}
}

// floorPow2 returns the largest power of two that is at most n, n > 0.
func floorPow2(n Count) Count { return 1 << (bits.Len64(uint64(n)) - 1) }

// FloorPow2 returns the largest power of two that is at most n, and 0 for 0.
func FloorPow2(n Count) Count {
	if n == 0 {
		return 0
	}
	return floorPow2(n)
}

// String shows r as offsets, for logs and tests.
func (r Range) String() string { return fmt.Sprintf("[%d,%d)", r.Start, r.End) }

// Text shows r as addresses of the pool, first and last, or one address.
func (r Range) Text(pool netip.Prefix) string {
	switch r.Size() {
	case 0:
		return "nothing"
	case 1:
		return Nth(pool, r.Start).String()
	}
	return Nth(pool, r.Start).String() + "-" + Nth(pool, r.End-1).String()
}
