package events

import (
	"cmp"
	"net/netip"
	"strconv"

	"github.com/ringlet/ringlet/ipam"
)

// show fills in what is shown of an entry, but for its text and the holder's
// MAC. The holder is filled in where h points, if there is one.
func (e *entry) show(out *Event, h *Holder, id ID) {
	n := &e.note
	*out = Event{
		ID: id, Time: e.at.UTC(), Kind: e.kind, Pool: n.Pool, Address: n.Address, Last: n.Last, From: n.From, To: n.To, Problem: e.problem,
	}
	if n.Use != (ipam.Use{}) {
		*h = holderOf(&n.Use)
		out.Holder = h
	}
	switch n.Kind {
	case ipam.NotePeerJoined, ipam.NotePeerLeft, ipam.NotePeerEvicted, ipam.NoteForgotten, ipam.NoteInherited:
		out.Peer = n.Holder
	default:
	}
}

// holderOf shows a use, without its MAC. A client goes by the name that it
// gave itself.
func holderOf(u *ipam.Use) Holder {
	h := Holder{Kind: u.Kind, Container: u.Container, Name: u.Name, Since: u.Since}
	if u.Kind == "client" {
		h.Container, h.Name = "", u.Container
	}
	return h
}

// String names the holder for people.
func (h *Holder) String() string { return string(h.appendTo(nil)) }

func (h *Holder) appendTo(b []byte) []byte {
	switch short := h.Container[:min(len(h.Container), 12)]; {
	case h.Kind == "gateway":
		return append(b, "the engine, as gateway"...)
	case h.Kind == "host":
		return append(b, "the host itself"...)
	case h.Kind == "client":
		return strconv.AppendQuote(b, h.Name)
	case h.Kind == "stranger":
		return append(append(b, "with MAC "...), h.MAC...)
	case h.Name != "" && short != "":
		b = append(append(b, "container "...), h.Name...)
		return append(append(append(b, " ("...), short...), ')')
	case h.Name != "" || short != "":
		return append(append(b, "container "...), cmp.Or(h.Name, short)...)
	case h.MAC != "":
		return append(append(b, "a container with MAC "...), h.MAC...)
	}
	return append(b, "a container"...)
}

// sentence says what happened, for people. All else of v is filled in.
func (e *entry) sentence(b []byte, v *Event) []byte {
	text := words[e.note.Kind].text
	switch {
	case e.kind == Asked:
		return append(b, e.note.Holder...)
	case e.problem != nil && e.kind == ProblemEnded:
		return append(append(b, "ended: "...), e.problem.Text...)
	case e.problem != nil:
		return append(b, e.problem.Text...)
	case e.note.Kind == ipam.NoteMoved:
		b = append(append(appendRange(b, v), ": "...), v.From...)
		return append(append(b, " -> "...), v.To...)
	case e.note.Kind == ipam.NoteConflict:
		return append(b, e.note.Holder...)
	case v.Holder != nil:
		b = append(append(append(appendAddr(b, v.Address), ' '), text...), ' ')
		return v.Holder.appendTo(b)
	case v.Peer != "":
		return append(append(append(b, v.Peer...), ": "...), text...)
	case v.Address.IsValid() && e.note.Holder != "":
		b = append(append(appendAddr(b, v.Address), ' '), text...)
		return append(append(b, ": "...), e.note.Holder...)
	case v.Address.IsValid():
		return append(append(appendAddr(b, v.Address), ' '), text...)
	case v.Pool.IsValid():
		return v.Pool.AppendTo(append(append(b, text...), ": "...))
	case e.note.Holder != "":
		return append(append(append(b, text...), ": "...), e.note.Holder...)
	}
	return append(b, text...)
}

func appendRange(b []byte, v *Event) []byte {
	b = appendAddr(b, v.Address)
	if v.Last != v.Address {
		b = appendAddr(append(b, '-'), v.Last)
	}
	return b
}

// appendAddr appends what [netip.Addr.String] returns.
func appendAddr(b []byte, a netip.Addr) []byte {
	if !a.IsValid() {
		return append(b, a.String()...)
	}
	return a.AppendTo(b)
}
