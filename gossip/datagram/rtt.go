package datagram

import "time"

// The retransmission timeout (RTO) of a datagram. It doubles with each retransmission.
const (
	initialRTO = 60 * time.Millisecond // of a peer of which no round trip is known
	minRTO     = 40 * time.Millisecond // a busy host answers later than the network could
	maxRTO     = 250 * time.Millisecond
)

// failAfter is after how many messages in a row without an ack a peer counts as one that no datagram reaches.
const failAfter = 2

// path is what is known of the way to one peer.
type path struct {
	srtt, rttvar  time.Duration // smoothed round trip and its variation (RFC 6298); zero: none was measured
	datagramsFail int           // messages since the last ack for which a stream was needed
	streamsFail   bool          // the last stream failed
}

// acked notes an ack. certain is false where nobody can tell which of several transmissions it answers.
func (p *path) acked(after time.Duration, certain bool) {
	p.datagramsFail = 0
	switch {
	case !certain:
	case p.srtt == 0:
		p.srtt, p.rttvar = after, after/2
	default:
		p.rttvar += ((after - p.srtt).Abs() - p.rttvar) / 4
		p.srtt += (after - p.srtt) / 8
	}
}

// rto returns how long to wait for the ack of the n-th transmission, n from 1.
func (p *path) rto(n int) time.Duration {
	base := initialRTO
	if p.srtt > 0 {
		base = min(max(p.srtt+4*p.rttvar, minRTO), maxRTO)
	}
	return base << min(n-1, 10)
}

// streams returns how many streams to this peer may be open at a time. A stream that loses its first packet waits for a
// second, and must not hold up the others.
func (p *path) streams() int {
	if p.streamsFail {
		return 1
	}
	return maxStreams
}
