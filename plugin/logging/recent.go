package logging

import (
	"bytes"
	"sync"
)

// recent keeps the last lines that were logged, for a bundle. It is safe for
// concurrent use.
type recent struct {
	mu    sync.Mutex
	lines [][]byte // in order; dropped from the front
	bytes int
}

// keepRecent is how many bytes of lines are kept.
const keepRecent = 256 << 10

func (r *recent) add(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
	r.bytes += len(line)
	for r.bytes > keepRecent && len(r.lines) > 1 {
		r.bytes -= len(r.lines[0])
		r.lines[0] = nil
		r.lines = r.lines[1:]
	}
}

// Recent returns the last lines that were logged, 256 KiB at most, whether or
// not they could be written.
func (s *Sink) Recent() []byte {
	s.recent.mu.Lock()
	defer s.recent.mu.Unlock()
	return bytes.Join(s.recent.lines, nil)
}
