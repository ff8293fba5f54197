package ipam

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

// What a peer keeps on its disk:
//
//	bucket      key                                        value
//	identity    "self"                                     peer ID, boot, name, machine
//	identity    "unlisted"                                 there until this engine, and those of other new peers, have listed what they have; whether space was taken over; whether others have yet to
//	chronicle   0x00                                       snapshot: the encoded state
//	chronicle   0x01, slot (8 bytes)                       the slot's batch
//	network     pool ID                                    how many networks asked for it, and when last
//	holding     pool's slot (8), place (4), offset (8)     who holds, or held, the address
//
// Numbers in keys are big-endian, so that addresses handed out one after the
// other lie side by side. Each address has its own key: an allocation writes
// some fifty bytes, whatever else is held. Every value begins with its format.
const (
	bucketIdentity  = "identity"
	bucketChronicle = "chronicle"
	bucketNetwork   = "network"
	bucketHolding   = "holding"

	keySelf     = "self"
	keyUnlisted = "unlisted"
	keySnapshot = "\x00"
	keySlot     = "\x01"

	formatRecord = 1
)

// SchemaVersion is the version of this layout.
const SchemaVersion = 1

// save adds a record to the effects. Key and value were appended to the arena
// from the given position on, the value from split on; a negative split means
// that the key is to be deleted.
func (m *Machine) save(bucket string, from, split int) {
	r := Record{Bucket: bucket}
	if split < 0 {
		r.Key = m.arena[from:len(m.arena):len(m.arena)]
	} else {
		r.Key = m.arena[from:split:split]
		r.Value = m.arena[split:len(m.arena):len(m.arena)]
	}
	m.fx.Save = append(m.fx.Save, r)
}

// appendHoldingKey appends the key of an address.
func appendHoldingKey(b []byte, k chronicle.PoolKey, o addr.Offset) []byte {
	b = binary.BigEndian.AppendUint64(b, k.Slot)
	b = binary.BigEndian.AppendUint32(b, k.Place)
	return binary.BigEndian.AppendUint64(b, uint64(o))
}

func parseHoldingKey(b []byte) (k chronicle.PoolKey, o addr.Offset, err error) {
	if len(b) != 20 {
		return k, 0, fmt.Errorf("%w: key of an address has %d bytes", codec.ErrCorrupt, len(b))
	}
	k = chronicle.PoolKey{Slot: binary.BigEndian.Uint64(b), Place: binary.BigEndian.Uint32(b[8:])}
	return k, addr.Offset(binary.BigEndian.Uint64(b[12:])), nil
}

// appendHolding appends what is known of an address. Of a container's ID, 64
// digits, it writes the bytes that they stand for, as there may be one for each
// address.
func appendHolding(b []byte, r *space.Record) []byte {
	var has byte
	if r.Key != space.NoKey {
		has |= 1
	}
	if r.MAC != ([6]byte{}) {
		has |= 2
	}
	if r.Network != 0 {
		has |= 4
	}
	at := len(b) + 3
	b = append(b, formatRecord, byte(r.State), byte(r.Kind), has)
	b = binary.BigEndian.AppendUint64(b, uint64(r.Since))
	b = codec.Uint(b, r.Seq)
	if has&1 != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(r.Key))
	}
	if has&2 != 0 {
		b = append(b, r.MAC[:]...)
	}
	if has&4 != 0 {
		b = binary.BigEndian.AppendUint32(b, r.Network)
	}
	b = codec.Bytes(b, r.Name)
	if id, ok := space.AppendID(b, r.Ref); ok {
		id[at] |= 8
		return id
	}
	return codec.Bytes(b, r.Ref)
}

// maxText limits the names that are read back.
const maxText = 4096

// parseHolding reads a record into r, and returns its name and reference, which
// share the memory of b. A reference that is packed is one of [space.AppendID].
func parseHolding(b []byte, r *space.Record) (name, ref []byte, packed bool, err error) {
	// A start reads one for each address that is held, so what lies side by side is read at once.
	rd := codec.NewReader(b)
	head := rd.Fixed("state of an address", 4+8)
	if head[0] != formatRecord {
		rd.Fail("format of an address")
	}
	has := head[3]
	r.State, r.Kind = space.State(head[1]), space.Kind(head[2])
	r.Since = int64(binary.BigEndian.Uint64(head[4:]))
	r.Seq = rd.Uint("sequence number")
	if has&1 != 0 {
		r.Key = space.Key(binary.BigEndian.Uint64(rd.Fixed("key", 8)))
	}
	if has&2 != 0 {
		r.MAC = [6]byte(rd.Fixed("MAC", 6))
	}
	if has&4 != 0 {
		r.Network = binary.BigEndian.Uint32(rd.Fixed("network", 4))
	}
	name = rd.Bytes("name", maxText)
	if packed = has&8 != 0; packed {
		ref = rd.Fixed("ID", space.IDLen)
	} else {
		ref = rd.Bytes("reference", maxText)
	}
	if has > 15 || r.State != space.Held && r.State != space.Freed || r.Kind < space.Container || r.Kind > space.Kept {
		rd.Fail("state of an address")
	}
	return name, ref, packed, rd.Done()
}

// saveHolding writes the record of an address, or deletes it if rec is nil.
func (m *Machine) saveHolding(p *pool, o addr.Offset, rec *space.Record) {
	from, split := len(m.arena), -1
	b := appendHoldingKey(m.arena, p.Key, o)
	if rec != nil {
		split = len(b)
		b = appendHolding(b, rec)
	}
	m.arena = b
	m.save(bucketHolding, from, split)
}

