package ring

import "encoding/binary"

// Sum returns a number that stands for all tokens: rings that are equal have
// equal sums, however they came to be so, and others have different ones but
// for a chance in 2^64.
//
// It is the sum modulo 2^64 of a hash of each token, so that a change can take
// out what it removes and add what it puts, and the division into pieces, which
// depends on what was changed when, does not matter. The first time it is made
// of all tokens, from then on [Ring.Assign] keeps it.
func (r *Ring) Sum() uint64 {
	if r.sum == 0 {
		r.sum = r.total()
	}
	return r.sum
}

// total makes the sum anew.
func (r *Ring) total() (sum uint64) {
	for _, piece := range r.tokens.pieces {
		for i := range piece {
			sum += piece[i].hash()
		}
	}
	return sum
}

// exchange takes the tokens from lo up to hi out of the sum and adds others, if
// anybody has asked for it yet.
func (r *Ring) exchange(lo, hi place, put []Token) {
	if r.sum == 0 {
		return
	}
	for p := lo; p != hi; p = r.tokens.next(p) {
		r.sum -= r.tokens.at(p).hash()
	}
	for i := range put {
		r.sum += put[i].hash()
	}
}

// hash returns a hash of the token. Of tokens that differ in one of its four
// words none has the same, since each step can be undone.
func (t *Token) hash() uint64 {
	h := mix(uint64(t.Start) + 0x9e3779b97f4a7c15)
	h = mix((h ^ uint64(t.Version)) + 0x3c6ef372fe94f82a)
	h = mix((h ^ binary.LittleEndian.Uint64(t.Owner[:8])) + 0xdaa66d2c7ddf743f)
	return mix((h ^ binary.LittleEndian.Uint64(t.Owner[8:])) + 0x78dde6e5fd29f054)
}

// mix is the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", 2014): each bit of x changes about half of
// those of what it returns, and no two x give the same.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
