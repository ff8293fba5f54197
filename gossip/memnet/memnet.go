// Package memnet is a network in memory for tests of package gossip. It works
// inside a testing/synctest bubble, which no socket does.
//
// It refuses to know what packets and streams carry.
//
// Packets are lost when a link says so, when nobody is there, and when a
// receiver does not keep up; streams are pipes, on which lost segments show as
// the time that it takes to send them again. What a link does to them can
// change at any time ([Net.SetLink]). memberlist's own transport for tests
// would not do: it blocks the sender until a packet is read, and leaves dead
// nodes reachable. All of it is safe for concurrent use.
package memnet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/memberlist"
)

// Limits of what waits at a node.
const (
	maxPackets = 4096
	maxStreams = 128
)

// Link is what happens between two nodes, in one direction.
type Link struct {
	Loss   float64       // part of the packets that are lost, 0 to 1
	Delay  time.Duration // of each packet, and of each segment of a stream
	NoDial bool          // connections from here time out, and those that are open stall
	// StreamLoss is the part of a stream's segments that are lost, 0 to 1. They
	// are sent again, which takes time.
	StreamLoss float64
}

// Cut is a link on which nothing arrives.
func Cut() Link { return Link{Loss: 1, NoDial: true} }

// Net is one network. The zero value is not usable, New makes one.
type Net struct {
	mu      sync.Mutex
	nodes   map[netip.AddrPort]*Node
	link    func(from, to netip.AddrPort) Link
	packets int
	streams int
}

// New returns a network on which everything arrives.
func New() *Net {
	return &Net{
		nodes: make(map[netip.AddrPort]*Node),
		link:  func(_, _ netip.AddrPort) Link { return Link{} },
	}
}

// SetLink says what happens between two nodes from now on. The function is
// called with a lock held and must not call the network.
func (n *Net) SetLink(link func(from, to netip.AddrPort) Link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.link = link
}

// Sent returns how many packets, and how many streams, were begun so far.
func (n *Net) Sent() (packets, streams int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.packets, n.streams
}

// Listen returns a new node's transport. An address in use is an error.
func (n *Net) Listen(addr netip.AddrPort) (*Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.nodes[addr] != nil {
		return nil, &net.OpError{Op: "listen", Net: "mem", Err: syscall.EADDRINUSE}
	}
	t := &Node{
		net: n, addr: addr, down: make(chan struct{}),
		packets: make(chan *memberlist.Packet, maxPackets), streams: make(chan net.Conn, maxStreams),
	}
	n.nodes[addr] = t
	return t, nil
}

// Open is Listen in the form of gossip.Config.Transport.
func (n *Net) Open(addr netip.AddrPort) (memberlist.Transport, error) { return n.Listen(addr) }

// Crash takes a node off the network, with what it would still have said.
func (n *Net) Crash(addr netip.AddrPort) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.nodes[addr]; t != nil {
		t.stop()
	}
}

// Node is one node's end of the network. It implements memberlist.Transport.
type Node struct {
	net     *Net
	addr    netip.AddrPort
	packets chan *memberlist.Packet
	streams chan net.Conn
	down    chan struct{} // closed when the node is gone
}

var _ memberlist.Transport = (*Node)(nil)

// stop is called with the network's lock held.
func (t *Node) stop() {
	if t.net.nodes[t.addr] == t {
		delete(t.net.nodes, t.addr)
		close(t.down)
	}
}

// Shutdown implements [memberlist.Transport].
func (t *Node) Shutdown() error {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.stop()
	for {
		select {
		case conn := <-t.streams:
			_ = conn.Close() // a pipe's never fails
		default:
			return nil
		}
	}
}

// FinalAdvertiseAddr implements [memberlist.Transport].
func (t *Node) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	return t.addr.Addr().AsSlice(), int(t.addr.Port()), nil
}

// PacketCh implements [memberlist.Transport].
func (t *Node) PacketCh() <-chan *memberlist.Packet { return t.packets }

