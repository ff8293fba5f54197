package gossip

import "time"

// How long a receipt is waited for before a datagram is sent again. It
// doubles each time.
const (
	firstPatience = 60 * time.Millisecond // of a peer of which nothing is known yet
	minPatience   = 40 * time.Millisecond // a busy host answers later than the network can
	maxPatience   = 250 * time.Millisecond
)

// deafAfter is after how many parcels without a receipt a peer counts as one
// that no datagram reaches.
const deafAfter = 2

// reach is how a peer can be reached, as far as that is known.
type reach struct {
	smooth, variance time.Duration // of the time that receipts take (RFC 6298)
	deaf             int           // parcels since the last receipt that went over a stream for want of one
	cold             bool          // the last stream failed
}

// receipt notes that one came, after how long if that is certain.
func (r *reach) receipt(after time.Duration, certain bool) {
	r.deaf = 0
	switch {
	case !certain:
	case r.smooth == 0:
		r.smooth, r.variance = after, after/2
	default:
		r.variance += ((after - r.smooth).Abs() - r.variance) / 4
		r.smooth += (after - r.smooth) / 8
	}
}

// patience is how long to wait for the receipt of a datagram that was sent for
// the n-th time, 1 and up.
func (r *reach) patience(n int) time.Duration {
	base := firstPatience
	if r.smooth > 0 {
		base = min(max(r.smooth+4*r.variance, minPatience), maxPatience)
	}
	return base << min(n-1, 10)
}

// streams is how many streams to this peer may be open at a time: one that
// loses its first packet waits for a second, and must not hold up the others.
func (r *reach) streams() int {
	if r.cold {
		return 1
	}
	return maxStreams
}
