package gossip

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/gossip/guard"
)

// streamTime bounds a whole exchange over a stream: memberlist sets no
// deadline where it sends a frame, and a peer that accepts and never reads
// would hold the sender for ever.
const streamTime = 5 * time.Second

var errHungUp = errors.New("the network is being closed")

// transport adds to another one what memberlist lacks: it keeps strangers out
// (see [screen] and [intake]), and has a deadline on every stream that is
// opened, an end to all of them, and the reason why one could not be opened. It
// knows the address to advertise.
type transport struct {
	memberlist.Transport
	screen *screen
	self   netip.AddrPort
	dialer bool // dial with the net package: unlike the transport's own dial it can be ended

	intake  intake
	packets <-chan *memberlist.Packet
	inbound chan net.Conn // of peers
	closing chan struct{}
	close   sync.Once
	loops   sync.WaitGroup

	mu      sync.Mutex
	hungUp  bool
	streams map[*stream]struct{}
	dials   map[string][]*dial // what is of interest to trial
}

// dial is what became of the attempts to reach an address.
type dial struct {
	connected bool
	refused   guard.Reason // why the answer was
	err       error        // of the last one that failed
}

// stream is a connection that was opened by this peer, or is being opened.
type stream struct {
	net.Conn
	of  *transport
	end func()
}

// screener is a transport that has each packet checked before it makes memory for it.
type screener interface {
	Screen(check func(b []byte, from netip.AddrPort, now time.Time) bool)
}

// newTransport begins to take from another transport. It has to be shut down.
func newTransport(inner memberlist.Transport, self netip.AddrPort, dialer bool, s *screen) *transport {
	t := &transport{
		Transport: inner, screen: s, self: self, dialer: dialer, inbound: make(chan net.Conn), closing: make(chan struct{}),
		streams: make(map[*stream]struct{}), dials: make(map[string][]*dial),
	}
	var scratch []byte // one packet is checked at a time
	check := func(b []byte, from netip.AddrPort, now time.Time) (ok bool) {
		scratch, ok = s.packet(b, from.Addr(), now, scratch)
		return ok
	}
	if has, ok := inner.(screener); ok {
		has.Screen(check)
		t.packets = inner.PacketCh()
	} else {
		packets := make(chan *memberlist.Packet)
		t.packets = packets
		t.loops.Go(func() { t.takePackets(packets, check) })
	}
	t.loops.Go(t.takeStreams)
	return t
}

// takePackets hands over those of peers.
func (t *transport) takePackets(to chan<- *memberlist.Packet, check func(b []byte, from netip.AddrPort, now time.Time) bool) {
	for {
		var p *memberlist.Packet
		select {
		case p = <-t.Transport.PacketCh():
		case <-t.closing:
			return
		}
		if !check(p.Buf, addrOf(p.From), p.Timestamp) {
			continue
		}
		select {
		case to <- p:
		case <-t.closing:
			return
		}
	}
}

// takeStreams hands over those of peers, each once its message is there.
func (t *transport) takeStreams() {
	for {
		select {
		case conn := <-t.Transport.StreamCh():
			t.admit(conn)
		case <-t.closing:
			return
		}
	}
}

// admit has a stream that somebody has opened read, unless there are too many.
func (t *transport) admit(conn net.Conn) {
	from := addrOf(conn.RemoteAddr()).Addr()
	known := t.screen.g.familiar(from)
	place, ok := t.intake.admit(from, known, func() { drop(conn) })
	if !ok {
		drop(conn)
		t.screen.refuse(guard.Room, from, true, time.Now())
		return
	}
	s := &guarded{Conn: conn, of: t, from: from, way: guard.Inbound, place: place, stranger: !known && !t.screen.proved(from, time.Now())}
	t.loops.Go(func() { t.receive(s) })
}

// receive reads a message that somebody sends who has opened a stream. Whoever is no peer gets no answer.
func (t *transport) receive(s *guarded) {
	if why := s.check(); why != guard.None {
		drop(s)
		select {
		case <-t.closing:
		default:
			t.screen.refuse(why, s.from, true, time.Now())
		}
		return
	}
	if !s.open {
		t.intake.settle(s.place)
		t.screen.prove(s.from, time.Now())
	}
	select {
	case t.inbound <- s:
	case <-t.closing:
		drop(s)
	}
}

// answer reads the answer on a stream that this peer has opened. A host that hangs up instead is no stranger.
func (t *transport) answer(s *guarded) {
	s.place = t.intake.dialed(s.from, func() { drop(s.Conn) })
	switch why := s.check(); why {
	case guard.None:
		if !s.open {
			t.intake.settle(s.place)
		}
	case guard.Cut, guard.Time:
	default:
		t.screen.refuse(why, s.from, true, time.Now())
		t.noteRefusal(s.to, why)
	}
}

