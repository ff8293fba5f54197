package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/pool"
)

// greet notes that the engine, or this process, has started.
func (m *Machine) greet() {
	m.engine.Greet()
	for _, c := range m.calls.waiting {
		c.before = true
	}
}

// releasePool answers libnetwork's ReleasePool. It asks for a list of networks.
func (m *Machine) releasePool(q *PoolRelease) {
	if p := m.pools.On(q.Network.Pool); m.engine.Release(q.Network) && p != nil {
		m.leaveUnused(p)
	}
}

// unlessGone makes a call wait that is refused since a network is on the pool, or what one kept, where the next list of
// networks tells whether it still is.
func (m *Machine) unlessGone(p *pool.Pool, refusal error) error {
	if m.engine.Awaits(p.Here) {
		return waitFor(refusal)
	}
	return refusal
}

// leaveUnused does what follows when a pool may have lost its last network here:
// its own gateway address goes, and on a lone host the pool itself if its
// subnet was chosen. A pool that the user named stays, and with it the memory of
// who had which address; it makes room for others once it is in their way. What
// networks share goes with the Unuse of the last user (R20).
func (m *Machine) leaveUnused(p *pool.Pool) {
	p.BelieveReleases()
	if p.Here.Has() || !m.surelyUnused(p) {
		return
	}
	hadGateway := p.DropGateway()
	if p.Origin == chronicle.FromChoice && m.log.IsSole() && p.IsIdle() {
		if removal, err := m.removal(p); err == nil { // else whoever wants its subnet tries again
			m.background(removal...)
		}
	}
	if m.log.IsSole() {
		m.tellUnused(p) // it is decided at once
	}
	if m.pools.Of(p.Key) == p {
		m.survey.Host(p) // what was let go may be on an interface of the host
		if hadGateway {
			p.LeaveGateway()
		}
	}
}