// StreamCh implements [memberlist.Transport].
func (t *Node) StreamCh() <-chan net.Conn { return t.streams }

// WriteTo implements [memberlist.Transport].
func (t *Node) WriteTo(b []byte, addr string) (time.Time, error) {
	now := time.Now()
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return now, err
	}
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	t.net.packets++
	link := t.net.link(t.addr, to)
	if t.net.nodes[t.addr] != t || rand.Float64() < link.Loss {
		return now, nil
	}
	p := &memberlist.Packet{Buf: append([]byte(nil), b...), From: net.UDPAddrFromAddrPort(t.addr)} // b is shared with other receivers
	if link.Delay > 0 {
		time.AfterFunc(link.Delay, func() {
			t.net.mu.Lock()
			defer t.net.mu.Unlock()
			t.net.arrive(to, p)
		})
		return now, nil
	}
	t.net.arrive(to, p)
	return now, nil
}

// arrive is called with the lock held.
func (n *Net) arrive(to netip.AddrPort, p *memberlist.Packet) {
	node := n.nodes[to]
	if node == nil {
		return
	}
	p.Timestamp = time.Now()
	select {
	case node.packets <- p:
	default: // as a full socket buffer
	}
}

// DialTimeout implements [memberlist.Transport].
func (t *Node) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, err
	}
	t.net.mu.Lock()
	t.net.streams++
	there, back := t.net.link(t.addr, to), t.net.link(to, t.addr)
	node, blocked := t.net.nodes[to], t.net.nodes[t.addr] != t || there.NoDial || back.NoDial
	t.net.mu.Unlock()
	begun := time.Now()
	switch {
	case blocked:
		return nil, t.wait(timeout)
	case node == nil:
		return nil, &net.OpError{Op: "dial", Net: "mem", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	if shaking := handshake(there, back); shaking >= timeout {
		return nil, t.wait(timeout)
	} else if shaking > 0 {
		time.Sleep(shaking)
	}
	pipe, other := net.Pipe()
	near := &conn{Conn: pipe, net: t.net, local: t.addr, remote: to}
	far := &conn{Conn: other, net: t.net, local: to, remote: t.addr}
	select {
	case node.streams <- far:
		return near, nil
	default: // the kernel's queue of connections is full
		return nil, t.wait(timeout - time.Since(begun))
	}
}

// wait is what dialing into the void is like.
func (t *Node) wait(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-timer.C:
		return &net.OpError{Op: "dial", Net: "mem", Err: os.ErrDeadlineExceeded}
	case <-t.down:
		return &net.OpError{Op: "dial", Net: "mem", Err: net.ErrClosed}
	}
}

// conn is one end of a stream. What is written while its link is cut is held
// back until the deadline.
type conn struct {
	net.Conn
	net           *Net
	local, remote netip.AddrPort

	mu       sync.Mutex
	deadline time.Time
}

var errStalled = errors.New("nothing gets through")

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	c.net.mu.Lock()
	there, back := c.net.link(c.local, c.remote), c.net.link(c.remote, c.local)
	c.net.mu.Unlock()
	c.mu.Lock()
	until := c.deadline
	c.mu.Unlock()
	transit := transit(len(b), there, back)
	switch {
	case there.NoDial && until.IsZero():
		return 0, fmt.Errorf("%w, and there is no deadline", errStalled)
	case there.NoDial, !until.IsZero() && transit > 0 && transit >= time.Until(until):
		time.Sleep(time.Until(until))
		return 0, &net.OpError{Op: "write", Net: "mem", Err: os.ErrDeadlineExceeded}
	case transit > 0:
		time.Sleep(transit)
	}
	return c.Conn.Write(b)
}

// SetDeadline implements [net.Conn].
func (c *conn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	c.deadline = at
	c.mu.Unlock()
	return c.Conn.SetDeadline(at)
}

// LocalAddr implements [net.Conn].
func (c *conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr implements [net.Conn].
func (c *conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }
