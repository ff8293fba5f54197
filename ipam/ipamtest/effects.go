package ipamtest

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"net/netip"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam"
)

// What machines do, as one number, as counts, and as answers that can be compared with another run's.

var table = crc64.MakeTable(crc64.ECMA)

// noteNames are the kinds of notes. A hash and a count go by the name: the numbers may change.
var noteNames = [...]string{
	ipam.NotePoolCreated: "pool created",
	ipam.NotePoolDeleted: "pool deleted",
	ipam.NotePressed:     "pressed",
	ipam.NoteLeakFound:   "leak found",
	ipam.NoteLeakMended:  "leak mended",
	ipam.NoteAdopted:     "adopted",
	ipam.NoteConflict:    "conflict",
	ipam.NoteTakenOver:   "taken over",
	ipam.NoteNetworkGone: "network gone",
	ipam.NoteFounded:     "founded",
	ipam.NoteLate:        "late release",
	ipam.NoteWithdrawn:   "withdrawn",
	ipam.NoteJoined:      "joined",
	ipam.NoteEvicted:     "evicted",
	ipam.NotePeerJoined:  "peer joined",
	ipam.NotePeerLeft:    "peer left",
	ipam.NotePeerEvicted: "peer evicted",
	ipam.NoteInherited:   "inherited",
	ipam.NoteSuspended:   "suspended",
	ipam.NoteBootedAlone: "booted alone",
	ipam.NoteGaveWay:     "gave way",
	ipam.NoteForgotten:   "forgotten",
	ipam.NoteRecovered:   "recovered",
	ipam.NoteGiven:       "given",
	ipam.NoteStranger:    "stranger",
	ipam.NoteStrangerEnd: "stranger ended",
	ipam.NoteGranted:     "granted",
	ipam.NoteFreed:       "freed",
	ipam.NoteDescribed:   "described",
	ipam.NoteMoved:       "moved",
	ipam.NoteAnswered:    "answered",
	ipam.NoteDoubted:     "doubted",
	ipam.NoteUnclear:     "unclear",
	ipam.NoteParted:      "parted",
	ipam.NoteLocked:      "locked",
	ipam.NoteUnlocked:    "unlocked",
	ipam.NoteLockExpired: "lock expired",
}

