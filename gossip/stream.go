package gossip

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/ringlet/ringlet/gossip/guard"
)

// firstBuffer is how many bytes a message is made room for before any of them has come, which doubles from there:
// less for strangers, who may announce more than they bring.
const (
	firstBuffer         = 2 << 20
	firstBufferStranger = 4 << 10
)

// Errors of streams that are not read on.
var (
	errStranger = errors.New("a stranger's stream is not read")
	errTooMuch  = errors.New("too much is being read from others at once")
)

// guarded is a stream of which nothing is read but one message that is a peer's as a whole. Without keys nobody knows
// where that ends: then it is read to its end.
type guarded struct {
	net.Conn
	of   *transport
	from netip.Addr
	way  guard.Direction

	to       string // the address that was dialed, if it was
	place    *place // nil: nothing was read yet
	size     int    // what of it was counted, in bytes
	stranger bool
	checked  bool   // it was found out whose it is
	ready    []byte // what is to be read next
	open     bool   // there may be more behind it: it is not encrypted
	err      error
}

// Read implements [net.Conn].
func (g *guarded) Read(p []byte) (int, error) {
	if !g.checked {
		g.of.answer(g)
	}
	switch {
	case g.err != nil:
		return 0, g.err
	case len(g.ready) > 0:
		n := copy(p, g.ready)
		g.ready = g.ready[n:]
		return n, nil
	case !g.open:
		return 0, io.EOF
	case g.of.screen.keyed():
		return 0, errStranger // there are keys since it began
	}
	n, err := g.Conn.Read(p)
	if !g.fits(n) {
		return 0, errTooMuch
	}
	return n, err
}

// fits counts bytes, and reports whether they are not too many.
func (g *guarded) fits(n int) bool {
	g.size += n
	return g.of.intake.take(g.place, n) && (!g.stranger || g.size <= maxStranger)
}

// Write implements [net.Conn]. It answers nobody who was not asked for a key, once there is one.
func (g *guarded) Write(p []byte) (int, error) {
	if g.of.screen.keyed() {
		if g.open {
			return 0, errStranger
		}
		g.of.screen.encrypted.Add(1)
	}
	return g.Conn.Write(p)
}

// Close implements [net.Conn].
func (g *guarded) Close() error {
	if g.place != nil {
		g.of.intake.release(g.place)
	}
	return g.Conn.Close()
}

// check reads a message, and tells why it is no peer's.
func (g *guarded) check() guard.Reason {
	g.checked = true
	why, err := g.read()
	switch {
	case why == guard.None:
	case err == nil:
		g.err = errStranger
	default:
		g.err = err
	}
	return why
}

// read returns the error of the stream, if that is why.
func (g *guarded) read() (guard.Reason, error) {
	ring := g.of.screen.ring.Load()
	begun := time.Now()
	if g.way == guard.Inbound {
		until := streamTime
		if g.stranger {
			until = strangerTime
		}
		if err := g.SetDeadline(begun.Add(until)); err != nil {
			return guard.Cut, err
		}
	}
	head, b := guard.Head{Want: 1}, make([]byte, 0, ring.HeadSize(g.way))
	for head.Want > 0 {
		var err error
		if b, err = g.more(b); err != nil {
			return g.whyNot(err), err
		}
		var why guard.Reason
		if head, why = ring.Head(b, g.way); why != guard.None {
			return why, nil
		}
	}
	if head.Len == 0 { // there are no keys
		g.ready, g.open = b, true
		return guard.None, nil
	}
	if g.stranger && head.Len > maxStranger { // else the last bytes fit as well
		return guard.Length, nil
	}
	if g.way == guard.Inbound {
		if err := g.SetDeadline(begun.Add(streamTime)); err != nil {
			return guard.Cut, err
		}
	}
	size := firstBuffer
	if g.stranger || g.way == guard.Answer {
		size = firstBufferStranger
	}
	for ; len(b) < head.Len; size *= 2 {
		size = min(size, head.Len)
		if !g.fits(size - g.size) {
			return guard.Room, errTooMuch
		}
		b = append(make([]byte, 0, size), b...)
		for len(b) < size {
			var err error
			if b, err = g.more(b); err != nil {
				return g.whyNot(err), err
			}
		}
	}
	if !g.of.screen.message(b, g.way) {
		return guard.Key, nil
	}
	g.ready = b
	return guard.None, nil
}

// more reads as much as there is room for.
func (g *guarded) more(b []byte) ([]byte, error) {
	n, err := g.Conn.Read(b[len(b):cap(b)])
	if n > 0 {
		err = nil // it comes again
	}
	return b[:len(b)+n], err
}

// whyNot says why a stream could not be read.
func (g *guarded) whyNot(err error) guard.Reason {
	switch {
	case g.of.intake.lost(g.place):
		return guard.Room
	case errors.Is(err, os.ErrDeadlineExceeded):
		return guard.Time
	}
	return guard.Cut
}
