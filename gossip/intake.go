package gossip

import (
	"errors"
	"net"
	"net/netip"
	"sync"
)

// What streams that others have opened may take together, and those of one
// address. memberlist reads up to 20 MiB of each before it learns whether its
// sender has the key.
const (
	maxReading     = 64 << 20 // bytes read of streams that are open
	maxReadingEach = 24 << 20 // more than the longest frame
	maxInbound     = 512      // streams that are open
	maxInboundEach = 128
)

// errTooMuch ends a stream.
var errTooMuch = errors.New("too much is being read from others at once")

// intake bounds what is read of streams before anybody knows whose they are.
// Safe for concurrent use; the zero value is ready.
type intake struct {
	mu   sync.Mutex
	all  reading
	each map[netip.Addr]*reading
}

// reading is what some streams take.
type reading struct{ streams, bytes int }

// admit returns the stream as it is to be read, or reports that there are too
// many. It has to be closed.
func (i *intake) admit(conn *net.TCPConn) (net.Conn, bool) {
	from := conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
	i.mu.Lock()
	defer i.mu.Unlock()
	r := i.each[from]
	switch {
	case i.all.streams >= maxInbound || r != nil && r.streams >= maxInboundEach:
		return nil, false
	case r == nil:
		if i.each == nil {
			i.each = map[netip.Addr]*reading{}
		}
		r = &reading{}
		i.each[from] = r
	}
	i.all.streams++
	r.streams++
	return &boundedStream{Conn: conn, of: i, from: from, each: r}, true
}

// take counts bytes that were read, and reports whether there may be more.
func (i *intake) take(s *boundedStream, n int) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	s.read += n
	s.each.bytes += n
	i.all.bytes += n
	return i.all.bytes <= maxReading && s.each.bytes <= maxReadingEach
}

// release counts a stream no more.
func (i *intake) release(s *boundedStream) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all.streams--
	s.each.streams--
	i.all.bytes -= s.read
	s.each.bytes -= s.read
	if s.each.streams == 0 {
		delete(i.each, s.from)
	}
}

// boundedStream is a stream that another one has opened.
type boundedStream struct {
	net.Conn
	of   *intake
	from netip.Addr
	each *reading // of all streams of that address
	read int      // bytes; the intake's lock guards it
	done sync.Once
}

// Read implements [net.Conn].
func (s *boundedStream) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if !s.of.take(s, n) && err == nil {
		return 0, errTooMuch
	}
	return n, err
}

// Close implements [net.Conn].
func (s *boundedStream) Close() error {
	s.done.Do(func() { s.of.release(s) })
	return s.Conn.Close()
}
