package ipam

import (
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// receive takes in a frame of another peer.
func (m *Machine) receive(msg *Message) {
	f := msg.Frame
	if f.From == m.self {
		m.meetDouble(f)
		return
	}
	if f.To != m.self && f.To != peer.None {
		return // it was for a peer that was here before
	}
	c := m.contact(f.From)
	c.seat = max(c.seat, msg.Seat)
	if twin, ok := f.Body.(wire.Twin); ok {
		m.takeTwin(f.From, c, twin)
		return
	}
	known := c.start
	if !m.checkStart(f, c) || !m.checkCluster(f, c) {
		return
	}
	if c.start != known && m.state.Member(f.From) != nil {
		m.tellSpare(f.From)
	}
	met := c.start != known || c.heard.IsZero()
	c.heard, c.unanswered = m.now, 0
	c.cluster, c.slot, c.digest = f.Cluster, f.Slot, f.Digest
	m.compare(f)
	if met {
		m.warnPeer(f.From)
	}
	switch b := f.Body.(type) {
	case wire.Hello:
		m.introduced(f.From, c, b.Name, b.Machine, b.Spoken, b.Listing)
		m.bereaved = m.bereaved || b.Listing == wire.Untaken
		m.meet(f.From, c, b.Formation, b.Observer)
		m.welcome(f.From, b.Question)
	case wire.Welcome:
		m.introduced(f.From, c, b.Name, b.Machine, b.Spoken, b.Listing)
		m.bereaved = m.bereaved || b.Listing == wire.Untaken
		m.meet(f.From, c, b.Formation, b.Observer)
		m.takeWelcome(f, b)
	case wire.Copied:
		m.takeCopied(f.From, b)
	case wire.Pull:
		m.sendSlots(f.From, b.After)
	case wire.Decided:
		m.takeDecided(b)
	case wire.Snapshot:
		m.takeSnapshot(f.Header, b)
	case wire.Submit:
		m.takeSubmit(f, b)
	case wire.Join:
		m.takeJoin(f, b)
	case wire.Ask:
		m.takeAsk(f, b)
	case wire.Answer:
		m.takeAnswer(f.From, b)
	case wire.UsedUp:
		m.takeUsedUp(f.From)
	case wire.InUse:
		m.takeInUse(f.From, b)
	case wire.Announce:
		m.takeAnnounce(f.From, c, b)
	case wire.Inquire:
		if heard := m.present(b.Peer) || m.livesIn(b.Peer); heard || m.mayTell() {
			m.send(f.From, wire.Report{ID: b.ID, Peer: b.Peer, Heard: heard})
		}
	case wire.Report:
		m.takeReport(f.From, b)
	case wire.Beat:
	default:
		m.takeVote(f.From, f.Body)
		m.keepEarly(f.From, c.start, f.Body)
	}
	m.takeEarly()
	// What it knows and this peer does not; a decision may just have told it.
	if f.Slot > m.state.Slot && m.mayFollow(f) {
		m.pull(f.From)
	}
}

// checkCluster reports whether a frame is for this peer's cluster. Clusters
// that meet do not merge (protocol, 6.4).
func (m *Machine) checkCluster(f *wire.Frame, c *contact) bool {
	none := [16]byte{}
	if f.Cluster == none || f.Cluster == m.state.Cluster || m.state.Cluster == none {
		return true
	}
	c.heard, c.cluster = m.now, f.Cluster
	if h, ok := f.Body.(wire.Hello); ok {
		c.name = h.Name
		m.welcome(f.From, h.Question) // so that it knows as well
	}
	met, known := m.foreign[f.Cluster]
	if !known || m.now.Sub(met.last) > foreignTime {
		met.first = m.now
	}
	met.last = m.now
	m.foreign[f.Cluster] = met
	m.giveWay(f)
	return false
}

// foreignTime is for how long another cluster is remembered after its last
// frame.
const foreignTime = 5 * time.Minute

// meeting is when this peer first and last met another cluster.
type meeting struct{ first, last time.Time }

// mayFollow reports whether this peer may learn slots from the sender of a
// frame: those of its own cluster, or, if it has none and may not found one,
// those of any.
func (m *Machine) mayFollow(f *wire.Frame) bool {
	return f.Cluster != [16]byte{} && (f.Cluster == m.state.Cluster || m.state.Slot == 0 && (m.joins || m.cfg.Formation.Size > 0))
}

// compare holds another peer's digest of the same slot against this one's.
// They differ only by a defect. The peer that is not with a majority of the
// voters stops handing out (protocol, 9).
func (m *Machine) compare(f *wire.Frame) {
	if f.Slot != m.state.Slot || f.Slot == 0 || f.Cluster != m.state.Cluster || f.Digest == m.digest() {
		return
	}
	if m.outdated() || m.older(f.From) {
		return // the two write the same state in different ways
	}
	with := []peer.ID{m.self}
	for _, id := range m.state.Voters() {
		if c := m.contacts[id]; c != nil && c.slot == f.Slot && c.digest == m.digest() && c.cluster == m.state.Cluster {
			with = append(with, id)
		}
	}
	// One that was never in the cluster, as far as this peer knows, may have been let in by
	// it in a time of which its database knows nothing: where this peer decides alone,
	// nobody else can tell.
	unknown := m.state.Member(f.From) == nil && m.state.Gone(f.From) == nil && m.state.Number(f.From) == 0
	if m.majority(with) && (!unknown || !m.majority(with[:1])) {
		m.differs[f.From] = f.Slot
		return
	}
	m.suspend(differs, fmt.Sprintf("the state of this peer at slot %d differs from that of %s: one of the two has a defect", f.Slot, m.nameOf(f.From)))
}

// founder is how this peer introduces itself.
func (m *Machine) founder() chronicle.Founder {
	return chronicle.Founder{ID: m.self, Name: m.cfg.Name, Boot: m.boot, Machine: m.cfg.Machine}
}
