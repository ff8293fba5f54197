package node

import "github.com/ringlet/ringlet/ipam"

// LineOf returns the line that the log has for a kind of note.
func LineOf(kind ipam.NoteKind) string { return lines[kind].text }

// IsAtWork reports whether somebody is at work on the machine.
func (n *Node) IsAtWork() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.leading
}
