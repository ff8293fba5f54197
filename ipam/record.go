package ipam

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
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
//	late        address (4 or 16)                          since when its release may come late
//	late        "earlier"                                  when a list last showed what an earlier database must have known
//	warning     address (4 or 16)                          the peer that warns of it, as it is in use on its host
//
// Numbers in keys are big-endian, so that addresses handed out one after the
// other lie side by side. Each address has its own key: an allocation writes
// some sixty bytes, whatever else is held. Every value begins with its format.
const (
	bucketIdentity  = "identity"
	bucketChronicle = replog.Bucket
	bucketNetwork   = "network"
	bucketHolding   = "holding"
	bucketLate      = "late"
	bucketWarning   = "warning"

	keyLost     = "earlier" // of a length that no address has
	keySelf     = "self"
	keyUnlisted = "unlisted"

	formatRecord = 1
)

// SchemaVersion is the version of this layout.
const SchemaVersion = 1

// holdingKeyLen is the length of the key of an address.
const holdingKeyLen = 8 + 4 + 8

func putHoldingKey(b *[holdingKeyLen]byte, k chronicle.PoolKey, o addr.Offset) {
	binary.BigEndian.PutUint64(b[:], k.Slot)
	binary.BigEndian.PutUint32(b[8:], k.Place)
	binary.BigEndian.PutUint64(b[12:], uint64(o))
}

func parseHoldingKey(b []byte) (k chronicle.PoolKey, o addr.Offset, err error) {
	if len(b) != holdingKeyLen {
		return k, 0, fmt.Errorf("%w: key of an address has %d bytes", codec.ErrCorrupt, len(b))
	}
	k = chronicle.PoolKey{Slot: binary.BigEndian.Uint64(b), Place: binary.BigEndian.Uint32(b[8:])}
	return k, addr.Offset(binary.BigEndian.Uint64(b[12:])), nil
}

// The value of an address. All that has a length of its own stands at a place of its own: two
// values are written for each container that comes and goes, and a start reads one for each
// address that is held.
//
//	byte 0       formatHolding
//	byte 1       state
//	byte 2       kind
//	byte 3       1 if the reference is packed (space.AppendID), else 0
//	bytes 4-11   since when, in nanoseconds since 1970
//	bytes 12-19  sequence number
//	bytes 20-27  key, 0 for none
//	bytes 28-31  network, 0 for none
//	bytes 32-37  MAC, all 0 for none
//	bytes 38-39  length of the name
//	then         the name; the reference, up to the end
const (
	formatHolding   = 2
	holdingFixedLen = 40
)

func putHolding(b *[holdingFixedLen]byte, h *space.Holder, state space.State, seq uint64, since int64) {
	b[0], b[1], b[2], b[3] = formatHolding, byte(state), byte(h.Kind), 0
	binary.BigEndian.PutUint64(b[4:], uint64(since))
	binary.BigEndian.PutUint64(b[12:], seq)
	binary.BigEndian.PutUint64(b[20:], uint64(h.Key))
	binary.BigEndian.PutUint32(b[28:], h.Network)
	*(*[6]byte)(b[32:]) = h.MAC
	binary.BigEndian.PutUint16(b[38:], uint16(len(h.Name))) // no name is longer than MaxHolder, or MaxNote
}

// maxText limits the names that are read back.
const maxText = 4096

// parseHolding reads a record into r, and returns its name and reference, which
// share the memory of b. A reference that is packed is one of [space.AppendID].
func parseHolding(b []byte, r *space.Record) (name, ref []byte, packed bool, err error) {
	if len(b) > 0 && b[0] == formatRecord {
		return parseHolding1(b, r)
	}
	if len(b) < holdingFixedLen || b[0] != formatHolding {
		return nil, nil, false, fmt.Errorf("%w: format of an address", codec.ErrCorrupt)
	}
	f := (*[holdingFixedLen]byte)(b)
	r.State, r.Kind, packed = space.State(f[1]), space.Kind(f[2]), f[3] == 1
	r.Since = int64(binary.BigEndian.Uint64(f[4:]))
	r.Seq = binary.BigEndian.Uint64(f[12:])
	r.Key = space.Key(binary.BigEndian.Uint64(f[20:]))
	r.Network = binary.BigEndian.Uint32(f[28:])
	r.MAC = [6]byte(f[32:])
	n := holdingFixedLen + int(binary.BigEndian.Uint16(f[38:]))
	if f[3] > 1 || !isHolding(r) || len(b) < n || n-holdingFixedLen > maxText || len(b)-n > maxText || packed && len(b)-n != space.IDLen {
		return nil, nil, false, fmt.Errorf("%w: state of an address", codec.ErrCorrupt)
	}
	return b[holdingFixedLen:n], b[n:], packed, nil
}

// isHolding reports whether state and kind are those of an address of which something is
// known.
func isHolding(r *space.Record) bool {
	return (r.State == space.Held || r.State == space.Freed) && r.Kind >= space.Container && r.Kind <= space.Kept
}

// parseHolding1 is parseHolding for the format before formatHolding, of which a
// database may still have records: it says what follows, and has no more than that.
func parseHolding1(b []byte, r *space.Record) (name, ref []byte, packed bool, err error) {
	rd := codec.NewReader(b)
	head := rd.Fixed("state of an address", 4+8)
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
	if has > 15 || !isHolding(r) {
		rd.Fail("state of an address")
	}
	return name, ref, packed, rd.Done()
}

