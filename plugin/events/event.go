package events

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Event is one thing that happened, as the API shows it. Fields that do not
// concern its kind are left out.
type Event struct {
	ID      ID           `json:"id"`
	Time    time.Time    `json:"time"`
	Kind    string       `json:"kind"` // one of [Kinds]
	Text    string       `json:"text"` // for people; may change
	Pool    netip.Prefix `json:"pool,omitzero"`
	Address netip.Addr   `json:"address,omitzero"` // of a range the first one
	Last    netip.Addr   `json:"last,omitzero"`    // of a range the last one
	Holder  *Holder      `json:"holder,omitempty"` // who has the address, or had it
	From    string       `json:"from,omitempty"`   // owner of the range before: a peer's name, free or reserved
	To      string       `json:"to,omitempty"`     // owner since
	Peer    string       `json:"peer,omitempty"`   // name of the other peer that is concerned
	Problem *Problem     `json:"problem,omitempty"`
}

// Holder is who has an address.
type Holder struct {
	Kind      string    `json:"kind"`                // container, gateway, client, host, stranger, unmarked
	Container string    `json:"container,omitempty"` // ID
	Name      string    `json:"name,omitempty"`      // of the container, or the one that a client goes by
	MAC       string    `json:"mac,omitempty"`
	Since     time.Time `json:"since"`
}

// Problem is what began, changed or ended, as in the status.
type Problem = ipam.Problem

// word is a kind of event, and what it says to people beside the address and
// the holder.
type word struct{ kind, text string }

// words has the kind of event for each kind of note. A note without one is told
// by another, as what is given moves; or is only counted, as questions to peers.
var words = map[ipam.NoteKind]word{
	ipam.NoteGranted:     {Granted, "handed out to"},
	ipam.NoteFreed:       {Freed, "freed, was held by"},
	ipam.NoteWithdrawn:   {Withdrawn, "taken back, because it could not be delivered to"},
	ipam.NoteDescribed:   {Described, "is held by"},
	ipam.NoteStranger:    {Stranger, "set aside: another device on the network answers for it,"},
	ipam.NoteMoved:       {RangeMoved, ""},
	ipam.NotePoolCreated: {PoolCreated, "pool created"},
	ipam.NotePoolDeleted: {PoolRemoved, "pool removed"},
	ipam.NoteLeakFound:   {"leak-found", "has no endpoint any more"},
	ipam.NoteLeakMended:  {"leak-mended", "freed, because its container is gone"},
	ipam.NoteAdopted:     {"adopted", "taken in, because a container has it"},
	ipam.NoteConflict:    {"conflict", "conflict"},
	ipam.NoteTakenOver:   {"taken-over", "taken over from a container that is gone"},
	ipam.NotePressed:     {"pressed", "handed out before it had rested, because the pool had no other"},
	ipam.NoteLate:        {"echo", "released late for its former holder, which was ignored"},
	ipam.NoteStrangerEnd: {"stranger-gone", "no longer set aside for a device that answered for it"},
	ipam.NoteNetworkGone: {"network-gone", "a network that the engine no longer has was forgotten"},
	ipam.NoteFounded:     {"founded", "this host founded its cluster"},
	ipam.NoteJoined:      {"joined", "this host was admitted to the cluster"},
	ipam.NoteEvicted:     {"evicted", "this host was evicted, and asks to be admitted again"},
	ipam.NoteSuspended:   {"suspended", "this host stopped handing out addresses"},
	ipam.NoteBootedAlone: {"booted-alone", "no majority of the cluster answered since the host started"},
	ipam.NoteGaveWay:     {"gave-way", "this host dissolved its own empty cluster to join another"},
	ipam.NoteRecovered:   {"recovered", "this host recovered its cluster without the lost majority"},
	ipam.NotePeerJoined:  {"peer-joined", "joined the cluster"},
	ipam.NotePeerLeft:    {"peer-left", "left the cluster"},
	ipam.NotePeerEvicted: {"peer-evicted", "was evicted; its addresses are quarantined"},
	ipam.NoteForgotten:   {"peer-forgotten", "was forgotten; its addresses were released"},
	ipam.NoteLocked:      {"locked", "lock taken"},
	ipam.NoteUnlocked:    {"unlocked", "lock ended"},
	ipam.NoteLockExpired: {"lock-expired", "lock ended, because its host was silent"},
	ipam.NoteInherited:   {"inherited", "is this host's former self; its ranges were taken over"},
}

// The kinds of events from which it can be told who has what.
const (
	Granted     = "granted"
	Freed       = "freed"
	Withdrawn   = "withdrawn"
	Described   = "described"
	Stranger    = "stranger"
	RangeMoved  = "range-moved"
	PoolCreated = "pool-created"
	PoolRemoved = "pool-removed"
)

// The kinds of events that are no notes.
const (
	ProblemBegan   = "problem-began"
	ProblemChanged = "problem-changed"
	ProblemEnded   = "problem-ended"
	// Asked is that somebody has asked for a change through the API.
	Asked = "asked"
)

// Kinds returns all kinds of events, in no order.
func Kinds() []string {
	out := []string{ProblemBegan, ProblemChanged, ProblemEnded, Asked}
	for _, w := range words {
		out = append(out, w.kind)
	}
	return out
}

func kindOf(k ipam.NoteKind) string { return words[k].kind }
