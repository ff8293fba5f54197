package memnet

import (
	"math/rand/v2"
	"time"
)

// How Linux sends again what was lost on a stream (tcp(7), RFC 6298).
const (
	firstSYN   = time.Second            // until a handshake is begun again; doubles
	firstRetry = 200 * time.Millisecond // until the last segments are sent again; doubles
	segment    = 1448                   // bytes
	followers  = 3                      // segments behind a lost one that have it sent again at once
)

// handshake returns how long it takes to open a stream: a packet there and one
// back, both of which have to arrive.
func handshake(there, back Link) time.Duration {
	took := there.Delay + back.Delay
	for again := firstSYN; (lost(there) || lost(back)) && took < time.Hour; again *= 2 {
		took += again
	}
	return took
}

// transit returns how long some bytes take that are written at once. The
// writer waits as long, which a real one does only once buffers are full.
func transit(size int, there, back Link) time.Duration {
	took := there.Delay
	for left := (size + segment - 1) / segment; left > 0; left-- {
		if !lost(there) {
			continue
		}
		again := left <= followers
		if !again {
			took += there.Delay + back.Delay
			again = lost(there)
		}
		for wait := firstRetry; again && took < time.Hour; wait *= 2 {
			took += wait
			again = lost(there)
		}
	}
	return took
}

func lost(l Link) bool { return l.StreamLoss > 0 && rand.Float64() < l.StreamLoss }
