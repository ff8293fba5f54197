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
)

// streamTime bounds a whole exchange over a stream: memberlist sets no
// deadline where it sends a frame, and a peer that accepts and never reads
// would hold the sender for ever.
const streamTime = 5 * time.Second

var errHungUp = errors.New("the network is being closed")

// transport adds to another one what memberlist lacks: a deadline on every
// stream that is opened, an end to all of them, and the reason why one could
// not be opened. It knows the address to advertise.
type transport struct {
	memberlist.Transport
	self   netip.AddrPort
	dialer bool // dial with the net package: unlike the transport's own dial it can be ended

	mu      sync.Mutex
	hungUp  bool
	streams map[*stream]struct{}
	dials   map[string][]*dial // what is of interest to trial
}

// dial is what became of the attempts to reach an address.
type dial struct {
	connected bool
	err       error // of the last one that failed
}

// stream is a connection that was opened by this peer, or is being opened.
type stream struct {
	net.Conn
	of  *transport
	end func()
}

func newTransport(inner memberlist.Transport, self netip.AddrPort, dialer bool) *transport {
	return &transport{
		Transport: inner, self: self, dialer: dialer,
		streams: make(map[*stream]struct{}), dials: make(map[string][]*dial),
	}
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
	return t.opened(s, conn)
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
func (t *transport) opened(s *stream, conn net.Conn) (net.Conn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hungUp {
		drop(conn)
		return nil, errHungUp
	}
	s.Conn, s.end = conn, func() { drop(conn) }
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
