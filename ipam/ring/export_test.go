package ring

// Spoil makes the tokens others that keep reports false for, without the
// ring's knowing: whoever reads one of them has another sum.
func (r *Ring) Spoil(keep func(Token) bool) (spoilt int) {
	for _, piece := range r.tokens.pieces {
		for i := range piece {
			if !keep(piece[i]) {
				piece[i].Version += 1 << 40
				spoilt++
			}
		}
	}
	return spoilt
}
