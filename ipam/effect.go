package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/effect"
)

// Effects are what a step wants done. The order is a contract: Save first, in
// one transaction and durable; only then Send and Reply. The slices, and the
// bytes in Save, are valid until the next step; those in Send and Beat for
// good. At WakeAt a [Tick] is due.
type Effects struct {
	effect.Out
	Reply []Reply
}

type (
	// Send is a frame for another peer. It may be lost.
	Send = effect.Send
	// Record is one key of the peer's database. A nil Value deletes it.
	Record = effect.Record
	// Note is something worth a line in the log, a count or an event.
	Note = effect.Note
	// NoteKind says what a [Note] is about.
	NoteKind = effect.NoteKind
	// Use is what an address is, or was, used for.
	Use = effect.Use
	// MAC is an Ethernet address; the zero MAC is none.
	MAC = addr.MAC
)

// The kinds of notes; see package effect.
const (
	NotePoolCreated = effect.NotePoolCreated
	NotePoolDeleted = effect.NotePoolDeleted
	NotePressed     = effect.NotePressed
	NoteLeakFound   = effect.NoteLeakFound
	NoteLeakMended  = effect.NoteLeakMended
	NoteAdopted     = effect.NoteAdopted
	NoteConflict    = effect.NoteConflict
	NoteTakenOver   = effect.NoteTakenOver
	NoteNetworkGone = effect.NoteNetworkGone
	NoteFounded     = effect.NoteFounded
	NoteLate        = effect.NoteLate
	NoteWithdrawn   = effect.NoteWithdrawn
	NoteJoined      = effect.NoteJoined
	NoteEvicted     = effect.NoteEvicted
	NotePeerJoined  = effect.NotePeerJoined
	NotePeerLeft    = effect.NotePeerLeft
	NotePeerEvicted = effect.NotePeerEvicted
	NoteInherited   = effect.NoteInherited
	NoteSuspended   = effect.NoteSuspended
	NoteBootedAlone = effect.NoteBootedAlone
	NoteGaveWay     = effect.NoteGaveWay
	NoteForgotten   = effect.NoteForgotten
	NoteRecovered   = effect.NoteRecovered
	NoteGiven       = effect.NoteGiven
	NoteStranger    = effect.NoteStranger
	NoteStrangerEnd = effect.NoteStrangerEnd
	NoteGranted     = effect.NoteGranted
	NoteFreed       = effect.NoteFreed
	NoteDescribed   = effect.NoteDescribed
	NoteMoved       = effect.NoteMoved
	NoteAnswered    = effect.NoteAnswered
	NoteDoubted     = effect.NoteDoubted
	NoteUnclear     = effect.NoteUnclear
	NoteParted      = effect.NoteParted
	NoteLocked      = effect.NoteLocked
	NoteUnlocked    = effect.NoteUnlocked
	NoteLockExpired = effect.NoteLockExpired
)
