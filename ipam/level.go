package ipam

import "github.com/ringlet/ringlet/ipam/chronicle"

// Hosts are upgraded one after the other, so a cluster runs two releases for a
// while. It uses a level that all of them speak, and the next one when the last
// host has been upgraded (see [chronicle.Level]). One that comes with an older
// release after that cannot follow the chronicle, and so cannot know what is
// still its own: it keeps what its containers have, takes back what they
// release, and hands out nothing until it is upgraded.

// awaitLevel makes a call wait that has something decided which hosts of an earlier release could not follow (R10).
func (m *Machine) awaitLevel(level chronicle.Level) error {
	if m.state.Level >= level {
		return nil
	}
	return waitFor(failf(ErrNotReady, "not all hosts of the cluster run this release yet: upgrade the others, and see ringlet peers"))
}

// raise has the cluster use the highest level that all of the roster speak. The
// lowest live voter begins. It holds back for peers that it has not heard of
// since it started: those that are lost are evicted in the end.
func (m *Machine) raise() {
	if m.cfg.Spoken <= m.state.Level {
		return
	}
	if live := m.members.View().LiveVoters(); len(live) == 0 || live[0] != m.members.Self() {
		return
	}
	level := m.cfg.Spoken
	for _, id := range m.members.View().Others() {
		spoken := m.members.Contacts.Of(id).Spoken
		if spoken == 0 && m.members.View().Live(id) {
			m.greetPeer(id) // its answer says
		}
		level = min(level, spoken)
	}
	if level > m.state.Level {
		m.background(chronicle.Raise{Level: level})
	}
}
