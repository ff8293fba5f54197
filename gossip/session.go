package gossip

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip/datagram"
	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/logattr"
)

// How memberlist is set up, where that differs from its defaults for a LAN.
const (
	// packetSize is a datagram with the longest label (18), encryption (29), a checksum (5) and memberlist's own type (1).
	// With the headers of IP and UDP it fits the smallest MTU of IPv6 and that of tunnels (WireGuard: 1,420).
	packetSize = datagram.MaxSize + 18 + 29 + 5 + 1
	// probeEvery is how often a peer looks whether another one, each in turn, is
	// alive, and suspicion how patient it is then, in probes times the logarithm
	// of their number. Nothing depends on quick detection, busy hosts flap, and
	// probes are most of what an idle peer says.
	probeEvery = 1500 * time.Millisecond
	suspicion  = 4
	// memberRetransmits is how often it repeats what it says about members, times
	// the number of digits of their number: as often again as by default, for half
	// of it are answers to who has just said the same.
	memberRetransmits = 8
	// exchangeEvery is how often it compares all that it knows of peers with one
	// of them, less often among more than 32: that is long, and seldom finds
	// anything. A peer that hears from an unknown peer exchanges state at once.
	exchangeEvery = 2 * time.Minute
	// reclaim is how long a dead peer's name stays bound to its former address.
	reclaim = 5 * time.Second
	// handoff is how many packets wait for memberlist's own handling.
	handoff = 4096
)

const (
	heartbeatEvery = 10 * time.Second
	addrEvery      = 10 * time.Second // how often it is seen to that the host still has its address
	leaveTime      = time.Second      // for the word that this peer leaves to go out
	leaveLinger    = time.Second      // for others to pass it on, before the sockets close
)

// session is one memberlist, from opening its sockets to closing them.
type session struct {
	g          *Gossip
	delegate   *delegate
	transport  *transport
	keyring    *memberlist.Keyring
	list       *memberlist.Memberlist
	self       netip.AddrPort
	port       uint16                     // that is bound, self may have another
	own        atomic.Pointer[[]hostAddr] // see isOwn; nil: not known yet
	began      time.Time
	asked      time.Time // when peers were last asked about somebody unknown
	secondSync bool      // it has looked a second time at who is there
	refusals   refusals
	resolved   int // how many names of Config.Join were known when the address was chosen
}

// create makes a memberlist on open sockets, which it closes if that fails. It begins to answer at once.
func (g *Gossip) create(inner memberlist.Transport, addr netip.Addr, port uint16, keys [][]byte) (*session, error) {
	self := netip.AddrPortFrom(addr.Unmap(), port)
	if p := g.cfg.Advertise.Port(); p != 0 {
		self = netip.AddrPortFrom(self.Addr(), p)
	}
	s := &session{g: g, self: self, port: port, began: time.Now(), resolved: g.seeds.resolved()}
	if err := s.takeKeys(keys); err != nil {
		discard(inner)
		return nil, err
	}
	s.transport = newTransport(inner, self, g.cfg.Transport == nil, g.screen)
	s.delegate = &delegate{g: g, generation: g.table.begin()}
	var err error
	if s.list, err = memberlist.Create(s.config()); err != nil {
		g.table.end(time.Now())
		discard(s.transport)
		return nil, fmt.Errorf("memberlist cannot be started: %w", err)
	}
	g.cfg.Pace.Begin() // memberlist's own timers begin now
	return s, nil
}

// takeKeys makes the ring of keys that memberlist and the screen begin with.
func (s *session) takeKeys(keys [][]byte) (err error) {
	if s.keyring, err = memberlist.NewKeyring(nil, nil); err != nil {
		return err
	}
	for _, key := range keys { // the first becomes the one that encrypts
		if err := s.keyring.AddKey(key); err != nil {
			return err
		}
	}
	return s.g.screen.use(keys)
}