// saveGrant writes the record of an address that was granted to a holder.
func (m *Machine) saveGrant(p *pool, g *space.Grant, h *space.Holder) {
	m.saveHolding(p, g.Offset, h, space.Held, g.Seq, g.Since)
}

// forgetHolding deletes the record of an address.
func (m *Machine) forgetHolding(p *pool, o addr.Offset) {
	var key [holdingKeyLen]byte
	putHoldingKey(&key, p.Key, o)
	m.out.Delete(bucketHolding, string(key[:]))
}

// saveHolding writes the record of an address, part by part: to put it together first would cost as much.
func (m *Machine) saveHolding(p *pool, o addr.Offset, h *space.Holder, state space.State, seq uint64, since int64) {
	const fixed = holdingKeyLen + holdingFixedLen
	b := m.out.Buffer()
	from := len(b)
	b = slices.Grow(b, fixed+len(h.Name)+len(h.Ref))[:from+fixed]
	f := (*[fixed]byte)(b[from:])
	putHoldingKey((*[holdingKeyLen]byte)(f[:]), p.Key, o)
	putHolding((*[holdingFixedLen]byte)(f[holdingKeyLen:]), h, state, seq, since)
	b = append(b, h.Name...)
	if h.Ref != "" {
		if id, ok := space.AppendID(b, h.Ref); ok {
			b, f[holdingKeyLen+3] = id, 1
		} else {
			b = append(b, h.Ref...)
		}
	}
	m.out.PutBuffer(bucketHolding, b, from+holdingKeyLen)
}

// saveRecord writes what is known of an address, or forgets it if nothing is.
func (m *Machine) saveRecord(p *pool, o addr.Offset, rec *space.Record) {
	if rec.State == space.Unused {
		m.forgetHolding(p, o)
		return
	}
	m.saveHolding(p, o, &rec.Holder, rec.State, rec.Seq, rec.Since)
}

// saveNetwork writes how many networks of this host asked for the same, when the last
// did, and whether it is said that their pool is used, and deletes the key when none is left.
func (m *Machine) saveNetwork(n *network) {
	if n.count <= 0 {
		m.out.Delete(bucketNetwork, string(n.ID()))
		return
	}
	b := append(m.out.Buffer(), n.ID()...)
	split := len(b)
	b = codec.Uint(append(b, formatRecord), uint64(n.count))
	b = binary.BigEndian.AppendUint64(b, uint64(n.asked.at.UnixNano()))
	if n.useSaid {
		b = append(b, networkUseSaid)
	}
	m.out.PutBuffer(bucketNetwork, b, split)
}

// saveDoubt writes since when an address is in doubt, and deletes the key where since is zero. An earlier release counted
// the releases that may come, and reads a number before the time.
func (m *Machine) saveDoubt(a netip.Addr, since time.Time) {
	if since.IsZero() {
		m.out.Delete(bucketLate, string(a.AsSlice()))
		return
	}
	b := codec.Uint([]byte{formatRecord}, 1)
	m.out.Put(bucketLate, string(a.AsSlice()), binary.BigEndian.AppendUint64(b, uint64(since.UnixNano())))
}

// saveLost writes when a list last showed what an earlier database must have known, and deletes the key
// once it says nothing any more.
func (m *Machine) saveLost() {
	if m.lostAt.IsZero() {
		m.out.Delete(bucketLate, keyLost)
		return
	}
	m.out.Put(bucketLate, keyLost, binary.BigEndian.AppendUint64([]byte{formatRecord}, uint64(m.lostAt.UnixNano())))
}

func parseLost(value []byte) (time.Time, error) {
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord {
		r.Fail("format of a loss")
	}
	at := time.Unix(0, int64(binary.BigEndian.Uint64(r.Fixed("time of a loss", 8))))
	return at, r.Done()
}

func parseDoubt(key, value []byte) (a netip.Addr, since time.Time, err error) {
	a, ok := netip.AddrFromSlice(key)
	if !ok {
		return a, since, fmt.Errorf("%w: its key", codec.ErrCorrupt)
	}
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord {
		r.Fail("format of an address in doubt")
	}
	if r.Uint("number of late releases") == 0 {
		r.Fail("number of late releases")
	}
	since = time.Unix(0, int64(binary.BigEndian.Uint64(r.Fixed("time of a doubt", 8))))
	return a, since, r.Done()
}

// networkUseSaid ends the record of a network of which it is said that its pool is used.
const networkUseSaid = 1

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
		net.asked.at = time.Unix(0, int64(binary.BigEndian.Uint64(r.Fixed("time of a network", 8))))
	}
	if net.useSaid = r.Rest() > 0; net.useSaid && r.Byte("use of a network's pool") != networkUseSaid {
		r.Fail("use of a network's pool")
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
	b := append([]byte{formatRecord}, m.self[:]...)
	b = codec.Uint(b, uint64(max(m.boot, m.surpassed)))
	b = codec.Bytes(b, m.cfg.Name)
	m.out.Put(bucketIdentity, keySelf, codec.Uint(b, m.cfg.Machine))
}

// saveUnlisted writes whether the engine has yet to list what it has, and whether
// others have. The key is there only as long as one of them is so.
func (m *Machine) saveUnlisted() {
	if !m.unlisted && !m.unsure {
		m.out.Delete(bucketIdentity, keyUnlisted)
		return
	}
	b := codec.Bool(codec.Bool([]byte{formatRecord}, m.inherited), m.unsure)
	m.out.Put(bucketIdentity, keyUnlisted, append(b, byte(m.before)))
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
