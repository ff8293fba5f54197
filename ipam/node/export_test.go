package node

import (
	"context"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// LineOf returns the line that the log has for a kind of note.
func LineOf(kind ipam.NoteKind) string { return lines[kind].text }

// IsAtWork reports whether somebody is at work on the machine.
func (n *Node) IsAtWork() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leading
}

// ComplainedAt has the log told last, by the host's clock, at that time.
func (n *Node) ComplainedAt(at time.Time) { n.arrivals.complained.Store(at.UnixNano()) }

// Look has f look at the machine.
func (n *Node) Look(ctx context.Context, f func()) error {
	_, err := look(ctx, n, func(*ipam.Machine) (struct{}, error) { f(); return struct{}{}, nil })
	return err
}
