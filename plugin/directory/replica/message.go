package replica

import (
	"bytes"
	"errors"
	"net/netip"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
)

const (
	// MaxMessage is the longest message, in bytes.
	MaxMessage = 256 << 10
	// MaxAnswer is the longest text of an [Answer], in bytes.
	MaxAnswer = 16 << 10
)

// Message is what one replica says to another: a [Hashes], [Vector], [Want],
// [Pages], [Clear], [Question] or [Answer].
type Message interface {
	append(b []byte) []byte
}

// The messages.
type (
	// Hashes says what a replica has, in Buckets numbers.
	Hashes struct {
		Leases bool // the renewals are in it
		Sums   [Buckets]uint64
	}
	// Vector says how far a replica is with each peer of some buckets.
	Vector struct {
		Buckets uint32 // one bit each, the lowest for the first
		Answer  bool   // the same is wanted from the addressee
		Marks   []Mark
	}
	// Want asks for what lies behind some positions.
	Want struct{ At []Position }
	// Pages brings changes of some peers.
	Pages struct {
		Parts []Part
		Rest  []peer.ID // those that were wanted and found no room
	}
	// Clear asks a peer to remove keys of its own, and to set again what it holds. It
	// is no affair of the replica, which takes it in without an answer.
	Clear struct {
		Serial uint64 // of the sender; a message that comes twice counts once
		Key    string
		Below  bool // all keys that begin with Key
	}
	// Question asks a peer who had an address at a time, and Answer is what it answers; neither is an affair of the replica,
	// as with Clear.
	Question struct {
		Serial  uint64     // of the sender; a question that comes twice gets the same answer
		Address netip.Addr // IPv4 or IPv6, without a zone
		At      time.Time  // in UTC, in the years 0 to 9999
	}
	// Answer is the answer to the Question with its serial.
	Answer struct {
		Serial uint64
		Text   []byte // of at most MaxAnswer bytes; empty: the peer cannot tell
	}
)

// The time of a [Question] is written in seconds since the first one. Both are in seconds since 1970.
const (
	firstTime = -62167219200 // the year 0 begins
	endOfTime = 253402300800 // the year 10000 begins
)

// Meets reports whether a key is to be removed.
func (c Clear) Meets(key string) bool {
	return key == c.Key || c.Below && strings.HasPrefix(key, c.Key)
}

// Mark says how far a replica is with a peer's section, and what it knows of
// its lease.
type Mark struct {
	Origin  peer.ID
	Boot    peer.Boot
	Seq     uint64
	Renewal uint64
	Left    time.Duration
}

// Position says where a replica is on its way with a peer's section.
type Position struct {
	Origin peer.ID
	Boot   peer.Boot
	Seq    uint64
	// Base is up to where it needs to be told of no removals, though it may not
	// be there yet: what it has is of a state with that number.
	Base uint64
}

// Part is some changes of one peer in order.
type Part struct {
	Origin   peer.ID
	Boot     peer.Boot
	Whole    bool   // what was there before goes
	From, To uint64 // the changes behind From, up to To
	Head     uint64 // the last change that the sender knows
	Floor    uint64 // the sender may have forgotten removals up to this change
	Renewal  uint64
	Left     time.Duration
	Puts     []Put
}

// Put is one change: a nil Value is a removal.
type Put struct {
	Seq   uint64
	Key   string
	Value []byte
}

// The kinds of messages. Their numbers are never reused.
const (
	kindHashes = 1
	kindVector = 2
	kindWant   = 3
	kindPages  = 4
	kindClear  = 5

	kindQuestion = 6
	kindAnswer   = 7
)

// The least bytes that an item takes, by which counts are checked.
const (
	minMark     = 16 + 4
	minPosition = 16 + 3
	minPart     = 16 + 9
	minPut      = 3
)

// size is at least what a change takes in a message, in bytes.
func (p Put) size() int { return 10 + 2 + len(p.Key) + 3 + len(p.Value) }

// Encode writes a message.
func Encode(m Message) []byte { return m.append(nil) }

func (h Hashes) append(b []byte) []byte {
	b = codec.Bool(append(b, kindHashes), h.Leases)
	for _, sum := range h.Sums {
		b = codec.Uint(b, sum)
	}
	return b
}

func (v Vector) append(b []byte) []byte {
	b = codec.Bool(codec.Uint(append(b, kindVector), uint64(v.Buckets)), v.Answer)
	b = codec.Uint(b, uint64(len(v.Marks)))
	for _, m := range v.Marks {
		b = append(b, m.Origin[:]...)
		b = codec.Uint(codec.Uint(b, uint64(m.Boot)), m.Seq)
		b = codec.Uint(codec.Uint(b, m.Renewal), millis(m.Left))
	}
	return b
}

func (w Want) append(b []byte) []byte {
	b = codec.Uint(append(b, kindWant), uint64(len(w.At)))
	for _, p := range w.At {
		b = append(b, p.Origin[:]...)
		b = codec.Uint(codec.Uint(codec.Uint(b, uint64(p.Boot)), p.Seq), p.Base)
	}
	return b
}

func (n Pages) append(b []byte) []byte {
	b = codec.Uint(append(b, kindPages), uint64(len(n.Parts)))
	for _, p := range n.Parts {
		b = append(b, p.Origin[:]...)
		b = codec.Bool(codec.Uint(b, uint64(p.Boot)), p.Whole)
		b = codec.Uint(codec.Uint(codec.Uint(codec.Uint(b, p.From), p.To), p.Head), p.Floor)
		b = codec.Uint(codec.Uint(b, p.Renewal), millis(p.Left))
		b = codec.Uint(b, uint64(len(p.Puts)))
		last := p.From
		for _, put := range p.Puts {
			b = codec.Bytes(codec.Uint(b, put.Seq-last), put.Key)
			last = put.Seq
			if b = codec.Bool(b, put.Value != nil); put.Value != nil {
				b = codec.Bytes(b, put.Value)
			}
		}
	}
	b = codec.Uint(b, uint64(len(n.Rest)))
	for _, id := range n.Rest {
		b = append(b, id[:]...)
	}
	return b
}

