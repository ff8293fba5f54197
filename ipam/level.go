package ipam

import (
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Hosts are upgraded one after the other, so a cluster runs two releases for a
// while. It uses a level that all of them speak, and the next one when the last
// host has been upgraded (see [chronicle.Level]). One that comes with an older
// release after that cannot follow the chronicle. It is in the same case as a
// peer that is cut off: what it owns stays its own, whatever else is decided,
// since only its own commands take space from it.

// levels says what this peer speaks, and what its cluster uses.
func (m *Machine) levels() wire.Levels {
	return wire.Levels{Spoken: m.cfg.Spoken, Used: max(m.state.Level, m.levelHeard)}
}

// outdated reports whether the cluster uses a level that this peer does not
// speak. It then neither learns, votes nor proposes; it goes on with its space.
func (m *Machine) outdated() bool { return m.levels().Used > m.cfg.Spoken }

// takeLevels takes in what another peer speaks, and what its cluster uses, which
// is this peer's, or the one that it would join.
func (m *Machine) takeLevels(f *wire.Frame, c *contact, l wire.Levels) {
	c.levels = l
	if l.Used > m.levelHeard && (f.Cluster == m.state.Cluster || m.mayFollow(f)) {
		m.levelHeard = l.Used
		m.changed = true
	}
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
		spoken := m.contact(id).levels.Spoken
		if spoken == 0 && m.live(id) {
			m.greetPeer(id) // its answer says
		}
		level = min(level, spoken)
	}
	if level > m.state.Level {
		m.background(chronicle.Raise{Level: level})
	}
}

// admissible reports whether a peer that asks to be admitted is known to speak
// what the cluster uses. One of which that is not known is asked.
func (m *Machine) admissible(id peer.ID, c *contact) bool {
	if c.levels.Spoken == 0 {
		m.greetPeer(id)
	}
	return c.levels.Spoken >= m.state.Level
}

// older returns the peers of the roster that are known not to speak what the
// cluster uses.
func (m *Machine) older() []peer.ID {
	var out []peer.ID
	for _, id := range m.others() {
		if c := m.contacts[id]; c != nil && c.levels.Spoken > 0 && c.levels.Spoken < m.state.Level {
			out = append(out, id)
		}
	}
	return out
}
