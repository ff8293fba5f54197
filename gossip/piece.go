package gossip

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// A parcel that is longer than one datagram, but not much, goes as several,
// each of which is sent again by itself until it has a receipt: a stream costs
// a connection, and when it loses a packet a second. Behind the header of the
// parcel each piece but the last has pieceSize bytes of it. A piece is
//
//	kind (1 byte), who sends it (16), ID of the parcel (8), number (1), how many there are (1), bytes
//
// Numbers begin with 1. The receipt for a piece has the ID of its parcel plus
// its number; that for the whole parcel, with its ID, stands for all of them.
type piece struct {
	from   peer.ID
	parcel uint64
	number int // 1 to of
	of     int // 2 to maxPieces
	bytes  []byte
}

const (
	pieceHeader = 1 + len(peer.ID{}) + 8 + 1 + 1
	pieceSize   = maxDatagram - pieceHeader
	// maxPieces is how many pieces a parcel has at most.
	maxPieces = 16
	// maxPieced is the longest parcel that goes in pieces, in bytes.
	maxPieced = parcelHeader + maxPieces*pieceSize
)

// Limits of parcels of which not all pieces have come.
const (
	maxPartial     = 256         // of all senders
	maxPartialEach = maxFlying   // of one sender
	partialLife    = 2 * maxLife // from the first piece; the sender gives up after one
)

// piece writes the piece of a number.
func (p *parcel) piece(self peer.ID, number int) []byte {
	rest := p.body[parcelHeader+(number-1)*pieceSize:]
	rest = rest[:min(len(rest), pieceSize)]
	b := append(make([]byte, 0, pieceHeader+len(rest)), kindPiece)
	b = append(b, self[:]...)
	b = binary.BigEndian.AppendUint64(b, p.id)
	b = append(b, byte(number), byte(len(p.posts)))
	return append(b, rest...)
}

// readPiece takes hostile bytes, with which the piece shares memory.
func readPiece(b []byte) (p piece, ok bool) {
	if len(b) <= pieceHeader || len(b) > maxDatagram {
		return piece{}, false
	}
	const at = 1 + len(peer.ID{})
	p = piece{
		from: peer.ID(b[1:at]), parcel: binary.BigEndian.Uint64(b[at:]),
		number: int(b[at+8]), of: int(b[at+9]), bytes: b[pieceHeader:],
	}
	return p, p.of >= 2 && p.of <= maxPieces && p.number >= 1 && p.number <= p.of
}

// partials are parcels of which some pieces have come. Those that are too old
// go when the next one comes, the oldest if there are too many. Safe for
// concurrent use.
type partials struct {
	mu   sync.Mutex
	list []*partial // the oldest first
}

// partial is one of them.
type partial struct {
	from    peer.ID
	parcel  uint64
	begun   time.Time
	pieces  [][]byte // by number less 1; nil: not there
	missing int
}

// add takes a piece, and returns what is behind the header of its parcel if
// that is whole now. A piece that contradicts another of its parcel is refused.
// Of two that have one number the first stays.
func (s *partials) add(p piece, now time.Time) (whole []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(have *partial) bool { return now.Sub(have.begun) > partialLife })
	i := slices.IndexFunc(s.list, func(have *partial) bool { return have.parcel == p.parcel && have.from == p.from })
	if i < 0 {
		s.makeRoom(p.from)
		i = len(s.list)
		s.list = append(s.list, &partial{from: p.from, parcel: p.parcel, begun: now, pieces: make([][]byte, p.of), missing: p.of})
	}
	have := s.list[i]
	switch {
	case p.of != len(have.pieces):
		return nil, false
	case have.pieces[p.number-1] != nil:
		return nil, true
	}
	have.pieces[p.number-1] = bytes.Clone(p.bytes)
	if have.missing--; have.missing > 0 {
		return nil, true
	}
	s.list = slices.Delete(s.list, i, i+1)
	return bytes.Join(have.pieces, nil), true
}

// makeRoom makes room for one more parcel of a sender.
func (s *partials) makeRoom(from peer.ID) {
	of, oldest := 0, 0
	for i, have := range slices.Backward(s.list) {
		if have.from == from {
			of, oldest = of+1, i
		}
	}
	switch {
	case of >= maxPartialEach:
		s.list = slices.Delete(s.list, oldest, oldest+1)
	case len(s.list) >= maxPartial:
		s.list = slices.Delete(s.list, 0, 1)
	}
}
