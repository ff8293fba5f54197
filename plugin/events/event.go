package events

import (
	"maps"
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

// Described returns the event that an address was handed out with what is known of its holder by now.
func (e Event) Described(h *Holder) Event {
	e.Holder = h
	e.Text = string((&entry{kind: Granted, note: ipam.Note{Kind: ipam.NoteGranted}}).sentence(nil, &e))
	return e
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

// word is a kind of event, what it says to people beside the address and the
// holder, and what the kind means.
type word struct{ kind, text, meaning string }

// words has the kind of event for each kind of note. A note without one is told
// by another, as what is given moves; or is only counted, as questions to peers.
var words = map[ipam.NoteKind]word{
	ipam.NoteGranted:     {Granted, "handed out to", "an address was handed out"},
	ipam.NoteFreed:       {Freed, "freed, was held by", "an address is no longer held"},
	ipam.NoteWithdrawn:   {Withdrawn, "taken back, because it could not be delivered to", "an address was taken back: its container never got it"},
	ipam.NoteDescribed:   {Described, "is held by", "more is known of a holder, such as its name"},
	ipam.NoteStranger:    {Stranger, "set aside: another device on the network answers for it,", "another device on the network answers for an address"},
	ipam.NoteMoved:       {RangeMoved, "", "a range has another owner"},
	ipam.NotePoolCreated: {PoolCreated, "pool created", "a pool was created"},
	ipam.NotePoolDeleted: {PoolRemoved, "pool removed", "a pool was removed"},
	ipam.NoteLeakFound:   {"leak-found", "has no endpoint any more", "an address is held for a container that is gone"},
	ipam.NoteLeakMended:  {"leak-mended", "freed, because its container is gone", "such an address was freed"},
	ipam.NoteAdopted:     {"adopted", "taken in, because a container has it", "a container had an address that the records lacked"},
	ipam.NoteConflict:    {"conflict", "conflict", "two holders use one address"},
	ipam.NoteTakenOver:   {"taken-over", "taken over from a container that is gone", "an address passed on from a container that is gone"},
	ipam.NotePressed:     {"reused-early", "handed out before it had rested, because the pool had no other", "an address was handed out before it had rested"},
	ipam.NoteLate:        {"duplicate-release", "released late for its former holder, which was ignored", "a late release of a former holder was ignored"},
	ipam.NoteStrangerEnd: {"stranger-gone", "no longer set aside for a device that answered for it", "no device answers for that address any longer"},
	ipam.NoteNetworkGone: {"network-gone", "a network that the engine no longer has was forgotten", "the engine no longer has a network"},
	ipam.NoteFounded:     {"founded", "this host founded its cluster", "this host founded its cluster"},
	ipam.NoteJoined:      {"joined", "this host was admitted to the cluster", "this host was admitted to the cluster"},
	ipam.NoteEvicted:     {"evicted", "this host was evicted, and asks to be admitted again", "this host was evicted, and asks to be admitted again"},
	ipam.NoteSuspended:   {"suspended", "this host stopped handing out addresses", "this host stopped handing out addresses"},
	ipam.NoteBootedAlone: {"booted-alone", "no majority of the cluster answered since the host started", "no majority of the cluster answered after the start"},
	ipam.NoteGaveWay:     {"cluster-dissolved", "this host dissolved its own empty cluster to join another", "this host gave up its empty cluster to join another"},
	ipam.NoteRecovered:   {"recovered", "this host recovered its cluster without the lost majority", "this host continues without the lost majority"},
	ipam.NotePeerJoined:  {"peer-joined", "joined the cluster", "another host joined the cluster"},
	ipam.NotePeerLeft:    {"peer-left", "left the cluster", "another host left the cluster"},
	ipam.NotePeerEvicted: {"peer-evicted", "was evicted; its addresses are quarantined", "another host was evicted"},
	ipam.NoteForgotten:   {"peer-forgotten", "was forgotten; its addresses were released", "another host was forgotten"},
	ipam.NoteLocked:      {"locked", "lock taken", "a lock was taken"},
	ipam.NoteUnlocked:    {"unlocked", "lock ended", "a lock was given back"},
	ipam.NoteLockExpired: {"lock-expired", "lock ended, because its host was silent", "a lock ended, because its host was silent"},
	ipam.NoteInherited:   {"inherited", "is this host's former self; its ranges were taken over", "this host took over the ranges of its former self"},
}

// The kinds of events from which it can be told who has what.
const (
	Granted     = "granted"
	Freed       = "freed"
	Withdrawn   = "withdrawn"
	Described   = "holder-updated"
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

// others has the kinds of events that are no notes, with their meanings.
var others = map[string]string{
	ProblemBegan:   "ringlet status has a new problem",
	ProblemChanged: "a problem of ringlet status has another text",
	ProblemEnded:   "a problem of ringlet status has ended",
	Asked:          "a command or a program asked for a change",
}

// Kinds returns all kinds of events, each with its meaning.
func Kinds() map[string]string {
	out := maps.Clone(others)
	for _, w := range words {
		out[w.kind] = w.meaning
	}
	return out
}

func kindOf(k ipam.NoteKind) string { return words[k].kind }
