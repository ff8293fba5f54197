package ipam

import "github.com/ringlet/ringlet/ipam/replog"

// What a peer keeps on its disk. What is decided, or under way to be, package replog keeps.
//
//	bucket      key                    value
//	identity    "clock"                see start.KeyClock
//	identity    "drained"              see leave.KeyDrained
//	identity    "gave way"             see formation.KeyGaveWay
//	identity    "given up"             see suspend.KeyGivenUp
//	identity    "host"                 the boot ID of the host when this peer last ran
//	identity    "label"                see start.KeyLabel
//	identity    "left"                 see leave.KeyLeft
//	identity    "old"                  see suspend.KeyOld
//	identity    "place"                see suspend.KeyPlace
//	identity    "rejoined"             see former.Key
//	identity    "self"                 see start.KeySelf
//	identity    "unlisted"             see newdb.Key
//	peer        peer ID (16 bytes)     see cluster.Bucket
//	chronicle   0x00                   snapshot: the encoded state
//	chronicle   0x01, slot (8 bytes)   the slot's batch
//	network     pool ID                how many networks asked for it, and when last
//	holding     see holding.Bucket
//	late        see doubt.Bucket
//	warning     address (4 or 16)      see warning.Bucket
//
// Numbers in keys are big-endian. Every value begins with its format.
const (
	bucketIdentity  = "identity"
	bucketChronicle = replog.Bucket

	keyHost = "host"
)

// SchemaVersion is the version of this layout.
const SchemaVersion = 1
