package ipam

// What a peer keeps on its disk about itself and about others. What is decided, or under way to be, package replog keeps.
//
//	bucket      key                     value
//	identity    "gave way"              see formation.KeyGaveWay
//	identity    "clock"                 see start.KeyClock
//	identity    "drained"               see leave.KeyDrained
//	identity    "given up"              see suspend.KeyGivenUp
//	identity    "host"                  the boot ID of the host when this peer last ran
//	identity    "label"                 see start.KeyLabel
//	identity    "left"                  see leave.KeyLeft
//	identity    "old"                   see suspend.KeyOld
//	identity    "rejoined"              see former.Key
//	identity    "place"                 see suspend.KeyPlace
//	peer        peer ID (16 bytes)      see cluster.Bucket
const (
	keyHost = "host"
)
