package directory

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// Item is one key as one peer has set it.
type Item struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value"`
	Owner string          `json:"owner"`         // ID of the peer; agreed, if each knows it by itself
	Told  time.Time       `json:"told,omitzero"` // when the owner last renewed its lease, by this peer's clock
}

// Agreed is the owner of what no one peer says.
const Agreed = "agreed"

// ownerOf names the peer that has set a key.
func ownerOf(id peer.ID) string {
	if id == peer.None {
		return Agreed
	}
	return id.String()
}

// shown returns a value as JSON. Others should only write that, and one that
// does not harms nobody.
func shown(value []byte) json.RawMessage {
	if value == nil || json.Valid(value) {
		return value
	}
	return encode(string(value))
}

func items(list []replica.Record) []Item {
	out := []Item{}
	for _, r := range list {
		out = append(out, Item{Key: r.Key, Value: shown(r.Value), Owner: ownerOf(r.Origin), Told: r.Heard.UTC()})
	}
	return out
}

// Get returns a key, from each peer that has set it, of which there is rarely
// more than one.
func (d *Directory) Get(key string) []Item {
	d.mu.Lock()
	defer d.mu.Unlock()
	return items(d.replica.Get(key, time.Now()))
}

// List returns the keys with a prefix that come after one, in order: so many at
// most, and reports whether there are more.
func (d *Directory) List(prefix, after string, limit int) (list []Item, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	records, more := d.replica.List(prefix, after, limit, time.Now())
	return items(records), more
}

// Cluster is the cluster's label, as it stands in keys.
func (d *Directory) Cluster() string { return d.cfg.Cluster }

// Holding is what some peer says of an address.
type Holding struct {
	Address
	IP    netip.Addr
	Owner string    // ID of the peer that says so
	Told  time.Time // when that peer was last known to hold to it
}

// Holdings returns who has an address, or all if it is the zero one.
func (d *Directory) Holdings(a netip.Addr) []Holding {
	prefix := AddressKeys(d.cfg.Cluster)
	var list []Item
	if a.IsValid() {
		list = d.Get(prefix + a.String())
	} else {
		list, _ = d.List(prefix, "", replica.MaxRecords)
	}
	var out []Holding
	for _, item := range list {
		h := Holding{Owner: item.Owner, Told: item.Told}
		var err error
		if h.IP, err = netip.ParseAddr(item.Key[len(prefix):]); err != nil {
			continue
		}
		if json.Unmarshal(item.Value, &h.Address) == nil {
			out = append(out, h)
		}
	}
	return out
}

// Change is that a key was set, or removed if it has no value.
type Change struct {
	Key   string          `json:"key"`
	Value json.RawMessage `json:"value,omitempty"`
	Owner string          `json:"owner"`
}

// Changes reads changes of keys in order. It is not safe for concurrent use.
type Changes = events.RingReader[replica.Event]

// Watch returns a reader of the changes that came after an ID; what of it is
// kept no more is a gap, as with events.
func (d *Directory) Watch(after events.ID) *Changes { return d.watched.Read(after) }

// Last is the ID of the last change.
func (d *Directory) Last() events.ID { return d.watched.Last() }

// ChangeOf shows a change.
func ChangeOf(e replica.Event) Change {
	return Change{Key: e.Key, Value: shown(e.Value), Owner: ownerOf(e.Origin)}
}
