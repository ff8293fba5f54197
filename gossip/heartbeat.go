package gossip

import (
	"encoding/binary"

	"github.com/ringlet/ringlet/gossip/datagram"
	"github.com/ringlet/ringlet/ipam/peer"
)

// heartbeatPayload is what rides on answers to probes and on push/pulls:
//
//	kindHeartbeat (1 byte), digest (8), frame
//
// The digest is big-endian.
type heartbeatPayload struct {
	frame  []byte
	digest uint64
}

const kindHeartbeat = datagram.KindHeartbeat

const heartbeatHeader = 1 + 8

// heartbeatPayload returns this peer's, nothing before it has a heartbeat.
func (g *Gossip) heartbeatPayload() []byte {
	heartbeat := g.currentHeartbeat()
	if len(heartbeat) == 0 {
		return nil
	}
	b := append(make([]byte, 0, heartbeatHeader+len(heartbeat)), kindHeartbeat)
	b = binary.BigEndian.AppendUint64(b, g.digest.Load())
	return append(b, heartbeat...)
}

// readHeartbeat takes hostile bytes. The heartbeat shares memory with b.
func readHeartbeat(b []byte) (p heartbeatPayload, ok bool) {
	if len(b) <= heartbeatHeader || len(b) > heartbeatHeader+maxHeartbeatBytes || b[0] != kindHeartbeat {
		return heartbeatPayload{}, false
	}
	p = heartbeatPayload{frame: b[heartbeatHeader:], digest: binary.BigEndian.Uint64(b[1:])}
	return p, sender(p.frame) != peer.None
}
