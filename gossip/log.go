package gossip

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
)

var errNoPeer = errors.New("its name is no peer's ID")

func countAttr(n int) slog.Attr { return logattr.Count(n) }

func addrAttr(a netip.AddrPort) slog.Attr { return slog.String("addr", a.String()) }

// repeatEvery is how often a line of memberlist that differs only in what it
// names is written again.
const repeatEvery = time.Minute

// maxShapes bounds how many different lines are remembered.
const maxShapes = 256

// memberlistLogger returns the logger that memberlist writes to.
func (g *Gossip) memberlistLogger() *log.Logger {
	return log.New(&lines{g: g, written: make(map[string]time.Time)}, "", 0)
}

// lines turns memberlist's lines into our log. They are about peers: what
// strangers send does not reach it.
type lines struct {
	g *Gossip

	mu      sync.Mutex
	written map[string]time.Time // by the beginning of a line
}

// Write implements [io.Writer] for one line.
func (l *lines) Write(b []byte) (int, error) {
	text := strings.TrimSpace(string(b))
	level := slog.LevelDebug
	if mark, rest, ok := strings.Cut(text, "] "); ok {
		text = strings.TrimPrefix(rest, "memberlist: ")
		switch mark {
		case "[WARN":
			level = slog.LevelInfo
		case "[ERR", "[ERROR":
			level = slog.LevelWarn
		}
	}
	if level > slog.LevelDebug && !l.first(text, time.Now()) {
		level = slog.LevelDebug
	}
	if l.g.log.Enabled(context.Background(), level) {
		l.g.log.LogAttrs(context.Background(), level, "memberlist message", slog.String("text", text))
	}
	return len(b), nil
}

var _ io.Writer = (*lines)(nil)

// first reports whether a line of this shape was not written lately.
func (l *lines) first(text string, now time.Time) bool {
	shape, _, _ := strings.Cut(text, ":")
	shape = shape[:min(len(shape), 24)]
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.written[shape]; ok && now.Sub(last) < repeatEvery {
		return false
	}
	if len(l.written) >= maxShapes {
		clear(l.written)
	}
	l.written[shape] = now
	return true
}