// saveRecord writes what is known of an address, or forgets it if nothing is.
func (m *Machine) saveRecord(p *pool, o addr.Offset, rec *space.Record) {
	if rec.State == space.Unused {
		m.saveHolding(p, o, nil)
		return
	}
	m.saveHolding(p, o, rec)
}

// saveSlot writes the value of a slot, and drops one that nobody needs any
// more.
func (m *Machine) saveSlot(slot uint64, value []byte) {
	from := len(m.arena)
	m.arena = appendSlotKey(m.arena, slot)
	split := len(m.arena)
	m.arena = append(m.arena, value...)
	m.save(bucketChronicle, from, split)
	if m.oldest == 0 {
		m.oldest = slot
	}
	// One old slot goes with each new one, so that no write is large. The last
	// snapshot is younger than what goes.
	if kept := m.history(keepSlots) + m.history(snapshotEvery); slot > kept {
		from := len(m.arena)
		m.arena = appendSlotKey(m.arena, slot-kept)
		m.save(bucketChronicle, from, -1)
		m.oldest = max(m.oldest, slot-kept+1)
	}
}

func appendSlotKey(b []byte, slot uint64) []byte {
	return binary.BigEndian.AppendUint64(append(b, keySlot...), slot)
}

// saveSnapshot writes the state as a whole, so that a start need not apply
// every slot since the first.
func (m *Machine) saveSnapshot() {
	from := len(m.arena)
	m.arena = append(m.arena, keySnapshot...)
	split := len(m.arena)
	m.arena = append(m.arena, m.state.Encode()...)
	m.save(bucketChronicle, from, split)
}

// saveNetwork writes how many networks of this host asked for the same and
// when the last did, and deletes the key when none is left.
func (m *Machine) saveNetwork(n *network) {
	from := len(m.arena)
	m.arena = append(m.arena, n.ID()...)
	split := -1
	if n.count > 0 {
		split = len(m.arena)
		m.arena = codec.Uint(append(m.arena, formatRecord), uint64(n.count))
		m.arena = binary.BigEndian.AppendUint64(m.arena, uint64(n.asked.UnixNano()))
	}
	m.save(bucketNetwork, from, split)
}

func parseNetwork(key, value []byte) (*network, error) {
	n, err := ParsePoolID(PoolID(key))
	if err != nil {
		return nil, err
	}
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord {
		r.Fail("format of a network")
	}
	count := r.Uint("number of networks")
	if count == 0 || count > 1<<20 {
		r.Fail("number of networks")
	}
	net := &network{Network: n, count: int(count)}
	if r.Rest() > 0 { // one byte or two were all before it was written
		net.asked = time.Unix(0, int64(binary.BigEndian.Uint64(r.Fixed("time of a network", 8))))
	}
	return net, r.Done()
}

// identity is what makes a peer this peer.
type identity struct {
	self    peer.ID
	boot    peer.Boot
	name    peer.Name
	machine uint64
}

func (m *Machine) saveIdentity() {
	from := len(m.arena)
	m.arena = append(m.arena, keySelf...)
	split := len(m.arena)
	m.arena = append(m.arena, formatRecord)
	m.arena = append(m.arena, m.self[:]...)
	m.arena = codec.Uint(m.arena, uint64(max(m.boot, m.surpassed)))
	m.arena = codec.Bytes(m.arena, m.cfg.Name)
	m.arena = codec.Uint(m.arena, m.cfg.Machine)
	m.save(bucketIdentity, from, split)
}

// saveUnlisted writes whether the engine has yet to list what it has, and whether
// others have. The key is there only as long as one of them is so.
func (m *Machine) saveUnlisted() {
	from := len(m.arena)
	m.arena = append(m.arena, keyUnlisted...)
	split := -1
	if m.unlisted || m.unsure {
		split = len(m.arena)
		m.arena = codec.Bool(append(m.arena, formatRecord), m.inherited)
		m.arena = codec.Bool(m.arena, m.unsure)
		m.arena = append(m.arena, byte(m.before))
	}
	m.save(bucketIdentity, from, split)
}

// parseUnlisted reads what saveUnlisted wrote. What others have to list was not
// in it at first, nor what this host had before.
func parseUnlisted(b []byte) (inherited, unsure bool, had before, err error) {
	r := codec.NewReader(b)
	if r.Byte("format") != formatRecord {
		r.Fail("format of the mark of a new database")
	}
	inherited = r.Bool("mark of a new database")
	if r.Rest() > 0 {
		unsure = r.Bool("mark of a new database beside others")
	}
	if r.Rest() > 0 {
		if had = before(r.Byte("networks before")); had > beforeSome {
			r.Fail("networks before")
		}
	}
	return inherited, unsure, had, r.Done()
}

func parseIdentity(b []byte) (identity, error) {
	r := codec.NewReader(b)
	if r.Byte("format") != formatRecord {
		r.Fail("format of the identity")
	}
	id := identity{
		self: r.ID("peer ID"), boot: peer.Boot(r.Uint("boot")),
		name: peer.Name(r.Bytes("name", peer.MaxName)), machine: r.Uint("machine"),
	}
	if id.self == peer.None {
		r.Fail("peer ID")
	}
	return id, r.Done()
}
