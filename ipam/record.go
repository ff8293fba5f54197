package ipam

import (
	"github.com/ringlet/ringlet/ipam/replog"
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
)

// SchemaVersion is the version of this layout.
const SchemaVersion = 1
