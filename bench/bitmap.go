package main

import (
	"errors"
	"math"
	"math/bits"
	"net/netip"
	"sync"
)

// bitmap is the least that an allocator can do: a bit for each address, a summary bit for each 64 of them, and a
// cursor. It knows neither holders nor the order of freeing.
type bitmap struct {
	full   []uint64 // bit i of word j: words[64*j+i] has no free bit
	words  []uint64 // bit set: held
	cursor int
}

func newBitmap(n int) *bitmap {
	words := (n + 63) / 64
	b := &bitmap{words: make([]uint64, words), full: make([]uint64, (words+63)/64)}
	for i := words; i < 64*len(b.full); i++ {
		b.full[i/64] |= 1 << (i % 64)
	}
	return b
}

func (b *bitmap) claim(o int) {
	w := o / 64
	b.words[w] |= 1 << (o % 64)
	if b.words[w] == math.MaxUint64 {
		b.full[w/64] |= 1 << (w % 64)
	}
}

func (b *bitmap) free(o int) {
	w := o / 64
	b.words[w] &^= 1 << (o % 64)
	b.full[w/64] &^= 1 << (w % 64)
}

// take returns a free address, the next one behind the last.
func (b *bitmap) take() (int, bool) {
	w := b.cursor / 64
	if free := ^b.words[w] & (math.MaxUint64 << (b.cursor % 64)); free != 0 {
		return b.found(w*64 + bits.TrailingZeros64(free)), true
	}
	first := w / 64
	mask := uint64(math.MaxUint64) << (w % 64) << 1
	for n := range len(b.full) + 1 {
		j := (first + n) % len(b.full)
		if free := ^b.full[j] & mask; free != 0 {
			w = j*64 + bits.TrailingZeros64(free)
			return b.found(w*64 + bits.TrailingZeros64(^b.words[w])), true
		}
		mask = math.MaxUint64
	}
	return 0, false
}

func (b *bitmap) found(o int) int {
	b.claim(o)
	b.cursor = (o + 1) % (64 * len(b.words))
	return o
}

var errFull = errors.New("no free address")

// reference is a bitmap with what every allocator needs around it: a lock, pools by ID, and addresses. It keeps
// nothing of who has an address.
type reference struct {
	mu    sync.Mutex
	pools map[string]*referencePool
}

type referencePool struct {
	base netip.Prefix
	bits *bitmap
}

func (r *reference) allocate(pool string) (netip.Prefix, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pools[pool]
	if p == nil {
		return netip.Prefix{}, errFull
	}
	o, ok := p.bits.take()
	if !ok {
		return netip.Prefix{}, errFull
	}
	return netip.PrefixFrom(nth(p.base.Addr(), o), p.base.Bits()), nil
}

func (r *reference) free(pool string, a netip.Addr) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.pools[pool]
	if p == nil || !p.base.Contains(a) {
		return errFull
	}
	p.bits.free(distance(p.base.Addr(), a))
	return nil
}

// nth returns the address o behind base.
func nth(base netip.Addr, o int) netip.Addr {
	if base.Is4() {
		b := base.As4()
		n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
		n += uint32(o)
		return netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	}
	b := base.As16()
	for i := 15; i >= 8 && o > 0; i-- {
		o += int(b[i])
		b[i] = byte(o)
		o >>= 8
	}
	return netip.AddrFrom16(b)
}

// distance returns how far a lies behind base.
func distance(base, a netip.Addr) int {
	x, y := base.As16(), a.As16()
	n := 0
	for i := 8; i < 16; i++ {
		n = n<<8 + int(y[i]) - int(x[i])
	}
	return n
}
