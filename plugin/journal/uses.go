package journal

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"sync"

	"github.com/ringlet/ringlet/internal/packed"
	"github.com/ringlet/ringlet/plugin/events"
)

// use is an address in use.
type use struct {
	Pool netip.Prefix `json:"pool"`
	events.Holder
}

// uses are the addresses in use, as a journal tells. The zero value has none. They
// are kept packed, by the text of the address: the holders' texts are several times
// as much one by one. They are safe for concurrent use, and must not be copied.
type uses struct {
	mu      sync.Mutex
	log     packed.Log
	changes uint64
	text    []byte // kept for its memory
	other   []byte
}

// applyAll takes in what records say, which are on disk: of what is no longer in
// use a record can be read.
func (u *uses) applyAll(records []record) {
	for i := range records {
		u.apply(&records[i])
	}
}

// apply takes in what a record says.
func (u *uses) apply(r *record) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch r.Kind {
	case events.Granted, events.Described, events.Stranger:
		if r.Holder != nil {
			u.text = appendUse(u.text[:0], r.Pool, *r.Holder)
			u.put(r.Address.String(), u.text)
		}
	case events.Freed, events.Withdrawn:
		if key := r.Address.String(); u.log.Has(key) {
			u.put(key, nil)
		}
	case events.PoolRemoved:
		var gone []string
		u.text = appendPool(u.text[:0], r.Pool)
		for e := range u.log.Current(0) {
			if u.other = e.AppendValue(u.other[:0]); bytes.HasPrefix(u.other, u.text) {
				gone = append(gone, e.Key())
			}
		}
		for _, key := range gone {
			u.put(key, nil)
		}
	}
}

// spare is how many changes are kept beside those that count, at least.
const spare = 1000

// put sets what is known of an address, or removes it if value is nil. u.mu is held.
func (u *uses) put(key string, value []byte) {
	u.changes++
	u.log.Put(u.changes, key, value)
	if u.log.Len() > 2*(u.log.Live()+spare) {
		u.log.Compact(0)
	}
}

// has reports whether an address has that holder, as far as both are known.
func (u *uses) has(a netip.Addr, h events.Holder) (ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.text, ok = u.log.AppendValue(u.text[:0], a.String()); !ok {
		return false
	}
	u.other = appendUse(u.other[:0], netip.Prefix{}, h)
	was, wasSince := known(u.text)
	is, isSince := known(u.other)
	return bytes.Equal(was, is) && bytes.Equal(wasSince, isSince)
}

// known returns what lies before the MAC of a use and behind it, without the pool.
func known(text []byte) (before, after []byte) {
	text = text[max(bytes.Index(text, []byte(`"kind":`)), 0):]
	before, after, there := bytes.Cut(text, []byte(`,"mac":"`)) // in a text its quotes would be escaped
	if there {
		after = after[bytes.IndexByte(after, '"')+1:]
		return before, after
	}
	at := max(bytes.LastIndex(text, []byte(`,"since":"`)), 0)
	return text[:at], text[at:]
}

// use returns what is known of an address, and whether it is in use.
func (u *uses) use(a netip.Addr) (out use, ok bool) {
	u.mu.Lock()
	text := u.log.Get(a.String())
	u.mu.Unlock()
	ok = json.Unmarshal(text, &out) == nil // what is there was written here
	return out, ok
}

// addresses returns the addresses in use, in order.
func (u *uses) addresses() (out []netip.Addr) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for e := range u.log.Current(0) {
		if a, err := netip.ParseAddr(e.Key()); err == nil {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// appendUse appends a use as JSON, as packed knows it, or nothing if its time has no form in JSON: no line has such a time.
func appendUse(b []byte, pool netip.Prefix, h events.Holder) []byte {
	h.Since = h.Since.UTC()
	text, _ := json.Marshal(use{pool, h})
	return append(b, text...)
}

func appendPool(b []byte, pool netip.Prefix) []byte {
	b = append(b, `{"pool":"`...)
	if pool.IsValid() {
		b = pool.AppendTo(b)
	}
	return append(b, '"')
}
