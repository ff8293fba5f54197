package ring

import (
	"errors"
	"iter"
	"math/bits"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
)

const (
	// pieceLen is the most tokens that a piece may have: what a change moves,
	// two kilobytes with the two that a change may add.
	pieceLen = 62
	// mergeLen is how many tokens a piece and the next one may have together
	// when they become one: few enough that it is not divided again soon.
	mergeLen = pieceLen / 2
)

// list is a list of tokens in order of their starts, in pieces of which none is
// empty. The zero list is empty; most of its methods are for one that is not.
type list struct {
	starts []addr.Offset // of the first token of each piece
	pieces [][]Token
}

// place is where a token stands in a list.
type place struct{ piece, token int }

// listOf returns the list of the tokens. Its pieces lie in their slice, each
// until it grows and moves away.
func listOf(tokens []Token) list {
	const each = (pieceLen + mergeLen) / 2
	n := (len(tokens) + each - 1) / each
	l := list{make([]addr.Offset, 0, n), make([][]Token, 0, n)}
	for part := range slices.Chunk(tokens, each) { // without room behind: that is the next one's
		l.pieces = append(l.pieces, part)
		l.starts = append(l.starts, part[0].Start)
	}
	return l
}

func (l *list) len() (n int) {
	for _, piece := range l.pieces {
		n += len(piece)
	}
	return n
}

// has reports whether p is not behind the end.
func (l *list) has(p place) bool { return p.piece < len(l.pieces) }

// at returns the token at p. It is valid until the next change.
func (l *list) at(p place) *Token { return &l.pieces[p.piece][p.token] }

// next returns the place behind p, which may be the end.
func (l *list) next(p place) place {
	if p.token+1 < len(l.pieces[p.piece]) {
		return place{p.piece, p.token + 1}
	}
	return place{piece: p.piece + 1}
}

// prev returns the place before p, which is not the first.
func (l *list) prev(p place) place {
	if p.token > 0 {
		return place{p.piece, p.token - 1}
	}
	return place{p.piece - 1, len(l.pieces[p.piece-1]) - 1}
}

// all yields the tokens.
func (l *list) all() iter.Seq[Token] {
	return func(yield func(Token) bool) {
		for _, piece := range l.pieces {
			for _, t := range piece {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// find returns the place of the last token that starts at or before o, in a
// list whose first token starts at 0. o is less than end, the ring's. Within
// the piece it begins where an even division would have it, too, and goes on
// one by one: a piece is short.
func (l *list) find(o, end addr.Offset) place {
	n := l.findPiece(o, end)
	piece := l.pieces[n]
	if n+1 < len(l.starts) {
		end = l.starts[n+1]
	}
	lo := evenly(o-l.starts[n], end-l.starts[n], len(piece))
	for lo+1 < len(piece) && piece[lo+1].Start <= o {
		lo++
	}
	for piece[lo].Start > o {
		lo--
	}
	return place{n, lo}
}

// evenly returns which of n parts o would lie in, less than end, if they were of one size.
func evenly(o, end addr.Offset, n int) int {
	high, low := bits.Mul64(uint64(o), uint64(n))
	part, _ := bits.Div64(high, low, uint64(end)) // o*n/end, less than n
	return int(part)
}

// findPiece returns the last piece that starts at or before o. It begins where
// that would be in a ring that is divided evenly, and goes on in steps that
// double: so the number of steps grows with how unevenly it is divided, and by
// the logarithm of that alone.
func (l *list) findPiece(o, end addr.Offset) int {
	n := len(l.starts)
	lo := evenly(o, end, n)
	hi := lo + 1
	if l.starts[lo] <= o {
		for step := 1; hi < n && l.starts[hi] <= o; step *= 2 {
			lo, hi = hi, min(hi+step, n)
		}
	} else {
		for step := 1; l.starts[lo] > o; step *= 2 {
			lo, hi = max(lo-step, 0), lo
		}
	}
	for lo+1 < hi { // the one at lo starts at or before o, that at hi after it, if there is one
		if mid := int(uint(lo+hi) / 2); l.starts[mid] <= o {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// replace puts tokens, at most as many as a change adds beyond a piece, in the
// place of those from lo up to hi, which may be the end. lo is not.
func (l *list) replace(lo, hi place, put []Token) {
	n := lo.piece
	if hi.piece == n {
		l.pieces[n] = slices.Replace(l.pieces[n], lo.token, hi.token, put...)
	} else {
		l.pieces[n] = append(l.pieces[n][:lo.token], put...)
		if hi.token > 0 {
			l.pieces[hi.piece] = slices.Delete(l.pieces[hi.piece], 0, hi.token)
			l.starts[hi.piece] = l.pieces[hi.piece][0].Start
		}
		l.drop(n+1, hi.piece)
	}
	l.starts[n] = l.pieces[n][0].Start
	if len(l.pieces[n]) > pieceLen {
		l.divide(n)
		return
	}
	if n > 0 {
		l.merge(n - 1)
	}
	if n < len(l.pieces) {
		l.merge(n)
	}
}

// divide makes two pieces of one.
func (l *list) divide(n int) {
	half := len(l.pieces[n]) / 2
	right := append(make([]Token, 0, pieceLen+2), l.pieces[n][half:]...)
	l.pieces[n] = slices.Delete(l.pieces[n], half, len(l.pieces[n]))
	l.pieces = slices.Insert(l.pieces, n+1, right)
	l.starts = slices.Insert(l.starts, n+1, right[0].Start)
}

// merge makes one of a piece and the next, if there is one and both are short.
func (l *list) merge(n int) {
	if n+1 < len(l.pieces) && len(l.pieces[n])+len(l.pieces[n+1]) <= mergeLen {
		l.pieces[n] = append(l.pieces[n], l.pieces[n+1]...)
		l.drop(n+1, n+2)
	}
}

// drop removes pieces.
func (l *list) drop(from, to int) {
	l.pieces = slices.Delete(l.pieces, from, to)
	l.starts = slices.Delete(l.starts, from, to)
}

// check reports what makes l no list.
func (l *list) check() error {
	if len(l.starts) != len(l.pieces) {
		return errors.New("ring: pieces without a start")
	}
	for n, piece := range l.pieces {
		if len(piece) == 0 || len(piece) > pieceLen || l.starts[n] != piece[0].Start {
			return errors.New("ring: a piece is empty, too long, or not where it says")
		}
	}
	return nil
}
