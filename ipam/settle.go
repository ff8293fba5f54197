package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
)

// settleAt has the strongest of those who are known to have an address hold it, wherever nobody does in a range (R64). It
// follows whenever an address was freed, and when a range becomes this peer's. A standing grant is never freed by it.
func (m *Machine) settleAt(p *pool.Pool, in addr.Range) {
	m.holdSeen(p, in)   // a container that the engine's last list has
	m.holdHost(p, in)   // the host itself
	m.holdKeptIn(p, in) // the name for which it is reserved
	m.holdWarned(p, in) // a container on another host, which that one warned of
}
