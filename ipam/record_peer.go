package ipam

import (
	"encoding/binary"
	"fmt"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
)

// What a peer keeps on its disk about others, and about what is not yet
// decided:
//
//	bucket      key                     value
//	identity    "gave way"              this peer dissolved its cluster to join another
//	identity    "clock"                 how the host's clock stood, and since when nobody has set it
//	identity    "drained"               this peer was draining when it was evicted, and goes on with that
//	identity    "given up"              that others may use the space of this peer, and why
//	identity    "host"                  the boot ID of the host when this peer last ran
//	identity    "label"                 the name of the cluster in the settings
//	identity    "left"                  this peer is to leave, or has left, as somebody wished
//	identity    "old"                   why this database is known to be an old one that was put back
//	identity    "rejoined"              the cluster that an earlier peer of this host was in, and its clients that have not got their addresses again
//	identity    "place"                 what tells the database's file and machine from others
//	identity    "number"                highest number of a command that has left
//	chronicle   0x02                    acceptor of the next slot
//	chronicle   0x03, number (8 bytes)  commands that may take space from this peer, not settled
//	peer        peer ID (16 bytes)      latest known start, name and address of a peer
const (
	bucketPeer = "peer"

	keyClock   = "clock"
	keyDrained = "drained"
	keyGaveWay = "gave way"
	keyGivenUp = "given up"
	keyHost    = "host"
	keyLabel   = "label"
	keyLeft    = "left"
	keyNumber  = "number"
	keyOld     = "old"
	keyPlace   = "place"

	keyRejoined = "rejoined"

	keyAcceptor = "\x02"
	keyAside    = "\x03"
)

// saveProposals writes down, before commands leave, the highest number, and
// what they may take from this peer.
func (m *Machine) saveProposals() {
	if len(m.proposals) == 0 {
		return // what was proposed is settled, and the state knows the number
	}
	m.saveNumber()
	for _, p := range m.proposals {
		if p.kept && !m.asides[p.last()] {
			m.asides[p.last()] = true
			m.out.Put(bucketChronicle, asideKey(p.last()), chronicle.EncodeBatch(p.commands))
		}
	}
}

func asideKey(number uint64) string {
	return string(binary.BigEndian.AppendUint64([]byte(keyAside), number))
}

// dropAside forgets what was set aside for settled commands.
func (m *Machine) dropAside(number uint64) {
	if m.asides[number] {
		delete(m.asides, number)
		m.out.Delete(bucketChronicle, asideKey(number))
	}
}

// saveAcceptor writes down what this peer has promised and accepted, before
// the answer leaves.
func (m *Machine) saveAcceptor() {
	if !m.acceptorChanged || m.lacks(rulePromise) {
		return
	}
	m.acceptorChanged, m.acceptorOnDisk = false, true
	b := codec.Uint([]byte{formatRecord}, m.state.Slot+1)
	b = appendBallot(appendBallot(b, m.acceptor.Promised), m.acceptor.Accepted)
	m.out.Put(bucketChronicle, keyAcceptor, codec.Bytes(b, m.acceptor.Value))
}

func (m *Machine) dropAcceptor() { m.out.Delete(bucketChronicle, keyAcceptor) }

func appendBallot(b []byte, v paxos.Ballot) []byte {
	return append(codec.Uint(codec.Uint(b, v.Round), uint64(v.Boot)), v.Peer[:]...)
}

func readBallot(r *codec.Reader) paxos.Ballot {
	return paxos.Ballot{Round: r.Uint("round"), Boot: peer.Boot(r.Uint("boot of a ballot")), Peer: r.ID("peer of a ballot")}
}

// parseAcceptor reads an acceptor and the slot that it is of.
func parseAcceptor(b []byte) (slot uint64, a paxos.Acceptor, err error) {
	r := codec.NewReader(b)
	if r.Byte("format") != formatRecord {
		r.Fail("format of an acceptor")
	}
	slot = r.Uint("slot of an acceptor")
	a = paxos.Acceptor{Promised: readBallot(r), Accepted: readBallot(r)}
	if value := r.Bytes("accepted value", len(b)); len(value) > 0 || !a.Accepted.IsZero() {
		a.Value = append([]byte{}, value...)
	}
	if err := r.Done(); err != nil {
		return 0, a, err
	}
	return slot, a, a.Check()
}

