// Package ring says who owns which part of a pool.
//
// It refuses to know holders, and why a range changes its owner.
//
// A ring is a sorted list of tokens. A token owns the addresses from its
// start to the next token's; the first stands at offset 0, and the last
// token's range ends with the pool. So a ring covers its pool exactly, by
// construction (invariant I2). Neighbouring ranges of one owner are one
// token: a ring never grows beyond what is really divided. The list is one of
// pieces, so that neither a look-up nor a change costs much more in a ring of
// ten thousand tokens than in one of a thousand.
//
// A ring is a function of the decided slots and nothing else. Of two copies
// the one at the higher slot is the newer whole, and merging is taking it;
// hence there is no merge in this package, only [Ring.Assign], the one change
// that slots make. [Ring.Sum] tells two that are equal from others.
//
// A Ring is not safe for concurrent use.
package ring

import (
	"errors"
	"fmt"
	"iter"

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
	tokens list
	sum    uint64 // what Sum returns; 0: to be made
}

// New returns a ring of size addresses, at least one, that nobody owns.
func New(size addr.Count, v Version) *Ring {
	return &Ring{end: addr.Offset(size), tokens: listOf([]Token{{Version: v, Owner: Free}})}
}

// FromTokens returns the ring made of the tokens, whose slice is the ring's from
// then on. They come from outside: it is an error if they are no ring of that
// size.
func FromTokens(size addr.Count, tokens []Token) (*Ring, error) {
	r := &Ring{end: addr.Offset(size), tokens: listOf(tokens)}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// Check reports what makes r no ring: no token at the start, tokens out of
// order, beyond the end, or neighbours with one owner; a list that is none; or
// a sum that is of other tokens.
func (r *Ring) Check() error {
	if err := r.tokens.check(); err != nil {
		return err
	}
	if r.sum != 0 && r.sum != r.total() {
		return errors.New("ring: the sum is of other tokens")
	}
	return r.check()
}

// check is [Ring.Check] without what tokens from outside have not got yet.
func (r *Ring) check() error {
	i := 0
	var last *Token
	for _, piece := range r.tokens.pieces {
		for n := range piece {
			t := &piece[n]
			switch {
			case i == 0 && t.Start != 0:
				return errNoFirst
			case t.Start >= r.end:
				return fmt.Errorf("ring: token %d stands at %d, beyond the pool's end %d", i, t.Start, r.end)
			case i > 0 && t.Start <= last.Start:
				return fmt.Errorf("ring: token %d at %d does not follow token %d at %d", i, t.Start, i-1, last.Start)
			case i > 0 && t.Owner == last.Owner:
				return fmt.Errorf("ring: tokens %d and %d have one owner", i-1, i)
			}
			i++
			last = t
		}
	}
	if i == 0 {
		return errNoFirst
	}
	return nil
}

var errNoFirst = errors.New("ring: no token at the pool's first address")

// Size returns the number of addresses in the ring.
func (r *Ring) Size() addr.Count { return addr.Count(r.end) }

// Len returns the number of tokens.
func (r *Ring) Len() int { return r.tokens.len() }

// endOf returns the end of the range of the token at p.
func (r *Ring) endOf(p place) addr.Offset {
	if p = r.tokens.next(p); r.tokens.has(p) {
		return r.tokens.at(p).Start
	}
	return r.end
}

// At returns the token whose range holds o, and that range. o must lie in the
// ring.
func (r *Ring) At(o addr.Offset) (Token, addr.Range) {
	p := r.tokens.find(o, r.end)
	t := r.tokens.at(p)
	return *t, addr.Range{Start: t.Start, End: r.endOf(p)}
}

// Within yields the parts of the ring that overlap want, in order, each
// clipped to want, with its token.
func (r *Ring) Within(want addr.Range) iter.Seq2[addr.Range, Token] {
	return func(yield func(addr.Range, Token) bool) {
		want = want.Intersect(addr.Range{End: r.end})
		if want.Empty() {
			return
		}
		for p := r.tokens.find(want.Start, r.end); r.tokens.has(p) && r.tokens.at(p).Start < want.End; p = r.tokens.next(p) {
			t := *r.tokens.at(p)
			part := addr.Range{Start: t.Start, End: r.endOf(p)}.Intersect(want)
			if !yield(part, t) {
				return
			}
		}
	}
}

// All yields every range with its token, in order.
func (r *Ring) All() iter.Seq2[addr.Range, Token] {
	return func(yield func(addr.Range, Token) bool) {
		for n, piece := range r.tokens.pieces {
			end := r.end
			if n+1 < len(r.tokens.starts) {
				end = r.tokens.starts[n+1]
			}
			for i := range piece {
				part := addr.Range{Start: piece[i].Start, End: end}
				if i+1 < len(piece) {
					part.End = piece[i+1].Start
				}
				if !yield(part, piece[i]) {
					return
				}
			}
		}
	}
}

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
	first, last := r.tokens.find(want.Start, r.end), r.tokens.find(want.End-1, r.end)
	lo, hi := first, r.tokens.next(last) // those from lo to before hi are replaced
	var put [3]Token
	n := 0
	start := want.Start
	switch left := *r.tokens.at(first); {
	case left.Owner == owner:
		start = left.Start
	case left.Start < want.Start:
		put[n] = left
		n++
	case left.Start > 0:
		if before := r.tokens.prev(lo); r.tokens.at(before).Owner == owner {
			lo = before
			start = r.tokens.at(lo).Start
		}
	}
	put[n] = Token{Start: start, Version: v, Owner: owner}
	n++
	switch right := *r.tokens.at(last); {
	case right.Owner == owner: // all of it is taken in
	case want.End < r.endOf(last):
		put[n] = Token{Start: want.End, Version: right.Version, Owner: right.Owner}
		n++
	case r.tokens.has(hi) && r.tokens.at(hi).Owner == owner:
		hi = r.tokens.next(hi)
	}
	r.exchange(lo, hi, put[:n])
	r.tokens.replace(lo, hi, put[:n])
}

// Tokens yields the tokens in order. The ring must not be changed meanwhile.
func (r *Ring) Tokens() iter.Seq[Token] { return r.tokens.all() }
