package ipamtest

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
	"net/netip"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// What machines do, as one number, as counts, and as answers that can be compared with another run's.

var table = crc64.MakeTable(crc64.ECMA)

// noteNames are the kinds of notes. A hash and a count go by the name: the numbers may change.
var noteNames = [...]string{
	ipam.NotePoolCreated: "note pool created", ipam.NotePoolDeleted: "note pool deleted", ipam.NotePressed: "note pressed",
	ipam.NoteLeakFound: "note leak found", ipam.NoteLeakMended: "note leak mended", ipam.NoteAdopted: "note adopted",
	ipam.NoteConflict: "note conflict", ipam.NoteTakenOver: "note taken over", ipam.NoteNetworkGone: "note network gone",
	ipam.NoteFounded: "note founded", ipam.NoteLate: "note late release", ipam.NoteWithdrawn: "note withdrawn", ipam.NoteJoined: "note joined",
	ipam.NoteEvicted: "note evicted", ipam.NotePeerJoined: "note peer joined", ipam.NotePeerLeft: "note peer left",
	ipam.NotePeerEvicted: "note peer evicted", ipam.NoteInherited: "note inherited", ipam.NoteSuspended: "note suspended",
	ipam.NoteBootedAlone: "note booted alone", ipam.NoteGaveWay: "note gave way", ipam.NoteForgotten: "note forgotten",
	ipam.NoteRecovered: "note recovered", ipam.NoteGiven: "note given", ipam.NoteStranger: "note stranger",
	ipam.NoteStrangerEnd: "note stranger ended", ipam.NoteGranted: "note granted", ipam.NoteFreed: "note freed", ipam.NoteDescribed: "note described",
	ipam.NoteMoved: "note moved", ipam.NoteAnswered: "note answered", ipam.NoteDoubted: "note doubted", ipam.NoteUnclear: "note unclear",
	ipam.NoteParted: "note parted", ipam.NoteLocked: "note locked", ipam.NoteUnlocked: "note unlocked", ipam.NoteLockExpired: "note lock expired",
}

// heed takes note of all that a step of a host wants done.
func (c *cluster) heed(s *site, fx *ipam.Effects) {
	for i := range fx.Note {
		c.count[noteNames[fx.Note[i].Kind]]++
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
		b = appendText(b, r.Key)
		if r.Value != nil {
			b = appendText(append(b, 'V'), r.Value)
		}
	}
	for _, m := range fx.Send {
		b = append(append(b, 'M'), m.To[:]...)
		b = appendText(b, m.Frame)
	}
	if fx.Beat != nil {
		b = appendText(append(b, 'B'), fx.Beat)
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

// appendText appends a text, or bytes, behind its length.
func appendText[T string | []byte](b []byte, v T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

// appendReply appends what is answered, without the number of the call. What is behind a pointer is written out.
func appendReply(b []byte, r *ipam.Reply) []byte {
	if r.Err != nil {
		return appendText(appendText(b, ipam.Code(r.Err)), r.Err.Error())
	}
	return fmt.Appendf(b, "%v %v %v %v %t %v %v %v %v %d", r.Address, deref(r.Pool), r.Addresses, deref(r.Status), r.Created,
		deref(r.Forgetting), deref(r.Reserving), r.Collected, r.Again, r.Fence)
}

// deref returns what is behind a pointer, if anything is.
func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

func appendNote(b []byte, n *ipam.Note) []byte {
	b = appendText(b, noteNames[n.Kind])
	b = fmt.Appendf(b, "%v %v %v ", n.Pool, n.Address, n.Last)
	for _, text := range [...]string{n.Holder, n.From, n.To, n.Use.Kind, n.Use.Container, n.Use.Name} {
		b = appendText(b, text)
	}
	b = append(b, n.Use.MAC[:]...)
	return binary.AppendVarint(b, n.Use.Since.UnixNano())
}

// heedReply counts a refusal by its class, and reports the answer to [Options.Respond].
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

// Texts of the trace are made where they are printed, so that a schedule that is not traced makes none.
type (
	batchText []byte
	eventText struct{ of ipam.Event }
	replyText ipam.Reply
)

// peerText names a peer by its host.
func (c *cluster) peerText(id peer.ID) string {
	if s := c.find(func(s *site) bool { return s.id == id }); s != nil {
		return s.String()
	}
	return id.Short()
}

func (t batchText) String() string {
	batch, err := chronicle.DecodeBatch(t)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for i, c := range batch {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s %d %v", c.Author.Short(), c.Number, c.Action)
	}
	return b.String()
}

func (t eventText) String() string {
	switch ev := t.of.(type) {
	case ipam.Tick:
		return "tick"
	case *ipam.Call:
		return fmt.Sprintf("call %d %s", ev.ID, requestText(ev.Request))
	case *ipam.Message:
		return fmt.Sprintf("from %s at %d: %s", ev.Frame.From.Short(), ev.Frame.Slot, bodyText(ev.Frame.Body))
	case *ipam.Presence:
		return fmt.Sprintf("presence of %s: alive %t", ev.Peer.Short(), ev.Alive)
	}
	return fmt.Sprintf("%T", t.of)
}

func requestText(r ipam.Request) string {
	if inv, ok := r.(*ipam.Inventory); ok {
		n := 0
		for _, net := range inv.Networks {
			n += len(net.Endpoints)
		}
		return fmt.Sprintf("inventory of %d networks, %d endpoints, after %+v", len(inv.Networks), n, inv.After)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", r, r), "*ipam.")
}

func (r replyText) String() string {
	if r.Err != nil {
		return fmt.Sprintf("reply %d: %s: %v", r.Call, ipam.Code(r.Err), r.Err)
	}
	return fmt.Sprintf("reply %d: %v %v", r.Call, r.Address.Address, deref(r.Pool))
}

func bodyText(b wire.Body) string {
	name := strings.TrimPrefix(fmt.Sprintf("%T", b), "wire.")
	switch v := b.(type) {
	case wire.Prepare:
		return fmt.Sprintf("%s slot %d ballot %v", name, v.Slot, v.Ballot)
	case wire.Promise:
		return fmt.Sprintf("%s slot %d ballot %v, accepted at %v: %s", name, v.Slot, v.Promise.Ballot, v.Promise.Accepted, batchText(v.Promise.Value))
	case wire.Accept:
		return fmt.Sprintf("%s slot %d ballot %v: %s", name, v.Slot, v.Accept.Ballot, batchText(v.Accept.Value))
	case wire.Decided:
		var b strings.Builder
		for i, value := range v.Values {
			fmt.Fprintf(&b, " %d: %s", v.First+uint64(i), batchText(value))
		}
		return name + b.String()
	case wire.Snapshot:
		return fmt.Sprintf("%s of %d bytes", name, len(v.State))
	case wire.Submit:
		return name + " " + batchText(v.Batch).String()
	}
	return fmt.Sprintf("%s%+v", name, b)
}