// saveContact writes down the latest start of a peer of the cluster.
func (m *Machine) saveContact(id peer.ID, c *contact) {
	if c.start.boot != 0 && (m.state.Member(id) != nil || m.state.Gone(id) != nil) {
		m.putContact(id, c)
	}
}

// putContact is saveContact for any peer.
func (m *Machine) putContact(id peer.ID, c *contact) {
	b := codec.Uint([]byte{formatRecord}, uint64(c.start.boot))
	b = binary.BigEndian.AppendUint64(b, c.start.nonce)
	b = codec.Bytes(codec.Bytes(b, c.name), c.addr)
	m.out.Put(bucketPeer, string(id[:]), b)
}

// saveContacts does so for all peers of a cluster that has become this peer's:
// they were met before they were known to be of it.
func (m *Machine) saveContacts() {
	for _, id := range m.others() {
		m.saveContact(id, m.contact(id))
	}
}

// maxAddr is the longest address of a peer that is read back.
const maxAddr = 255

func parseContact(key, value []byte) (id peer.ID, c *contact, err error) {
	if len(key) != len(id) {
		return id, nil, fmt.Errorf("%w: key of a peer has %d bytes", codec.ErrCorrupt, len(key))
	}
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord {
		r.Fail("format of a peer")
	}
	c = &contact{}
	c.start.boot = peer.Boot(r.Uint("boot of a peer"))
	if nonce := r.Fixed("nonce of a peer", 8); nonce != nil {
		c.start.nonce = binary.BigEndian.Uint64(nonce)
	}
	c.name = peer.Name(r.Bytes("name of a peer", peer.MaxName))
	c.addr = string(r.Bytes("address of a peer", maxAddr))
	return peer.ID(key), c, r.Done()
}

// saveLabel writes down the name of the cluster, if it has changed.
func (m *Machine) saveLabel() {
	if m.restoredLabel != m.cfg.Label {
		m.restoredLabel = m.cfg.Label
		m.out.Put(bucketIdentity, keyLabel, []byte(m.cfg.Label))
	}
}

// saveNumber writes down the highest number of a command, if what is on disk does not
// tell it.
func (m *Machine) saveNumber() {
	if m.number > m.savedNumber {
		m.savedNumber = m.number
		m.out.Put(bucketIdentity, keyNumber, codec.Uint([]byte{formatRecord}, m.number))
	}
}

// savePlace writes down where the database lies.
func (m *Machine) savePlace() {
	if m.cfg.Place != "" && m.restoredPlace != m.cfg.Place && m.suspended.reason != otherPlace {
		m.restoredPlace = m.cfg.Place
		m.out.Put(bucketIdentity, keyPlace, []byte(m.cfg.Place))
	}
}

// saveLeaving writes down that this peer is to leave its cluster, or has.
func (m *Machine) saveLeaving() {
	if !m.leaving && !m.left {
		m.out.Delete(bucketIdentity, keyLeft)
		return
	}
	m.out.Put(bucketIdentity, keyLeft, codec.Bool(codec.Bool([]byte{formatRecord}, m.left), m.forced))
}

// setDrained notes, and writes down, whether this peer drains on once it is admitted again: its process may
// end between the two.
func (m *Machine) setDrained(drained bool) {
	if drained == m.drained {
		return
	}
	m.drained = drained
	if !drained {
		m.out.Delete(bucketIdentity, keyDrained)
		return
	}
	m.out.Put(bucketIdentity, keyDrained, []byte{formatRecord})
}

// saveGaveWay writes down that this peer looks for a cluster that it has seen.
func (m *Machine) saveGaveWay() { m.out.Put(bucketIdentity, keyGaveWay, []byte{formatRecord}) }