func (c Clear) append(b []byte) []byte {
	b = codec.Uint(append(b, kindClear), c.Serial)
	return codec.Bool(codec.Bytes(b, c.Key), c.Below)
}

func (q Question) append(b []byte) []byte {
	b = codec.Uint(append(b, kindQuestion), q.Serial)
	b = codec.Bytes(b, q.Address.AsSlice())
	return codec.Uint(codec.Uint(b, uint64(q.At.Unix()-firstTime)), uint64(q.At.Nanosecond()))
}

func (a Answer) append(b []byte) []byte {
	return codec.Bytes(codec.Uint(append(b, kindAnswer), a.Serial), a.Text)
}

// errLong is returned for a message that is longer than any may be.
var errLong = errors.New("message is too long")

// Decode reads one message, which is all of b and may be anybody's. What it
// returns shares no memory with b.
func Decode(b []byte) (Message, error) {
	if len(b) > MaxMessage {
		return nil, errLong
	}
	r := codec.NewReader(b)
	var m Message
	switch r.Byte("kind") {
	case kindHashes:
		h := Hashes{Leases: r.Bool("leases")}
		for i := range h.Sums {
			h.Sums[i] = r.Uint("hash")
		}
		m = h
	case kindVector:
		m = readVector(r)
	case kindWant:
		w := Want{}
		for range r.Count("number of positions", minPosition) {
			w.At = append(w.At, Position{Origin: r.ID("peer"), Boot: peer.Boot(r.Uint("boot")), Seq: r.Uint("position"), Base: r.Uint("base")})
		}
		m = w
	case kindPages:
		m = readPages(r)
	case kindClear:
		m = Clear{Serial: r.Uint("serial"), Key: string(r.Bytes("key", MaxKey)), Below: r.Bool("below")}
	case kindQuestion:
		m = readQuestion(r)
	case kindAnswer:
		m = Answer{Serial: r.Uint("serial"), Text: bytes.Clone(r.Bytes("text", MaxAnswer))}
	default:
		r.Fail("kind")
	}
	if err := r.Done(); err != nil {
		return nil, err
	}
	return m, nil
}

func readQuestion(r *codec.Reader) Question {
	q := Question{Serial: r.Uint("serial")}
	var known bool
	if q.Address, known = netip.AddrFromSlice(r.Bytes("address", 16)); !known || q.Address.Is4In6() {
		r.Fail("address")
	}
	seconds, nanos := r.Uint("time"), r.Uint("nanoseconds")
	if seconds >= endOfTime-firstTime || nanos >= uint64(time.Second) {
		r.Fail("time")
		return q
	}
	q.At = time.Unix(firstTime+int64(seconds), int64(nanos)).UTC()
	return q
}

func readVector(r *codec.Reader) Vector {
	v := Vector{}
	n := r.Uint("buckets")
	if v.Buckets = uint32(n); uint64(v.Buckets) != n {
		r.Fail("buckets")
	}
	v.Answer = r.Bool("answer")
	for range r.Count("number of marks", minMark) {
		v.Marks = append(v.Marks, Mark{
			Origin: r.ID("peer"), Boot: peer.Boot(r.Uint("boot")), Seq: r.Uint("position"), Renewal: r.Uint("renewal"), Left: readLeft(r),
		})
	}
	return v
}

func readPages(r *codec.Reader) Pages {
	n := Pages{}
	for range r.Count("number of parts", minPart) {
		n.Parts = append(n.Parts, readPart(r))
	}
	for range r.Count("number of peers", len(peer.ID{})) {
		n.Rest = append(n.Rest, r.ID("peer"))
	}
	return n
}

func readPart(r *codec.Reader) Part {
	p := Part{
		Origin: r.ID("peer"), Boot: peer.Boot(r.Uint("boot")), Whole: r.Bool("whole"),
		From: r.Uint("begin"), To: r.Uint("end"), Head: r.Uint("head"), Floor: r.Uint("floor"),
		Renewal: r.Uint("renewal"), Left: readLeft(r),
	}
	if p.Boot == 0 || p.From > p.To || p.To > p.Head || p.Floor > p.Head || p.Whole && p.From != 0 {
		r.Fail("part")
	}
	last := p.From
	for range r.Count("number of changes", minPut) {
		step := r.Uint("number of a change")
		put := Put{Seq: last + step, Key: string(r.Bytes("key", MaxKey))}
		if step == 0 || step > p.To-last || put.Key == "" {
			r.Fail("change")
		}
		last = put.Seq
		if r.Bool("set") {
			// A copy: what is kept of a page must not keep all of it.
			if put.Value = bytes.Clone(r.Bytes("value", MaxValue)); len(put.Value) == 0 {
				r.Fail("value")
			}
		}
		p.Puts = append(p.Puts, put)
		if r.Err() != nil {
			break
		}
	}
	return p
}

// millis writes a time that is left, rounded down: no replica keeps what
// another has given up.
func millis(d time.Duration) uint64 { return uint64(max(d, 0) / time.Millisecond) }

func readLeft(r *codec.Reader) time.Duration {
	n := r.Uint("time left")
	if n > uint64(Lease/time.Millisecond) {
		r.Fail("time left")
		return 0
	}
	return time.Duration(n) * time.Millisecond
}
