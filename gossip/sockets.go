package gossip

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/ringlet/ringlet/internal/logattr"
)

const (
	// longestPacket is the longest one that UDP has, in bytes.
	longestPacket = 64 << 10
	// receiveBuffer is how many bytes of packets the kernel is to keep until
	// they are read. It may grant less.
	receiveBuffer = 2 << 20
	// failPause is how long a socket is left alone after an error, at first, and
	// failPauseMax at most: the process may have too many files open.
	failPause    = 5 * time.Millisecond
	failPauseMax = time.Second
)

// Sockets are a UDP and a TCP socket with one address and port. memberlist's
// own transport does the same, and makes 64 KiB of memory for each packet that
// comes, which was four fifths of all memory that a decision took.
//
// Sockets are safe for concurrent use.
type Sockets struct {
	log     *slog.Logger
	udp     *net.UDPConn
	tcp     *net.TCPListener
	packets chan *memberlist.Packet
	streams chan net.Conn
	begin   sync.Once
	begun   chan struct{} // closed once somebody takes packets, so that all of them are checked
	check   func(b []byte, from netip.AddrPort, now time.Time) bool
	closing chan struct{}
	close   sync.Once
	loops   sync.WaitGroup
}

// Listen opens the sockets, at any free port if that of bind is 0. Errors that
// only last for a while are logged. [Sockets.Shutdown] ends what it begins.
func Listen(bind netip.AddrPort, log *slog.Logger) (*Sockets, error) {
	family := "" // both, of [::]
	if bind.Addr().Is4() {
		family = "4" // without it 0.0.0.0 stands for [::]
	}
	tcp, err := net.ListenTCP("tcp"+family, net.TCPAddrFromAddrPort(bind))
	if err != nil {
		return nil, err
	}
	s := &Sockets{
		log: log, tcp: tcp, begun: make(chan struct{}),
		packets: make(chan *memberlist.Packet), streams: make(chan net.Conn), closing: make(chan struct{}),
	}
	s.udp, err = net.ListenUDP("udp"+family, net.UDPAddrFromAddrPort(netip.AddrPortFrom(bind.Addr(), s.Port())))
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	for size := receiveBuffer; s.udp.SetReadBuffer(size) != nil && size > longestPacket; {
		size /= 2
	}
	s.loops.Go(s.receive)
	s.loops.Go(s.accept)
	return s, nil
}

// Port returns the port of both sockets.
func (s *Sockets) Port() uint16 { return s.tcp.Addr().(*net.TCPAddr).AddrPort().Port() }

// Screen has each packet checked before memory is made for it; one that is refused is not handed over. It is called
// before the first [Sockets.PacketCh]. The bytes are only lent to check, which is called for one packet at a time.
func (s *Sockets) Screen(check func(b []byte, from netip.AddrPort, now time.Time) bool) {
	s.check = check
}

// receive hands over packets, each with memory of its own, since memberlist
// keeps some.
func (s *Sockets) receive() {
	select {
	case <-s.begun:
	case <-s.closing:
		return
	}
	b := make([]byte, longestPacket)
	for pause := failPause; ; {
		n, from, err := s.udp.ReadFromUDPAddrPort(b)
		if err != nil {
			if !s.rest("a packet could not be read", err, &pause) {
				return
			}
			continue
		}
		pause = failPause
		if n == 0 {
			continue // memberlist takes every packet to say something
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		now := time.Now()
		if s.check != nil && !s.check(b[:n], from, now) {
			continue
		}
		p := &memberlist.Packet{Buf: slices.Clone(b[:n]), From: net.UDPAddrFromAddrPort(from), Timestamp: now}
		select {
		case s.packets <- p:
		case <-s.closing:
			return
		}
	}
}

// accept hands over streams.
func (s *Sockets) accept() {
	for pause := failPause; ; {
		conn, err := s.tcp.AcceptTCP()
		if err != nil {
			if !s.rest("a stream could not be accepted", err, &pause) {
				return
			}
			continue
		}
		pause = failPause
		select {
		case s.streams <- conn:
		case <-s.closing:
			drop(conn)
			return
		}
	}
}

// rest waits after an error, longer each time, and reports whether to go on:
// the sockets may have been closed.
func (s *Sockets) rest(what string, err error, pause *time.Duration) bool {
	select {
	case <-s.closing:
		return false
	default:
	}
	s.log.Warn(what, logattr.Err(err)) //nolint:sloglint // one of two constants
	select {
	case <-s.closing:
		return false
	case <-time.After(*pause):
	}
	*pause = min(2**pause, failPauseMax)
	return true
}

// FinalAdvertiseAddr implements [memberlist.Transport]. It is not asked: who
// advertises what is known before there are sockets.
func (s *Sockets) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	a := s.tcp.Addr().(*net.TCPAddr)
	return a.IP, a.Port, nil
}

// WriteTo implements [memberlist.Transport]. addr is an IP address and a port.
func (s *Sockets) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := netip.ParseAddrPort(addr)
	if err == nil {
		_, err = s.udp.WriteToUDPAddrPort(b, to)
	}
	return time.Now(), err
}

// PacketCh implements [memberlist.Transport].
func (s *Sockets) PacketCh() <-chan *memberlist.Packet {
	s.begin.Do(func() { close(s.begun) })
	return s.packets
}

// DialTimeout implements [memberlist.Transport].
func (s *Sockets) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	return d.DialContext(context.Background(), "tcp", addr)
}

// StreamCh implements [memberlist.Transport].
func (s *Sockets) StreamCh() <-chan net.Conn { return s.streams }

// Shutdown implements [memberlist.Transport]. What has arrived and was not
// taken is dropped. It may be called more than once.
func (s *Sockets) Shutdown() error {
	s.close.Do(func() {
		close(s.closing)
		_ = s.tcp.Close()
		_ = s.udp.Close()
	})
	s.loops.Wait()
	return nil
}
