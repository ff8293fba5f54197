package gossip

import (
	"encoding/binary"

	"github.com/ringlet/ringlet/gossip/datagram"
	"github.com/ringlet/ringlet/ipam/peer"
)

// heartbeat is what rides on answers to probes and on push/pulls:
//
//	kindHeartbeat (1 byte), summary (8), beat
//
// The summary is big-endian.
type heartbeat struct {
	beat    []byte
	summary uint64
}

const kindHeartbeat = datagram.KindHeartbeat

const heartbeatHeader = 1 + 8

// heartbeat returns this peer's, nothing before it has a beat.
func (g *Gossip) heartbeat() []byte {
	beat := g.currentBeat()
	if len(beat) == 0 {
		return nil
	}
	b := append(make([]byte, 0, heartbeatHeader+len(beat)), kindHeartbeat)
	b = binary.BigEndian.AppendUint64(b, g.summary.Load())
	return append(b, beat...)
}

// readHeartbeat takes hostile bytes. The beat shares memory with b.
func readHeartbeat(b []byte) (p heartbeat, ok bool) {
	if len(b) <= heartbeatHeader || len(b) > heartbeatHeader+maxBeatBytes || b[0] != kindHeartbeat {
		return heartbeat{}, false
	}
	p = heartbeat{beat: b[heartbeatHeader:], summary: binary.BigEndian.Uint64(b[1:])}
	return p, sender(p.beat) != peer.None
}
