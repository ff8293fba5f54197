package ipam

import "github.com/ringlet/ringlet/ipam/pool"

// factsOf returns what follows for the pool from the state.
func (m *Machine) factsOf(p *pool.Pool) *pool.Facts {
	return p.Facts(m.log.Edition(), m.members.Self())
}
