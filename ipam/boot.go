package ipam

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// bootCheck is the time after a start in which a peer neither votes nor hands
// out, because its database may be a copy, or older than what the others know
// (protocol, 6.6).
type bootCheck struct {
	until    time.Time
	newHost  bool               // the host itself has started since
	answered map[peer.ID]uint64 // at which slot each said that it is; this peer counts, too
	helloAt  time.Time
}

// silence is how long a peer waits for others after its start, if only its
// process has started anew.
const silence = 2 * time.Second

// helloEvery is how often a peer says hello while it waits for answers.
const helloEvery = 500 * time.Millisecond

// booting reports whether the boot check is under way.
func (m *Machine) booting() bool { return m.check != nil }

// beginCheck begins the boot check of a peer that is not alone.
func (m *Machine) beginCheck() {
	if m.state.Slot == 0 || m.alone() {
		return
	}
	c := &bootCheck{newHost: m.restoredHost != m.cfg.HostBoot, answered: map[peer.ID]uint64{m.self: 0}}
	c.until = m.now.Add(silence)
	if c.newHost {
		c.until = m.now.Add(m.cfg.BootWait)
	}
	m.check = c
	m.greetPeers()
}

// greetPeers says hello to all that this peer knows.
func (m *Machine) greetPeers() {
	if m.check != nil {
		m.check.helloAt = m.now
	}
	m.helloAt = m.now
	for _, id := range m.known() {
		// Who has just said who it is need not be asked again while a cluster
		// is looked for, only for the answer to a boot check.
		if c := m.contacts[id]; m.check == nil && c != nil && !c.met.IsZero() && m.now.Sub(c.met) < reachTime {
			continue
		}
		if m.check != nil {
			if _, answered := m.check.answered[id]; answered {
				continue
			}
		}
		m.greetPeer(id)
	}
}

// greetPeer says hello to one peer.
func (m *Machine) greetPeer(id peer.ID) {
	m.send(id, wire.Hello{Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.formation(), Observer: m.cfg.Formation.Observer, Listing: m.listingHere(), Spoken: m.cfg.Spoken})
}

// known returns all other peers that this peer knows of, in order of their
// IDs.
func (m *Machine) known() []peer.ID {
	seen := map[peer.ID]bool{m.self: true}
	var out []peer.ID
	add := func(id peer.ID) {
		if !seen[id] {
			seen[id] = true
			out = append(out, id)
		}
	}
	for _, member := range m.state.Roster {
		add(member.ID)
	}
	for id := range m.contacts {
		add(id)
	}
	slices.SortFunc(out, peer.ID.Compare)
	return out
}

// welcome answers a hello, from what is on disk. It does not answer one whose eviction
// this peer has accepted, and which may be decided although it does not know: the answer
// would say that nothing was.
func (m *Machine) welcome(to peer.ID) {
	if m.acceptedEviction(to) {
		return
	}
	known := m.contact(to).start
	m.send(to, wire.Welcome{
		Name: m.cfg.Name, Machine: m.cfg.Machine, Formation: m.formation(), Observer: m.cfg.Formation.Observer,
		Listing: m.listingHere(), Spoken: m.cfg.Spoken, Boot: known.boot, Nonce: known.nonce,
	})
}

// acceptedEviction reports whether this peer has accepted the eviction of another in the
// slot that is next.
func (m *Machine) acceptedEviction(of peer.ID) bool {
	if len(m.acceptor.Value) == 0 {
		return false
	}
	batch, err := chronicle.DecodeBatch(m.acceptor.Value)
	return err == nil && slices.ContainsFunc(batch, func(c chronicle.Command) bool {
		a, is := c.Action.(chronicle.Evict)
		return is && a.Peer == of
	})
}

// takeWelcome counts an answer to this peer's hello.
func (m *Machine) takeWelcome(f *wire.Frame, w wire.Welcome) {
	m.takeCopied(f.From, wire.Copied{Boot: m.boot, Nonce: m.nonce, KnownBoot: w.Boot, KnownNonce: w.Nonce})
	m.accepted = m.accepted || w.Boot == m.boot && w.Nonce == m.nonce
	c := m.check
	if c == nil || w.Boot != m.boot || w.Nonce != m.nonce {
		if c == nil && m.bootedAlone && w.Boot == m.boot && w.Nonce == m.nonce && !m.cutOff() {
			m.bootedAlone = false
			m.changed = true
		}
		return
	}
	c.answered[f.From] = max(c.answered[f.From], f.Slot)
}

// checkBoot ends the boot check when it can.
func (m *Machine) checkBoot() {
	c := m.check
	if c == nil {
		return
	}
	// The answer of one who is lost, and knew what nobody has told, is none: by that the space
	// of this peer may have been given up.
	all := sortedIDs(c.answered)
	level := slices.DeleteFunc(slices.Clone(all), func(id peer.ID) bool { return c.answered[id] > m.state.Slot })
	switch over := !m.now.Before(c.until); {
	case m.majority(all) && len(level) < len(all) && (!over || !m.cutOff() && !m.outdated() && m.behind()):
		// What they know comes first, as long as they are there to tell it.
	case m.majority(level), m.majority(all) && m.outdated():
		m.endCheck()
		return
	case over && !c.newHost:
		m.endCheck()
		return
	case over && m.cfg.BootAlone:
		m.bootedAlone = true
		m.note(Note{Kind: NoteBootedAlone})
		m.endCheck()
		return
	}
	if since := m.now.Sub(c.helloAt); since >= helloEvery || since < 0 {
		m.greetPeers()
	}
}

// behind reports whether a peer that can be reached knows slots that this one does not.
// If the only one who did is lost, the others decide the slot anew, as they have accepted
// it, and may need the vote of this one for that.
func (m *Machine) behind() bool {
	for id, c := range m.contacts {
		if c.slot > m.state.Slot && c.cluster == m.state.Cluster && m.live(id) {
			return true
		}
	}
	return false
}

// endCheck lets this peer vote and hand out.
func (m *Machine) endCheck() {
	m.check = nil
	m.submitted = false
	m.changed = true
	m.saveHostBoot()
}
