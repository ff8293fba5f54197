package directory

import (
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/plugin/directory/replica"
)

// counters count what was exchanged since the start.
type counters struct{ exchanges, sent, received, refused, dropped atomic.Uint64 }

// Stats is how the directory does on this peer.
type Stats struct {
	replica.Size
	Exchanges uint64        // begun here
	Sent      uint64        // bytes, point to point
	Received  uint64        // bytes that were taken in
	Refused   uint64        // frames that could not be read, or of whom nothing is taken
	Dropped   uint64        // frames that were too many
	Beat      time.Duration // since a heartbeat was last seen; 0: none was
}

// Stats returns how the directory does.
func (d *Directory) Stats() Stats {
	d.mu.Lock()
	size, beat := d.replica.Size(), time.Duration(0)
	if !d.beat.IsZero() {
		beat = max(time.Since(d.beat), 1)
	}
	d.mu.Unlock()
	c := &d.counts
	return Stats{size, c.exchanges.Load(), c.sent.Load(), c.received.Load(), c.refused.Load(), c.dropped.Load(), beat}
}
