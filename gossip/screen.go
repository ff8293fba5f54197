package gossip

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/gossip/guard"
	"github.com/ringlet/ringlet/internal/logattr"
)

// screen keeps strangers from memberlist (see package guard), and counts and
// tells whom it has refused. It outlives the sockets. Safe for concurrent use.
type screen struct {
	g         *Gossip
	ring      atomic.Pointer[guard.Ring]
	failures  *guard.Failures
	refused   [guard.NumReasons]atomic.Uint64
	encrypted atomic.Uint64 // what was sent that took a nonce of the key
	opening   sync.Mutex    // of long messages: one at a time takes the memory for its plaintext
	scratch   sync.Pool     // of *[]byte, for plaintext that nobody reads

	mu      sync.Mutex
	logged  map[netip.Addr]struct{} // whose refusal was logged since then
	since   time.Time
	senders map[netip.Addr]time.Time // when a peer's stream came last from an address
}

// maxLogged bounds how many strangers are logged in [repeatEvery].
const maxLogged = 64

// How many addresses of peers' streams are remembered, and for how long.
const (
	maxSenders = 1024
	senderTime = time.Hour
)

func newScreen(g *Gossip) *screen {
	s := &screen{g: g, failures: guard.NewFailures(), logged: make(map[netip.Addr]struct{}), senders: make(map[netip.Addr]time.Time)}
	// Without keys it cannot fail.
	ring, _ := guard.NewRing(g.cfg.Label, nil)
	s.ring.Store(ring)
	return s
}

// use makes these the keys that open what arrives. Whoever changes memberlist's
// keys calls it before: so what this peer stops to accept is never answered.
func (s *screen) use(keys [][]byte) error {
	ring, err := guard.NewRing(s.g.cfg.Label, keys)
	if err == nil {
		s.ring.Store(ring)
	}
	return err
}

// keyed reports whether there are keys.
func (s *screen) keyed() bool { return s.ring.Load().Keyed() }

// packet reports whether a packet is a peer's. It writes to scratch, and returns it, longer if need be.
func (s *screen) packet(b []byte, from netip.Addr, now time.Time, scratch []byte) ([]byte, bool) {
	ring := s.ring.Load()
	body, why := ring.Packet(b)
	// What somebody sends in a peer's name must not keep that one out: of addresses that are known everything is tried.
	if why == guard.None && !s.failures.Left(from, now) && !s.g.familiar(from) {
		why = guard.Budget
	}
	if why == guard.None {
		var opened bool
		if scratch, opened = ring.OpensPacket(body, scratch); !opened {
			s.failures.Spend(from, now)
			why = guard.Key
		}
	}
	if why != guard.None {
		s.refuse(why, from, false, now)
	}
	return scratch, why == guard.None
}

// longMessage is what is opened one at a time, in bytes.
const longMessage = 64 << 10

// message reports whether a whole message of a stream is a peer's.
func (s *screen) message(b []byte, d guard.Direction) bool {
	if len(b) > longMessage {
		s.opening.Lock()
		defer s.opening.Unlock()
	}
	scratch, ok := s.scratch.Get().(*[]byte)
	if !ok {
		scratch = new([]byte)
	}
	*scratch, ok = s.ring.Load().OpensMessage(b, d, *scratch)
	s.scratch.Put(scratch)
	return ok
}

// refuse counts what was refused, of an address that a stream has proved to be its source's, or a packet has not. It
// logs each source once in a while, and has it remembered if its cause is one that an operator can mend.
func (s *screen) refuse(why guard.Reason, from netip.Addr, proved bool, now time.Time) {
	s.refused[why].Add(1)
	if c, ok := causeOf(why); ok {
		s.g.diagnostics.sighted(c, from, proved, now)
	}
	if why == guard.Budget || !s.first(from, now) {
		return
	}
	level := slog.LevelInfo
	if why == guard.Unlabelled || why == guard.Cut {
		level = slog.LevelDebug // who looks whether the port is open, as ringlet doctor does
	}
	s.g.log.LogAttrs(context.Background(), level, "stranger refused", logattr.Kind(why.String()), slog.String("addr", from.String()))
}

// first reports whether no refusal of a source was logged lately. Of those that are too many none is.
func (s *screen) first(from netip.Addr, now time.Time) bool {
	from = guard.Source(from)
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.since) >= repeatEvery {
		clear(s.logged)
		s.since = now
	}
	if _, was := s.logged[from]; was || len(s.logged) >= maxLogged {
		return false
	}
	s.logged[from] = struct{}{}
	return true
}

// prove notes that a peer's stream has come from an address.
func (s *screen) prove(from netip.Addr, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, have := s.senders[from]; !have && len(s.senders) >= maxSenders {
		clear(s.senders) // more peers than there can be: each proves itself again
	}
	s.senders[from] = now
}

// proved reports whether a peer's stream has come from an address lately. A peer may have others than the one at which it
// is known. It is still one of many that are not: a host that sends again what a peer has sent proves that as well.
func (s *screen) proved(from netip.Addr, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, have := s.senders[from]
	return have && now.Sub(last) < senderTime
}

// familiar reports whether an address is known: of a peer that is alive or was, of a host in Config.Join, or one at which
// a peer is said to be as well.
func (g *Gossip) familiar(a netip.Addr) bool {
	return g.table.holds(a) || g.seeds.holds(a) || g.diagnostics.holds(a)
}

// counts returns how much of strangers was refused, for each reason that there is.
func (s *screen) counts() map[string]uint64 {
	counts := make(map[string]uint64, guard.NumReasons-1)
	for why := guard.None + 1; why < guard.NumReasons; why++ {
		counts[why.String()] = s.refused[why].Load()
	}
	return counts
}
