package gossip

import (
	"encoding/binary"

	"github.com/ringlet/ringlet/ipam/peer"
)

// pulse is what rides on answers to probes and on push/pulls:
//
//	kindPulse (1 byte), summary (8), beat
//
// The summary is big-endian.
type pulse struct {
	beat    []byte
	summary uint64
}

// kindPulse is above the versions of a frame, like the kinds of parcels.
const kindPulse = 0xf3

const pulseHeader = 1 + 8

// pulse returns this peer's, nothing before it has a beat.
func (g *Gossip) pulse() []byte {
	beat := g.currentBeat()
	if len(beat) == 0 {
		return nil
	}
	b := append(make([]byte, 0, pulseHeader+len(beat)), kindPulse)
	b = binary.BigEndian.AppendUint64(b, g.summary.Load())
	return append(b, beat...)
}

// readPulse takes hostile bytes. The beat shares memory with b.
func readPulse(b []byte) (p pulse, ok bool) {
	if len(b) <= pulseHeader || len(b) > pulseHeader+maxBeatBytes || b[0] != kindPulse {
		return pulse{}, false
	}
	p = pulse{beat: b[pulseHeader:], summary: binary.BigEndian.Uint64(b[1:])}
	return p, sender(p.beat) != peer.None
}
