package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Hosts are upgraded one after the other, so a cluster runs two releases for a
// while. It uses a level that all of them speak, and the next one when the last
// host has been upgraded (see [chronicle.Level]). One that comes with an older
// release after that cannot follow the chronicle, and so cannot know what is
// still its own: it keeps what its containers have, takes back what they
// release, and hands out nothing until it is upgraded.

// level returns the level that the cluster uses, as far as this peer knows.
func (m *Machine) level() chronicle.Level { return max(m.state.Level, m.later) }

// outdated reports whether the cluster uses a level that this peer does not
// speak. It then neither learns, votes, proposes nor hands out.
func (m *Machine) outdated() bool { return m.level() > m.cfg.Spoken }

// meetLater notes that there are slots of a level that this peer does not
// speak. Only a slot or a state of its own cluster, or of the one that it is
// about to join, shows that, and no hearsay.
func (m *Machine) meetLater(level chronicle.Level) {
	m.later = max(m.later, level)
	m.changed = true
}

// raise has the cluster use the highest level that all of the roster speak. The
// lowest live voter begins. It holds back for peers that it has not heard of
// since it started: those that are lost are evicted in the end.
func (m *Machine) raise() {
	if m.cfg.Spoken <= m.state.Level {
		return
	}
	if live := m.liveVoters(); len(live) == 0 || live[0] != m.self {
		return
	}
	level := m.cfg.Spoken
	for _, id := range m.others() {
		spoken := m.contact(id).spoken
		if spoken == 0 && m.live(id) {
			m.greetPeer(id) // its answer says
		}
		level = min(level, spoken)
	}
	if level > m.state.Level {
		m.background(chronicle.Raise{Level: level})
	}
}

// older reports whether a peer is known not to speak what the cluster uses.
func (m *Machine) older(id peer.ID) bool {
	c := m.contacts[id]
	return c != nil && c.spoken > 0 && c.spoken < m.state.Level
}