// addrOf returns the address of what comes from the network; the zero value if it is none.
func addrOf(a net.Addr) netip.AddrPort {
	switch a := a.(type) {
	case *net.UDPAddr:
		return unmap(a.AddrPort())
	case *net.TCPAddr:
		return unmap(a.AddrPort())
	}
	return netip.AddrPort{}
}

// PacketCh implements [memberlist.Transport].
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements [memberlist.Transport].
func (t *transport) StreamCh() <-chan net.Conn { return t.inbound }

// Shutdown implements [memberlist.Transport]. It may be called more than once.
func (t *transport) Shutdown() error {
	t.close.Do(func() { close(t.closing) })
	t.intake.close()
	err := t.Transport.Shutdown()
	t.loops.Wait()
	return err
}

// WriteTo implements [memberlist.Transport]. Without keys anybody could have this host send to others, which are none of
// its peers, more than it was sent: so it sends only where a peer is, or is expected.
func (t *transport) WriteTo(b []byte, addr string) (time.Time, error) {
	if t.screen.keyed() {
		t.screen.encrypted.Add(1)
	} else if to, err := netip.ParseAddrPort(addr); err == nil && !t.screen.g.familiar(to.Addr().Unmap()) {
		now := time.Now()
		t.screen.refuse(guard.Target, to.Addr().Unmap(), false, now)
		return now, nil
	}
	return t.Transport.WriteTo(b, addr)
}

// FinalAdvertiseAddr implements [memberlist.Transport]. An IPv4 address has 4
// bytes: as 16 it would be another address to memberlist.
func (t *transport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.self.Addr().AsSlice(), int(t.self.Port()), nil
}

// WriteToAddress implements [memberlist.NodeAwareTransport].
func (t *transport) WriteToAddress(b []byte, a memberlist.Address) (time.Time, error) {
	return t.WriteTo(b, a.Addr)
}

// DialAddressTimeout implements [memberlist.NodeAwareTransport].
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return t.DialTimeout(a.Addr, timeout)
}

// DialTimeout implements [memberlist.Transport].
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	s := &stream{of: t, end: cancel}
	if !t.add(s) {
		return nil, errHungUp
	}
	conn, err := t.dial(ctx, addr, timeout)
	t.noteDial(addr, err)
	if err != nil {
		t.remove(s)
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(streamTime)); err != nil {
		t.remove(s)
		drop(conn)
		return nil, err
	}
	return t.opened(s, conn, addr)
}

func (t *transport) dial(ctx context.Context, addr string, timeout time.Duration) (net.Conn, error) {
	if t.dialer {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", addr)
	}
	return t.Transport.DialTimeout(addr, timeout)
}

func (t *transport) add(s *stream) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.hungUp {
		t.streams[s] = struct{}{}
	}
	return !t.hungUp
}

// opened completes a stream with its connection, unless it was ended while it
// was opened.
func (t *transport) opened(s *stream, conn net.Conn, to string) (net.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hungUp {
		drop(conn)
		return nil, errHungUp
	}
	s.Conn = &guarded{Conn: conn, of: t, from: addrOf(conn.RemoteAddr()).Addr(), way: guard.Answer, to: to}
	s.end = func() { drop(conn) }
	return s, nil
}

func (t *transport) remove(s *stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.streams, s)
}

// Close closes the connection.
func (s *stream) Close() error {
	s.of.remove(s)
	return s.Conn.Close()
}

// drop closes a connection of which nothing more is wanted.
func drop(conn net.Conn) { _ = conn.Close() }

// hangUp ends all streams that this peer has opened, and opens no more.
func (t *transport) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hungUp = true
	for s := range t.streams {
		s.end()
	}
	clear(t.streams)
}

// trial runs an attempt to join at an address, and tells what became of the
// connection.
func (t *transport) trial(addr string, try func() error) (dial, error) {
	d := &dial{}
	t.mu.Lock()
	t.dials[addr] = append(t.dials[addr], d)
	t.mu.Unlock()
	err := try()
	t.mu.Lock()
	defer t.mu.Unlock()
	if others := slices.DeleteFunc(t.dials[addr], func(other *dial) bool { return other == d }); len(others) > 0 {
		t.dials[addr] = others
	} else {
		delete(t.dials, addr)
	}
	return *d, err
}

func (t *transport) noteDial(addr string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.dials[addr] {
		d.connected = d.connected || err == nil
		if err != nil {
			d.err = err
		}
	}
}

// noteRefusal notes why the answer from an address was refused.
func (t *transport) noteRefusal(addr string, why guard.Reason) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.dials[addr] {
		d.refused = why
	}
}

// discard ends a transport of which no memberlist was made. It may hand over what
// arrives before it ends, so somebody has to take it.
func discard(t memberlist.Transport) {
	ended := make(chan struct{})
	var taking sync.WaitGroup
	taking.Go(func() {
		for {
			select {
			case <-t.PacketCh():
			case conn := <-t.StreamCh():
				drop(conn)
			case <-ended:
				return
			}
		}
	})
	_ = t.Shutdown() // what cannot be closed now is gone with the process
	close(ended)
	taking.Wait()
}