func (s *session) config() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name = memberName(s.g.cfg.ID)
	c.Label = s.g.cfg.Label
	c.Transport = s.transport
	c.BindAddr, c.BindPort = s.self.Addr().String(), int(s.self.Port()) // only for messages of the first protocol, and its log
	c.AdvertiseAddr, c.AdvertisePort = c.BindAddr, c.BindPort
	c.TCPTimeout = streamTime
	c.EnableCompression = false // allocates 64 KiB for each packet
	c.UDPBufferSize = packetSize
	c.ProbeInterval, c.SuspicionMult = probeEvery, suspicion
	c.PushPullInterval = exchangeEvery
	c.GossipInterval, c.RetransmitMult = lookEvery, memberRetransmits
	c.DeadNodeReclaimTime = reclaim
	c.HandoffQueueDepth = handoff
	c.GossipVerifyIncoming, c.GossipVerifyOutgoing = true, true
	c.Keyring = s.keyring // also without keys, so that they can come later
	c.Delegate, c.Events, c.Ping = s.delegate, s.delegate, s.delegate
	c.Conflict, c.Alive = s.delegate, s.delegate
	c.Logger = s.g.memberlistLogger()
	return c
}

// run keeps the session up until ctx ends, or the host loses its address.
func (s *session) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.g.log.Info("network opened", addrAttr(s.self), countAttr(len(s.keyring.GetKeys())))
	s.g.diagnostics.opened(s)
	s.g.datagrams.Open(s)
	var loops sync.WaitGroup
	loops.Go(func() { s.g.datagrams.Run(ctx) })
	loops.Go(func() { s.disseminate(ctx) })
	loops.Go(func() { s.rejoin(ctx) })
	loops.Go(func() { s.meet(ctx) })
	loops.Go(func() { s.sendHeartbeats(ctx) })
	loops.Go(func() { s.rekey(ctx) })
	loops.Go(func() {
		if s.lostAddress(ctx) {
			s.g.log.Warn("advertised address changed, network reopening", addrAttr(s.self))
			cancel()
		}
	})
	<-ctx.Done()
	s.close(&loops)
}

// close leaves and closes the sockets. What is under way is ended, not waited
// for.
func (s *session) close(loops *sync.WaitGroup) {
	s.g.datagrams.Close()
	s.transport.hangUp()
	loops.Wait()
	if s.g.table.numAlive() > 0 {
		// An error says that no peer has heard of it: their probes will show.
		if err := s.leave(); err != nil {
			s.g.log.Debug("leave not announced", logattr.Err(err))
		}
	}
	s.g.table.end(time.Now())
	if err := s.list.Shutdown(); err != nil {
		s.g.log.Warn("network not closed cleanly", logattr.Err(err))
	}
	s.g.diagnostics.opened(nil)
}

// sendHeartbeats sends the heartbeat to one peer at a time: where no UDP comes through,
// probes carry none.
func (s *session) sendHeartbeats(ctx context.Context) {
	for backoff.Sleep(ctx, s.g.cfg.Pace.Round(jitter(heartbeatEvery, 0.2)), nil) {
		living, heartbeat := s.g.table.living(), s.g.currentHeartbeat()
		if len(living) > 0 && len(heartbeat) > 0 {
			s.g.datagrams.Send(living[rand.IntN(len(living))].ID, heartbeat)
		}
	}
}

// lostAddress returns true when the address that was chosen is no good any more,
// twice in a row, and false when ctx ends.
func (s *session) lostAddress(ctx context.Context) bool {
	if s.g.cfg.Advertise.IsValid() || !s.g.cfg.Bind.Addr().IsUnspecified() {
		return false // the operator's choice stays
	}
	for gone := 0; backoff.Sleep(ctx, s.g.cfg.Pace.Round(addrEvery), nil); {
		if s.hasAddress() {
			gone = 0
		} else if gone++; gone == 2 {
			return true
		}
	}
	return false
}

// hasAddress reports whether the address that was chosen is good still. It is chosen
// again once more names of Config.Join are known, by which it is chosen; and one of the
// loopback interface, of no use to other hosts, each time: a host may start before
// its network.
func (s *session) hasAddress() bool {
	self, known := s.self.Addr(), s.g.seeds.resolved()
	if !self.IsLoopback() && known <= s.resolved {
		return s.g.cfg.host.has(self)
	}
	a, err := s.g.cfg.host.choose(s.g.cfg.Bind, s.g.cfg.Advertise, s.g.seeds.addrs())
	if err != nil {
		return !self.IsLoopback() && s.g.cfg.host.has(self) // a poor one is better than none
	}
	if a == self {
		s.resolved = known
	}
	return a == self
}

// jitter spreads what would otherwise happen everywhere at once: by up to that
// part, up and down.
func jitter(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * (1 - part + 2*part*rand.Float64()))
}
