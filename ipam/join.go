package ipam

import (
	"github.com/ringlet/ringlet/ipam/formation"
	"github.com/ringlet/ringlet/ipam/membership"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Formation says how a cluster is founded by several hosts together.
type Formation = formation.Plan

// found has a cluster founded, if it is time.
func (m *Machine) found(f membership.Founding) {
	if f.Now {
		m.background(m.decidedAgain(f.Found)...)
	}
	if f.Alone {
		m.note(Note{Kind: NoteFounded})
		m.drain()
	}
}

// dissolve has this peer forget a cluster in which it had nothing, for that of another one.
func (m *Machine) dissolve(to peer.ID) {
	for _, p := range m.pools.Sorted() {
		m.dropPool(p)
	}
	m.members.GiveWay(to)
}

// trust has a peer go on with a database that was moved, as an operator states.
func (m *Machine) trust() error {
	err := m.members.Trust()
	if err == nil {
		m.enterCluster()
	}
	return err
}