func noteName(k ipam.NoteKind) string {
	if int(k) < len(noteNames) && noteNames[k] != "" {
		return noteNames[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// noteKeys are the names under which notes are counted: one is counted in most steps.
var noteKeys = func() (keys [256]string) {
	for k := range keys {
		keys[k] = "note " + noteName(ipam.NoteKind(k))
	}
	return keys
}()

// heed takes note of all that a step of a host wants done.
func (c *cluster) heed(s *site, fx *ipam.Effects) {
	for i := range fx.Note {
		c.count[noteKeys[fx.Note[i].Kind]]++
	}
	for i := range fx.Reply {
		c.heedReply(s, &fx.Reply[i])
	}
	if len(fx.Save)+len(fx.Send)+len(fx.Reply)+len(fx.Note) == 0 && fx.Beat == nil {
		return
	}
	b := append(c.scratch[:0], byte(s.index))
	for _, r := range fx.Save {
		b = appendText(append(b, 'S'), r.Bucket)
		b = appendBytes(b, r.Key)
		if r.Value != nil {
			b = appendBytes(append(b, 'V'), r.Value)
		}
	}
	for _, m := range fx.Send {
		b = append(append(b, 'M'), m.To[:]...)
		b = appendBytes(b, m.Frame)
	}
	if fx.Beat != nil {
		b = appendBytes(append(b, 'B'), fx.Beat)
	}
	for i := range fx.Reply {
		b = binary.AppendUvarint(append(b, 'R'), fx.Reply[i].Call)
		b = appendReply(b, &fx.Reply[i])
	}
	for i := range fx.Note {
		b = appendNote(append(b, 'N'), &fx.Note[i])
	}
	c.hash, c.scratch = crc64.Update(c.hash, table, b), b
}

func appendBytes(b, v []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func appendText(b []byte, v string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// appendReply appends what is answered, without the number of the call. What is behind a pointer is written out.
func appendReply(b []byte, r *ipam.Reply) []byte {
	if r.Err != nil {
		return appendText(appendText(b, ipam.Code(r.Err)), r.Err.Error())
	}
	if g := &r.Address; g.Address.IsValid() {
		b = g.Address.AppendTo(b)
		b = binary.AppendUvarint(b, g.Ticket.Pool.Slot)
		b = binary.AppendUvarint(b, uint64(g.Ticket.Pool.Place))
		b = binary.AppendUvarint(b, uint64(g.Ticket.Offset))
		b = binary.AppendUvarint(b, g.Ticket.Serial)
	}
	if r.Pool != nil {
		b = fmt.Appendf(b, "pool %v", *r.Pool)
	}
	if len(r.Addresses) > 0 {
		b = fmt.Appendf(b, "addresses %v", r.Addresses)
	}
	if r.Status != nil {
		b = fmt.Appendf(b, "status %v %t", *r.Status, r.Created)
	}
	if r.Forgetting != nil {
		b = fmt.Appendf(b, "forgetting %v", *r.Forgetting)
	}
	if r.Reserving != nil {
		b = fmt.Appendf(b, "reserving %v", *r.Reserving)
	}
	if len(r.Collected) > 0 {
		b = fmt.Appendf(b, "collected %v", r.Collected)
	}
	return binary.AppendVarint(b, int64(r.Again))
}

func appendNote(b []byte, n *ipam.Note) []byte {
	b = appendText(b, noteName(n.Kind))
	b = n.Pool.AppendTo(b)
	b = n.Address.AppendTo(append(b, ' '))
	b = n.Last.AppendTo(append(b, ' '))
	for _, text := range [...]string{n.Holder, n.From, n.To, n.Use.Kind, n.Use.Container, n.Use.Name} {
		b = appendText(b, text)
	}
	b = append(b, n.Use.MAC[:]...)
	return binary.AppendVarint(b, n.Use.Since.UnixNano())
}

// heedReply counts a refusal by its class, and tells of the answer whoever listens.
func (c *cluster) heedReply(s *site, r *ipam.Reply) {
	class := Granted
	if r.Err != nil {
		class = refusal(r.Err)
		c.count["refused "+class]++
	}
	if c.o.Respond == nil {
		return
	}
	i := slices.IndexFunc(s.calls, func(w call) bool { return w.id == r.Call })
	if i < 0 {
		return // it fails where it is delivered
	}
	a := Response{Step: c.steps, Host: s.index, Call: r.Call, Request: requestKind(s.calls[i].request), Asked: s.calls[i].asked, Class: class}
	if _, list := s.calls[i].request.(*ipam.Inventory); !list && r.Err == nil {
		a.Value = crc64.Checksum(appendReply(nil, r), table)
	}
	c.o.Respond(a)
}

// Granted is the class of an answer that is no refusal.
const Granted = "granted"

// Response is what a machine answered in a step, in a form that can be compared with another run's.
type Response struct {
	Step  int // of all machines
	Host  int
	Call  uint64 // counts the calls on that host
	Asked uint64 // a hash of the request
	// Request is its kind: the type, and what tells requests of one type apart.
	Request string
	Class   string // Granted, or the class of the refusal: its code, and the fixed words that its sentence begins with
	Value   uint64 // a hash of what was granted
}

// hashOf is a hash of a request, as it is when it is made.
func hashOf(r ipam.Request) uint64 { return crc64.Checksum([]byte(requestText(r)), table) }

func requestKind(r ipam.Request) string {
	kind := strings.TrimPrefix(fmt.Sprintf("%T", r), "*ipam.")
	claims := func(a netip.Addr) string {
		if a.IsValid() {
			return " with an address"
		}
		return ""
	}
	switch r := r.(type) {
	case *ipam.AddressRequest:
		purpose := map[ipam.Purpose]string{ipam.ForContainer: "container", ipam.ForGateway: "gateway", ipam.ForUnmarked: "unmarked", ipam.ForClient: "client"}
		return kind + " " + purpose[r.Purpose] + claims(r.Address)
	case *ipam.ClientRequest:
		return kind + claims(r.Address)
	case *ipam.PoolRequest:
		if r.Pool.IsValid() {
			return kind + " with a subnet"
		}
	}
	return kind
}

// words is how many words of a sentence tell one kind of refusal from another.
const words = 8

// refusal returns the class of an error: its code, and the start of its sentence without what differs from case to case.
func refusal(err error) string {
	var b strings.Builder
	b.WriteString(ipam.Code(err))
	n, gap := 0, false
	for word := range strings.FieldsSeq(err.Error()) {
		bare := strings.Trim(word, `,;:()"`)
		switch {
		case !isFixedWord(bare):
			gap = true
			continue
		case gap && (bare == "and" || bare == "more"): // of a list
			continue
		case gap:
			b.WriteString(" _")
		}
		gap = false
		b.WriteString(" " + bare)
		if n++; n == words || strings.HasSuffix(word, ":") {
			break
		}
	}
	return b.String()
}

// isFixedWord reports whether a word of a sentence is the same in each case: no address, number, or name of a peer or pool.
func isFixedWord(word string) bool {
	return word != "" && !strings.ContainsAny(word, "0123456789") && !strings.HasPrefix(word, "host-") && word != "lab" && word != "dmz"
}
