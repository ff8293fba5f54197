package effect

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
)

// NoteKind says what a [Note] is about.
type NoteKind uint8

// The kinds of notes.
const (
	NotePoolCreated NoteKind = iota + 1
	NotePoolDeleted
	NotePressed     // a freed address was handed out before it had rested
	NoteLeakFound   // a held address that no endpoint has
	NoteLeakMended  // such an address was freed
	NoteAdopted     // an endpoint's address that was not held was taken in
	NoteConflict    // an endpoint has an address that is not its to have
	NoteTakenOver   // a container took over an address from a holder that is gone
	NoteNetworkGone // a network that the engine no longer has was forgotten
	NoteFounded     // a cluster was founded
	NoteLate        // a release was taken for that of an earlier holder: it comes late
	NoteWithdrawn   // a grant could not be delivered and was taken back
	NoteJoined      // this peer was admitted to a cluster
	NoteEvicted     // this peer was evicted, and asks to be admitted again
	NotePeerJoined  // another peer was admitted; Holder names it
	NotePeerLeft    // another peer left; Holder names it
	NotePeerEvicted // another peer was evicted; Holder names it
	NoteInherited   // the space of a former self was taken over; Holder names it
	NoteSuspended   // this peer has stopped handing out; Holder says why
	NoteBootedAlone // no majority answered after a new start of the host
	NoteGaveWay     // this peer's empty cluster was dissolved for another
	NoteForgotten   // the space of a peer was given up for it; Holder names it
	NoteRecovered   // this peer founded its cluster anew, as somebody wished
	NoteGiven       // space was given to another peer; Holder names it
	NoteStranger    // something else on the network answers for an address; Holder says what
	NoteStrangerEnd // such an address was freed, to be tried again
	NoteGranted     // an address was handed out, or again to the holder that starts anew; Use says to whom
	NoteFreed       // an address was freed; Use says who had it
	NoteDescribed   // more was learnt of an address's holder, as Use says now
	NoteMoved       // a range changed hands, here or elsewhere: From, To
	NoteAnswered    // another peer, From, was asked for space; To says what came of it
	NoteDoubted     // whether the holder of an address is who asks for it, the engine's next list tells
	NoteUnclear     // whether a container asks for an address or a network, the engine's next list tells
	NoteParted      // a network of a pool may be gone, as a list of networks tells
	NoteLocked      // a lock was taken; Holder says which, and by whom
	NoteUnlocked    // a lock was ended by its holder; Holder names it
	NoteLockExpired // a lock was ended, because its host was silent; Holder names it
)

// Note is something worth a line in the log, a count in the metrics, or an
// event for whoever watches.
type Note struct {
	Kind    NoteKind
	Pool    netip.Prefix
	Address netip.Addr
	Last    netip.Addr // of a range that begins at Address; invalid if that is all
	Holder  string     // who is concerned, in words
	Use     Use        // of NoteGranted, NoteFreed, NoteDescribed, NoteWithdrawn, NoteStranger
	// From and To name the owners of a range before and after NoteMoved: peers,
	// "free" or "reserved".
	From, To string
}

// Use is what an address is, or was, used for. It is a value that costs nothing
// to make, unlike a sentence.
type Use struct {
	Kind      string // container, gateway, unmarked, client, host, stranger
	Container string // ID; of a client the name that it goes by
	Name      string // of the container
	MAC       addr.MAC
	Since     time.Time // it began
}
