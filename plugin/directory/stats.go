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
	Exchanges    uint64        // begun here
	Sent         uint64        // bytes, point to point
	Received     uint64        // bytes that were taken in
	Refused      uint64        // frames that could not be read, or of whom nothing is taken
	Dropped      uint64        // frames that were too many
	HeartbeatAge time.Duration // since a heartbeat was last seen; 0: none was

	Identities int // label sets that have a number
	Locks      int // that are held, as of the last look
}

// Stats returns how the directory does.
func (d *Directory) Stats() Stats {
	d.mu.Lock()
	size, beat := d.replica.Size(), time.Duration(0)
	identities := len(d.agreement.known.Sets)
	if !d.beat.IsZero() {
		beat = max(time.Since(d.beat), 1)
	}
	d.mu.Unlock()
	c := &d.counts
	return Stats{
		size, c.exchanges.Load(), c.sent.Load(), c.received.Load(), c.refused.Load(), c.dropped.Load(), beat,
		identities, int(d.locked.Load()),
	}
}

// Late returns how long no heartbeat has arrived, although this peer is in a
// cluster; 0 while that is no longer than it may be.
func (d *Directory) Late() time.Duration {
	const most = 3 * time.Minute
	d.mu.Lock()
	defer d.mu.Unlock()
	last := d.beat
	if d.since.After(last) {
		last = d.since
	}
	if d.cluster == ([16]byte{}) || time.Since(last) <= most {
		return 0
	}
	return time.Since(last)
}
