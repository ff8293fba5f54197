package directory

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
	"github.com/ringlet/ringlet/plugin/events"
)

// Item is one key as one peer has set it.
type Item struct {
	Key         string          `json:"key"`
	Value       json.RawMessage `json:"value"`
	Owner       string          `json:"owner"`              // ID of the peer; agreed: each knows it by itself; foreign: of another cluster
	ConfirmedAt time.Time       `json:"confirmed,omitzero"` // when the owner last renewed its lease, by this peer's clock
}

// Owners that are no peers of the cluster.
const (
	Agreed  = "agreed"  // of what no one peer says
	Foreign = "foreign" // of what another cluster says, see [Directory.SetForeign]
)

// ownerOf names the peer that has set a key.
func ownerOf(id peer.ID) string {
	switch id {
	case peer.None:
		return Agreed
	case replica.Foreign:
		return Foreign
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
		out = append(out, Item{Key: r.Key, Value: shown(r.Value), Owner: ownerOf(r.Origin), ConfirmedAt: r.Heard.UTC()})
	}
	return out
}

// Get returns a key, from each peer that has set it, of which there is rarely
// more than one.
func (d *Directory) Get(key string) []Item {
	d.mu.Lock()
	records := d.replica.Get(key, time.Now())
	d.mu.Unlock()
	return items(records)
}

// List returns the keys with a prefix that come after one, in order: so many at
// most, no further one once their values have so many bytes, and reports whether
// there are more.
func (d *Directory) List(prefix, after string, limit, bytes int) (list []Item, more bool) {
	d.mu.Lock()
	records, more := d.replica.List(prefix, after, limit, bytes, time.Now())
	d.mu.Unlock()
	return items(records), more
}

// Cluster is the cluster's label, as it stands in keys.
func (d *Directory) Cluster() string { return d.cfg.Cluster }

// Holding is what some peer says of an address.
type Holding struct {
	Address
	IP          netip.Addr
	Owner       string    // ID of the peer that says so
	ConfirmedAt time.Time // when that peer was last known to hold to it
}

// Holdings returns who has an address, as each peer says.
func (d *Directory) Holdings(a netip.Addr) []Holding {
	var out []Holding
	for _, item := range d.Get(AddressKeys(d.cfg.Cluster) + a.String()) {
		if h := (Holding{IP: a, Owner: item.Owner, ConfirmedAt: item.ConfirmedAt}); json.Unmarshal(item.Value, &h.Address) == nil {
			out = append(out, h)
		}
	}
	return out
}

// Place is an address that a peer says it has. All places of a large cluster take
// a fraction of what is said of them.
type Place struct {
	IP    netip.Addr
	Owner string // ID of the peer
}

// Places returns the addresses that peers say they have, in order: of the peers, by
// ID, that are wanted, which is asked once for each.
func (d *Directory) Places(wanted func(owner string) bool) []Place {
	prefix := AddressKeys(d.cfg.Cluster)
	var out []Place
	texts := map[peer.ID]string{} // empty: not wanted
	d.mu.Lock()
	for key, id := range d.replica.Keys(prefix, time.Now()) {
		owner, known := texts[id]
		if !known {
			if owner = ownerOf(id); !wanted(owner) {
				owner = ""
			}
			texts[id] = owner
		}
		if owner == "" {
			continue
		}
		if ip, err := netip.ParseAddr(string(key[len(prefix):])); err == nil {
			out = append(out, Place{ip, owner})
		}
	}
	d.mu.Unlock()
	slices.SortFunc(out, func(a, b Place) int { return cmp.Or(a.IP.Compare(b.IP), strings.Compare(a.Owner, b.Owner)) })
	return out
}

// Said returns what the peers at some places say now, in the same order. What is
// no longer said is left out.
func (d *Directory) Said(places []Place) []Holding {
	prefix := AddressKeys(d.cfg.Cluster)
	records := make([]replica.Record, 0, len(places))
	out := make([]Holding, 0, len(places))
	d.mu.Lock()
	for _, p := range places {
		id, err := peer.Parse(p.Owner)
		if err != nil {
			continue
		}
		if r, ok := d.replica.Of(id, prefix+p.IP.String(), time.Now()); ok {
			records = append(records, r)
			out = append(out, Holding{IP: p.IP, Owner: p.Owner, ConfirmedAt: r.Heard.UTC()})
		}
	}
	d.mu.Unlock()
	kept := out[:0]
	for i := range out {
		if json.Unmarshal(records[i].Value, &out[i].Address) == nil {
			kept = append(kept, out[i])
		}
	}
	return kept
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
