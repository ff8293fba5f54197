package admin

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

const (
	// maxConnsOfOne is how many connections one address may have over TCP, and one
	// network of 64 bits in IPv6, of which a host has as many addresses as it wants.
	maxConnsOfOne = 16
	// acceptEvery is how often a connection is accepted over TCP at most: with TLS
	// each costs a signature.
	acceptEvery = 2 * time.Millisecond
)

// fairListener closes the connections of an address that has too many.
type fairListener struct {
	net.Listener
	mu    sync.Mutex
	conns map[netip.Addr]int // never 0
}

func newFairListener(l net.Listener) *fairListener {
	return &fairListener{Listener: l, conns: map[netip.Addr]int{}}
}

// Accept implements [net.Listener].
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		time.Sleep(acceptEvery)
		source := sourceOf(conn.RemoteAddr().String())
		if l.enter(source) {
			return &fairConn{Conn: conn, leave: sync.OnceFunc(func() { l.leave(source) })}, nil
		}
		_ = conn.Close() // its client finds out
	}
}

func (l *fairListener) enter(source netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[source] >= maxConnsOfOne {
		return false
	}
	l.conns[source]++
	return true
}

func (l *fairListener) leave(source netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[source]--; l.conns[source] == 0 {
		delete(l.conns, source)
	}
}

// fairConn is a connection that counts until it is closed.
type fairConn struct {
	net.Conn
	leave func()
}

// Close implements [net.Conn].
func (c *fairConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// sourceOf returns who counts as one behind an address and port: the address, or in
// IPv6 its network of 64 bits; the zero address where it cannot be told.
func sourceOf(remote string) netip.Addr {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is6() {
		p, _ := a.Prefix(64) // fits each IPv6 address
		return p.Addr()
	}
	return a
}
