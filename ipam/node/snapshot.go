package node

import (
	"context"
	"fmt"
	"slices"
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
// it up.
type snapshots struct {
	last  atomic.Pointer[ipam.Status] // never nil once New has returned
	under atomic.Pointer[reading]     // a reading that is under way; nil: none
}

// reading is one look at the machine for its status.
type reading struct {
	begun  time.Time
	done   chan struct{} // closed at its end; then the fields below are set
	status ipam.Status
	err    error
}

// Snapshot returns the status as it is, or, if the machine is at work for more
// than 50 ms, as it was last read: it answers also while the disk hangs. That
// the machine has not answered for 5 seconds is a problem of the status.
// [ipam.Status.AsOf] says when it was so. The only error is that of a node that
// has failed.
func (n *Node) Snapshot(ctx context.Context) (ipam.Status, error) {
	r := n.snapshots.under.Load()
	if r == nil || time.Since(r.begun) < snapshotWait {
		// One that began before this call may not show what its caller did; but
		// while the machine hangs, all share one.
		r = n.read()
	}
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

// read begins a look at the machine, in a goroutine of its own: whoever looks
// may have to lead, and then waits for the disk.
func (n *Node) read() *reading {
	r := &reading{begun: time.Now(), done: make(chan struct{})}
	n.snapshots.under.CompareAndSwap(nil, r)
	go func() {
		r.status, r.err = n.Status(context.Background())
		n.snapshots.under.CompareAndSwap(r, nil)
		close(r.done)
	}()
	return r
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
