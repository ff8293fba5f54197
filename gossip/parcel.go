package gossip

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// What goes from one peer to another is a parcel: frames that were sent
// together, which arrive together and in order. It is
//
//	kind (1 byte), ID (8), then for each frame its length (a uvarint) and itself
//
// and a receipt is
//
//	kind (1), who got them (16), their IDs (8 each)
//
// IDs are random. Kinds are above all versions of a frame, which stand where
// they do in a broadcast. A parcel that is a few datagrams long goes in pieces
// (see [piece]). A receipt travels with a datagram that goes the same way, as
//
//	kind (1 byte), then for each of both its length (a uvarint) and itself
const (
	kindDatagram = 0xf0 // a parcel that wants a receipt
	kindStream   = 0xf1 // a parcel that wants none
	kindReceipt  = 0xf2
	kindPiece    = 0xf3
	kindTogether = 0xf4
)

const (
	parcelHeader = 1 + 8
	// maxDatagram is the longest parcel that is sent as a datagram, in bytes:
	// what packetSize leaves beside the longest label (18), encryption (29), a
	// checksum (5) and memberlist's own type (1).
	maxDatagram = packetSize - 18 - 29 - 5 - 1
	// maxTogether is how long a parcel may become by frames that are put
	// behind a long one, in bytes.
	maxTogether = 1 << 20
	// maxParcel is the longest parcel, of one frame.
	maxParcel     = parcelHeader + binary.MaxVarintLen32 + MaxFrame
	receiptHeader = 1 + len(peer.ID{})
	// maxReceipts is how many parcels one receipt is for.
	maxReceipts = (maxDatagram - receiptHeader) / 8
)

// parcel is some frames on their way to one peer.
type parcel struct {
	id     uint64
	body   []byte
	frames uint64    // how many
	born   time.Time // when it was put into the outbox

	behind *parcel // that was sent together with it, before it; nil: none
	done   bool    // nothing need wait for it any more
	posts  []post  // of its datagrams, one for each piece; none if the parcel is long
	one    [1]post // what posts is of most
	stream streamState
	sent   bool // it was handed to the network, once or more often
}

// post is how far a datagram has come.
type post struct {
	times int       // how often it was sent
	last  time.Time // when that was
	again time.Time // when it is due; zero: at once
	there bool      // its receipt has come, if it is one of several
}

// streamState is how far a parcel has come with going over a stream.
type streamState byte

const (
	noStream streamState = iota // it need not
	awaited                     // it shall
	begun                       // it does, or did
	streamed                    // it did
)

// pack puts frames that are sent together into as few parcels as keep them in
// order: as datagrams if they fit, those behind a long one with it. A parcel
// waits for the receipt of the one before: memberlist hands over first what came
// last.
func pack(frames [][]byte) []*parcel {
	var parcels []*parcel
	for _, frame := range frames {
		var last *parcel
		if len(parcels) > 0 {
			last = parcels[len(parcels)-1]
		}
		size := len(frame) + uvarintLen(len(frame))
		if last == nil || !last.fits(size) {
			last = &parcel{id: rand.Uint64(), behind: last}
			last.body = append(make([]byte, 0, parcelHeader+size), kindDatagram)
			last.body = binary.BigEndian.AppendUint64(last.body, last.id)
			parcels = append(parcels, last)
		}
		last.body = binary.AppendUvarint(last.body, uint64(len(frame)))
		last.body = append(last.body, frame...)
		last.frames++
	}
	for _, p := range parcels {
		p.divide()
	}
	return parcels
}

// fits reports whether a frame of that size can go with those in the parcel.
func (p *parcel) fits(size int) bool {
	if len(p.body) > maxPieced {
		return len(p.body)+size <= maxTogether
	}
	return len(p.body)+size <= maxPieced
}

// divide settles what the parcel goes as.
func (p *parcel) divide() {
	switch {
	case len(p.body) <= maxDatagram:
		p.posts = p.one[:]
	case len(p.body) <= maxPieced:
		p.posts = make([]post, (len(p.body)-parcelHeader+pieceSize-1)/pieceSize)
	default:
		p.lengthen()
	}
}

// lengthen has the parcel go over a stream alone.
func (p *parcel) lengthen() { p.posts, p.body[0], p.stream = nil, kindStream, awaited }

