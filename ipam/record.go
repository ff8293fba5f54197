package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/holding"
	"github.com/ringlet/ringlet/ipam/pool"
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
//	holding     see holding.Bucket
//	late        see doubt.Bucket
//	warning     address (4 or 16)                          see warning.Bucket
//
// Numbers in keys are big-endian. Every value begins with its format.
const (
	bucketIdentity  = "identity"
	bucketChronicle = replog.Bucket

	formatRecord = 1
)

// SchemaVersion is the version of this layout.
const SchemaVersion = 1

// saveGrant writes the record of an address that was granted to a holder.
func (m *Machine) saveGrant(p *pool.Pool, g *space.Grant, h *space.Holder) {
	m.saveHolding(p, g.Offset, h, space.Held, g.Seq, g.Since)
}

// forgetHolding deletes the record of an address.
func (m *Machine) forgetHolding(p *pool.Pool, o addr.Offset) { holding.Delete(&m.out, p.Key, o) }

func (m *Machine) saveHolding(p *pool.Pool, o addr.Offset, h *space.Holder, state space.State, seq uint64, since int64) {
	holding.Save(&m.out, p.Key, o, h, state, seq, since)
}

// saveRecord writes what is known of an address, or forgets it if nothing is.
func (m *Machine) saveRecord(p *pool.Pool, o addr.Offset, rec *space.Record) {
	if rec.State == space.Unused {
		m.forgetHolding(p, o)
		return
	}
	m.saveHolding(p, o, &rec.Holder, rec.State, rec.Seq, rec.Since)
}

func (m *Machine) saveIdentity() {
	m.members.Me.Save(m.members.Suspension.LatestBoot(m.members.Me.Boot()), m.cfg.Name, m.cfg.Machine)
}
