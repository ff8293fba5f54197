package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/rule"
)

// tellZone has the cluster know in which zone this peer is, if it knows otherwise: who votes follows from it. It waits until
// the peers that can be reached have a majority of the votes also after that (R75). A peer that is alone has nobody to tell, and may
// yet give way to another cluster: then it votes again on what it has decided by itself (R38).
func (m *Machine) tellZone() {
	member := m.log.Member()
	if member == nil || member.Zone == m.cfg.Zone || m.state.Level < chronicle.WithZones || m.isTellingZone() {
		return
	}
	if v := m.members.View(); v.Alone() || v.CutOff() || !v.KeepsMajorityIn(m.cfg.Zone) && !m.lacks(rule.ZoneVotes) {
		return
	}
	m.background(chronicle.SetZone{Zone: m.cfg.Zone})
}

func (m *Machine) isTellingZone() bool {
	return m.log.IsUnderWay(func(a chronicle.Action) bool {
		_, is := a.(chronicle.SetZone)
		return is
	})
}