// long reports whether the parcel only goes over a stream.
func (p *parcel) long() bool { return len(p.posts) == 0 }

// inPieces reports whether the parcel goes as several datagrams.
func (p *parcel) inPieces() bool { return len(p.posts) > 1 }

// begun reports whether the parcel was sent as datagrams.
func (p *parcel) begun() bool { return !p.long() && p.posts[0].times > 0 }

// confirmedBy reports whether a receipt is for the parcel, or for a piece of it.
func (p *parcel) confirmedBy(id uint64) bool {
	return p.begun() && (id == p.id || p.inPieces() && id-p.id <= uint64(len(p.posts)))
}

// waits reports whether the parcel has to wait for the one before.
func (p *parcel) waits() bool {
	if p.behind != nil && p.behind.done {
		p.behind = nil
	}
	return p.behind != nil
}

// streamBody is what goes over a stream.
func (p *parcel) streamBody() []byte {
	if p.body[0] == kindStream {
		return p.body
	}
	b := slices.Clone(p.body)
	b[0] = kindStream
	return b
}

func uvarintLen(n int) int { return len(binary.AppendUvarint(nil, uint64(n))) }

// unpack takes hostile bytes. The frames share memory with b.
func unpack(b []byte) (id uint64, frames [][]byte, ok bool) {
	if len(b) < parcelHeader || len(b) > maxParcel {
		return 0, nil, false
	}
	frames, ok = split(b[parcelHeader:], minFrame)
	return binary.BigEndian.Uint64(b[1:]), frames, ok
}

// split takes hostile bytes, and returns what is in them, each behind its length
// (a uvarint), if that is something and each has least bytes or more. It shares
// memory with them.
func split(rest []byte, least int) (all [][]byte, ok bool) {
	for len(rest) > 0 {
		n, used := binary.Uvarint(rest)
		if used <= 0 || n > uint64(len(rest)-used) || n < uint64(least) {
			return nil, false
		}
		end := used + int(n)
		all = append(all, rest[used:end:end])
		rest = rest[end:]
	}
	return all, len(all) > 0
}

// receipt writes a receipt for at most [maxReceipts] parcels.
func receipt(self peer.ID, ids []uint64) []byte {
	b := append([]byte{kindReceipt}, self[:]...)
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	return b
}

// readReceipt takes hostile bytes.
func readReceipt(b []byte) (from peer.ID, ids []uint64, ok bool) {
	if len(b) < receiptHeader || len(b) > maxDatagram || (len(b)-receiptHeader)%8 != 0 {
		return peer.None, nil, false
	}
	for rest := b[receiptHeader:]; len(rest) > 0; rest = rest[8:] {
		ids = append(ids, binary.BigEndian.Uint64(rest))
	}
	return peer.ID(b[1:receiptHeader]), ids, len(ids) > 0
}

// togetherHeader is what it takes to put two together, in bytes, at most.
const togetherHeader = 1 + 2 + 2

// together puts datagrams into one that are not too long for that.
func together(all ...[]byte) []byte {
	b := []byte{kindTogether}
	for _, one := range all {
		b = binary.AppendUvarint(b, uint64(len(one)))
		b = append(b, one...)
	}
	return b
}

// apart takes hostile bytes. The datagrams share memory with b, none is empty.
func apart(b []byte) (all [][]byte, ok bool) {
	if len(b) > maxDatagram {
		return nil, false
	}
	return split(b[1:], 1)
}

// maxSeen is how many parcels are remembered as received: some seconds' worth
// of a busy peer's, while a parcel is repeated for one.
const maxSeen = 4096

// seen tells parcels that have come already. Safe for concurrent use.
type seen struct {
	mu    sync.Mutex
	ids   map[uint64]struct{}
	order []uint64 // a ring
	next  int
}

// has reports whether the parcel has come.
func (s *seen) has(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, have := s.ids[id]
	return have
}

// add reports whether the parcel is new.
func (s *seen) add(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, have := s.ids[id]; have {
		return false
	}
	if s.ids == nil {
		s.ids = make(map[uint64]struct{})
	}
	s.ids[id] = struct{}{}
	if len(s.order) < maxSeen {
		s.order = append(s.order, id)
		return true
	}
	delete(s.ids, s.order[s.next])
	s.order[s.next] = id
	s.next = (s.next + 1) % maxSeen
	return true
}
