// Package ring says who owns which part of a pool.
//
// A ring is a sorted list of tokens. A token owns the addresses from its
// start to the next token's; the first stands at offset 0, and the last
// token's range ends with the pool. So a ring covers its pool exactly, by
// construction (invariant I2). Neighbouring ranges of one owner are one
// token: a ring never grows beyond what is really divided.
//
// A ring is a function of the decided slots and nothing else. Of two copies
// the one at the higher slot is the newer whole, and merging is taking it;
// hence there is no merge in this package, only [Ring.Assign], the one change
// that slots make.
//
// A Ring is not safe for concurrent use.
package ring

import (
	"fmt"
	"iter"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Version is the number of the slot that wrote a token.
type Version uint64

// Two owners are no peers: nobody, and the pool itself. Their IDs are never
// made for a peer.
//
//nolint:gochecknoglobals // Go has no constant arrays
var (
	Free     = peer.None
	Reserved = peer.ID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
)

// Token says who owns the addresses from Start to the next token.
type Token struct {
	Start   addr.Offset
	Version Version
	Owner   peer.ID
}

// Ring is the division of one pool. Use [New] or [FromTokens].
type Ring struct {
	end    addr.Offset
	tokens []Token
}

// New returns a ring of size addresses, at least one, that nobody owns.
func New(size addr.Count, v Version) *Ring {
	return &Ring{end: addr.Offset(size), tokens: []Token{{Version: v, Owner: Free}}}
}

// FromTokens returns the ring made of the tokens, which it keeps. They come
// from outside: it is an error if they are no ring of that size.
func FromTokens(size addr.Count, tokens []Token) (*Ring, error) {
	r := &Ring{end: addr.Offset(size), tokens: tokens}
	return r, r.Check()
}

// Check reports what makes r no ring: no token at the start, tokens out of
// order, beyond the end, or neighbours with one owner.
func (r *Ring) Check() error {
	if len(r.tokens) == 0 || r.tokens[0].Start != 0 {
		return fmt.Errorf("ring: no token at the pool's first address")
	}
	for i, t := range r.tokens {
		switch {
		case t.Start >= r.end:
			return fmt.Errorf("ring: token %d stands at %d, beyond the pool's end %d", i, t.Start, r.end)
		case i > 0 && t.Start <= r.tokens[i-1].Start:
			return fmt.Errorf("ring: token %d at %d does not follow token %d at %d", i, t.Start, i-1, r.tokens[i-1].Start)
		case i > 0 && t.Owner == r.tokens[i-1].Owner:
			return fmt.Errorf("ring: tokens %d and %d have one owner", i-1, i)
		}
	}
	return nil
}

// Size returns the number of addresses in the ring.
func (r *Ring) Size() addr.Count { return addr.Count(r.end) }

// Len returns the number of tokens.
func (r *Ring) Len() int { return len(r.tokens) }

// index returns the index of the token whose range holds o.
func (r *Ring) index(o addr.Offset) int {
	lo, hi := 0, len(r.tokens) // tokens before lo start at or before o, from hi on after it
	for lo < hi {
		if mid := (lo + hi) / 2; r.tokens[mid].Start <= o {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

// endOf returns the end of token i's range.
func (r *Ring) endOf(i int) addr.Offset {
	if i+1 < len(r.tokens) {
		return r.tokens[i+1].Start
	}
	return r.end
}

// At returns the token whose range holds o, and that range. o must lie in the
// ring.
func (r *Ring) At(o addr.Offset) (Token, addr.Range) {
	i := r.index(o)
	return r.tokens[i], addr.Range{Start: r.tokens[i].Start, End: r.endOf(i)}
}

// Within yields the parts of the ring that overlap want, in order, each
// clipped to want, with its token.
func (r *Ring) Within(want addr.Range) iter.Seq2[addr.Range, Token] {
	return func(yield func(addr.Range, Token) bool) {
		want = want.Intersect(addr.Range{End: r.end})
		if want.Empty() {
			return
		}
		for i := r.index(want.Start); i < len(r.tokens) && r.tokens[i].Start < want.End; i++ {
			part := addr.Range{Start: r.tokens[i].Start, End: r.endOf(i)}.Intersect(want)
			if !yield(part, r.tokens[i]) {
				return
			}
		}
	}
}

// All yields every range with its token, in order.
func (r *Ring) All() iter.Seq2[addr.Range, Token] { return r.Within(addr.Range{End: r.end}) }

// OwnedBy yields the ranges of one owner, in order.
func (r *Ring) OwnedBy(owner peer.ID) iter.Seq[addr.Range] {
	return func(yield func(addr.Range) bool) {
		for part, t := range r.All() {
			if t.Owner == owner && !yield(part) {
				return
			}
		}
	}
}

// Owns reports whether all of want, not empty, lies in the ring and is the owner's.
func (r *Ring) Owns(owner peer.ID, want addr.Range) bool {
	return r.Consists(want, func(o peer.ID) bool { return o == owner })
}

// Consists reports whether want is not empty, lies in the ring, and each of
// its parts has an owner that is accepted.
func (r *Ring) Consists(want addr.Range, accept func(owner peer.ID) bool) bool {
	if want.Empty() || want.End > r.end {
		return false
	}
	for _, t := range r.Within(want) {
		if !accept(t.Owner) {
			return false
		}
	}
	return true
}

// Assign gives all of want to the owner. The token that it writes has version
// v, also where it takes in neighbours that are the owner's already; what is
// left of a token that it splits keeps its version. want must lie in the
// ring; nothing happens if it is empty.
func (r *Ring) Assign(want addr.Range, owner peer.ID, v Version) {
	if want.Empty() {
		return
	}
	if want.End > r.end {
		panic(fmt.Sprintf("ring: %v assigned in a ring of %d", want, r.end))
	}
	first, last := r.index(want.Start), r.index(want.End-1)
	lo, hi := first, last+1 // tokens[lo:hi] are replaced
	var put [3]Token
	n := 0
	start := want.Start
	switch left := r.tokens[first]; {
	case left.Owner == owner:
		start = left.Start
	case left.Start < want.Start:
		put[n] = left
		n++
	case lo > 0 && r.tokens[lo-1].Owner == owner:
		lo--
		start = r.tokens[lo].Start
	}
	put[n] = Token{Start: start, Version: v, Owner: owner}
	n++
	switch right := r.tokens[last]; {
	case right.Owner == owner: // all of it is taken in
	case want.End < r.endOf(last):
		put[n] = Token{Start: want.End, Version: right.Version, Owner: right.Owner}
		n++
	case hi < len(r.tokens) && r.tokens[hi].Owner == owner:
		hi++
	}
	r.tokens = slices.Replace(r.tokens, lo, hi, put[:n]...)
}

// Clone returns a copy that shares nothing with r.
func (r *Ring) Clone() *Ring { return &Ring{end: r.end, tokens: slices.Clone(r.tokens)} }

// Tokens returns the tokens in order. They belong to the ring and change with it.
func (r *Ring) Tokens() []Token { return r.tokens }
