package ipam

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Event is what happens to a [Machine]: a *[Call], a *[Message], a *[Presence], a
// [Tick] or [ClockSet].
type Event interface{ event() }

// Tick says that time has passed. It is due at [Effects.WakeAt], and harmless
// at any other time.
type Tick struct{}

// ClockSet says that somebody has set the host's clock since the last step, while this
// process ran. What was noted before that has another clock's times. So it looks, too, where
// the host was suspended: of that time the clock that nobody sets knows nothing.
type ClockSet struct {
	By time.Duration // how far ahead the clock is of where it would be, negative if it is behind
}

// Call is a request that is answered by one [Reply] with its ID, at once or
// in a later step, and by its deadline at the latest.
type Call struct {
	ID       uint64 // the caller's, unique among the calls that wait
	Deadline time.Time
	Request  Request

	proposed []*replog.Proposal // what it waits for, or waited for and has not asked about since
	askedAt  time.Time          // when it asked another peer first
	doubted  uint64             // when it first found that only a list tells who asks, or whether the holder lives
	before   bool               // it came before the engine last started
	starts   bool               // the engine may have been starting as it came
	partly   bool               // what it waits for is only a part of what it asks for

	pool     poolProgress
	host     hostProgress
	reserved reserveProgress
}

// poolProgress is what became so far of a call that has a pool made or removed.
type poolProgress struct {
	subnet  netip.Prefix      // that was chosen for it
	inUse   []netip.Prefix    // pools that could make room for it, and that other hosts use
	made    chronicle.PoolKey // the pool that was made for it
	removed bool              // a pool was removed for it
}

// hostProgress is what became so far of a call about a host that goes.
type hostProgress struct {
	meant  peer.ID    // the peer that it named, whatever became of it since
	frees  Forgetting // what the peer that it forgets had
	leaves bool       // it has had this peer begin to leave
}

// reserveProgress is what became so far of a call that reserves addresses, or ends that.
type reserveProgress struct {
	heldBy   map[addr.Offset]string // who holds what it would exclude, as other peers told
	freed    uint64                 // how many reserved addresses it frees
	affirmed bool                   // what it found to be so already was so when it asked
}

// Message is a frame that came from another peer.
type Message struct {
	Frame *wire.Frame
	// Seat is the place of the sender's host in the list of hosts that found
	// a cluster together, from 1; 0 if it is not in it.
	Seat int
}

// Presence says whether another peer can be reached, as far as the carrier of
// messages believes. It is advice: nothing that must be right depends on it.
type Presence struct {
	Peer  peer.ID
	Alive bool
	Name  peer.Name
	Addr  string // where it is, for people and for the next start
	Seat  int    // as in Message
	// Self says that this is about this peer, of which only the seat is told.
	Self bool
}

func (Tick) event()      {}
func (ClockSet) event()  {}
func (*Call) event()     {}
func (*Message) event()  {}
func (*Presence) event() {}
