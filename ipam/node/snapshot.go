package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

const (
	// snapshotWait is how long [Node.Snapshot] waits for the machine: longer
	// than a commit takes on a disk that is well, and short enough for an answer
	// within 100 ms.
	snapshotWait = 50 * time.Millisecond
	// stuckAfter is how long the machine does not answer before that is a
	// problem of the status. A disk under load takes a second now and then.
	stuckAfter = 5 * time.Second
)

// snapshots keeps the last status that could be read, where no commit can hold
// it up, and makes one for all who wait.
type snapshots struct {
	last atomic.Pointer[ipam.Status] // never nil once New has returned

	mu      sync.Mutex
	waiting *reading // nil: none waits for the machine
}

// reading is one look at the machine for its status.
type reading struct {
	begun  time.Time
	done   chan struct{} // closed at its end; then the fields below are set
	status ipam.Status
	err    error
}

// Status returns what the peer knows of itself and its cluster, once all that
// was asked of it before is done. All who wait for the machine at a time share one
// status. See [Node.Snapshot].
func (n *Node) Status(ctx context.Context) (ipam.Status, error) {
	r := n.read()
	select {
	case <-r.done:
		return r.status, r.err
	case <-ctx.Done():
		return ipam.Status{}, context.Cause(ctx)
	}
}

// Snapshot returns the status as it is, or, if the machine is at work for more
// than 50 ms, as it was last read: it answers also while the disk hangs. That
// the machine has not answered for 5 seconds is a problem of the status.
// [ipam.Status.AsOf] says when it was so. The only error is that of a node that
// has stopped, or is being stopped.
func (n *Node) Snapshot(ctx context.Context) (ipam.Status, error) {
	r := n.read()
	timer := time.NewTimer(snapshotWait - time.Since(r.begun))
	defer timer.Stop()
	select {
	case <-r.done:
		return r.status, r.err
	case <-timer.C:
	case <-ctx.Done():
	}
	return n.lastKnown(time.Since(r.begun)), nil
}

// read returns a look at the machine that has not begun, so that it shows what its
// caller has done. Where none waits it begins one, in a goroutine of its own: a
// caller that looks may have to lead, and then waits for the disk.
func (n *Node) read() *reading {
	s := &n.snapshots
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil {
		return s.waiting
	}
	r := &reading{begun: time.Now(), done: make(chan struct{})}
	s.waiting = r
	go func() {
		defer close(r.done)
		r.status, r.err = look(context.Background(), n, func(m *ipam.Machine) (ipam.Status, error) {
			s.take(r) // a caller that comes from here on may have done what is not shown
			out := m.Status(time.Now())
			out.Problems = slices.Clip(out.Problems) // many have it, and may add their own
			s.last.Store(&out)
			return out, nil
		})
		s.take(r) // also where the node has failed
	}()
	return r
}

// take has the next caller begin another reading.
func (s *snapshots) take(r *reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == r {
		s.waiting = nil
	}
}

// lastKnown returns the last status that was read, with the machine's silence
// as a problem once it lasts.
func (n *Node) lastKnown(silence time.Duration) ipam.Status {
	s := *n.snapshots.last.Load()
	if silence < stuckAfter {
		return s
	}
	s.Verdict = ipam.Failed
	s.Problems = append(slices.Clip(s.Problems), ipam.Problem{
		Code: "not-answering", Level: string(ipam.Failed),
		Text: fmt.Sprintf("the allocator on %s has not answered for %v, so that nothing is handed out; what is shown is from %s",
			n.cfg.Machine.Name, silence.Truncate(time.Second), s.AsOf.UTC().Format("2006-01-02 15:04:05 MST")),
		Next: "see whether the disk with the plugin's data can be written, and the plugin's log",
	})
	return s
}
