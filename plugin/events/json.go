package events

import (
	"encoding/json"
	"net/netip"
	"slices"
	"time"
)

// AppendJSON appends the event as [json.Marshal] writes it, and costs a
// fraction of that: every grant and release is written down. The error is that
// of a time that JSON has no form for, or one of json.Marshal.
func (e *Event) AppendJSON(b []byte) ([]byte, error) {
	if e.Problem != nil || !hasForm(e.Time) || e.Holder != nil && !hasForm(e.Holder.Since) {
		text, err := json.Marshal(e)
		return append(b, text...), err
	}
	b = append(e.ID.appendTo(append(b, `{"id":"`...)), `","time":`...)
	b = append(appendTime(b, e.Time), `,"kind":`...)
	b = append(appendString(b, e.Kind), `,"text":`...)
	b = appendString(b, e.Text)
	if e.Pool != (netip.Prefix{}) {
		b = appendQuoted(append(b, `,"pool":`...), e.Pool.AppendTo)
	}
	if e.Address != (netip.Addr{}) {
		b = appendQuoted(append(b, `,"address":`...), e.Address.AppendTo)
	}
	if e.Last != (netip.Addr{}) {
		b = appendQuoted(append(b, `,"last":`...), e.Last.AppendTo)
	}
	if e.Holder != nil {
		b = e.Holder.AppendJSON(append(b, `,"holder":`...))
	}
	b = appendMember(b, `,"from":`, e.From)
	b = appendMember(b, `,"to":`, e.To)
	b = appendMember(b, `,"peer":`, e.Peer)
	return append(b, '}'), nil
}

// AppendJSON appends the holder as [Event.AppendJSON] does.
func (h *Holder) AppendJSON(b []byte) []byte {
	b = appendString(append(b, `{"kind":`...), h.Kind)
	b = appendMember(b, `,"container":`, h.Container)
	b = appendMember(b, `,"name":`, h.Name)
	b = appendMember(b, `,"mac":`, h.MAC)
	return append(appendTime(append(b, `,"since":`...), h.Since), '}')
}

// appendMember appends a member that is left out when it is empty.
func appendMember(b []byte, key, s string) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, key...), s)
}

// hasForm reports whether JSON, that is RFC 3339, has a form for a time.
func hasForm(t time.Time) bool {
	const day = 24 * 60 * 60
	_, offset := t.Zone()
	return t.Year() >= 0 && t.Year() <= 9999 && -day < offset && offset < day
}

func appendTime(b []byte, t time.Time) []byte {
	return append(t.AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
}

// appendQuoted appends what write does as a string.
func appendQuoted(b []byte, write func([]byte) []byte) []byte {
	from := len(b) + 1
	b = write(append(b, '"'))
	if slices.ContainsFunc(b[from:], special) {
		return appendString(b[:from-1], string(b[from:]))
	}
	return append(b, '"')
}

// appendString appends a string as JSON. Nearly all have nothing to be escaped.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if special(s[i]) {
			text, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings have no error
			}
			return append(b, text...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}

// special reports whether a byte is not simply itself in a JSON string.
func special(c byte) bool {
	return c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&'
}
