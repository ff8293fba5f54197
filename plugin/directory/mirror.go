package directory

import (
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

// Of names the cluster of this directory: by its label, and by its ID in
// hexadecimal digits, which is empty as long as this peer belongs to none.
func (d *Directory) Of() (label, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cluster != ([16]byte{}) {
		id = peer.ID(d.cluster).String()
	}
	return d.cfg.Cluster, id
}

// Voice reports whether this peer keeps outside what is agreed: it is the first
// voter that can be reached, as with the heartbeat.
func (d *Directory) Voice() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.voice
}

// Outside returns the key outside that stands for a key of the directory. Outside,
// a key has one value, so each peer has a key of its own for its part of a service.
func (d *Directory) Outside(key string) string {
	if strings.HasPrefix(key, ServiceKeys(d.cfg.Cluster)) {
		return key + "/" + string(d.cfg.Self.Name)
	}
	return key
}

// Mirrored returns the value that this peer has to keep at a key outside; nil if
// it has none to keep there. If several peers have set the key, the one with the
// lowest ID keeps its value. The heartbeat is the voice's to keep: a dead voice is
// shown until its lease ends, and its last heartbeat is not to stand for the next
// one's. Others reports that it is another peer's to keep.
func (d *Directory) Mirrored(outside string) (value []byte, others bool) {
	key, service := outside, strings.HasPrefix(outside, ServiceKeys(d.cfg.Cluster))
	if service {
		var its bool
		if key, its = strings.CutSuffix(outside, "/"+string(d.cfg.Self.Name)); !its {
			return nil, false
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	beats := d.voice && key == HeartKey(d.cfg.Cluster)
	for _, r := range d.replica.Get(key, time.Now()) { // what is agreed first, then in the order of the peers
		switch own := r.Origin == d.cfg.Self.ID; {
		case own, r.Origin == peer.None && d.voice:
			return r.Value, false
		case r.Origin == replica.Foreign, service, beats:
		default:
			return nil, true
		}
	}
	return nil, false
}

// Mirror returns the keys outside that may be this peer's to keep; see
// [Directory.Mirrored].
func (d *Directory) Mirror() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := d.replica.Own("")
	if d.voice {
		keys = append(keys, d.replica.Agreed("")...)
	}
	for i := range keys {
		keys[i] = d.Outside(keys[i])
	}
	return keys
}

// SetForeign shows a key of another cluster, which is not sent to other peers, or
// removes it if the value is nil. It reports whether there was room.
func (d *Directory) SetForeign(key string, value []byte) (ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if value == nil {
		d.replica.RemoveForeign(key)
		ok = true
	} else {
		ok = d.replica.SetForeign(key, value)
	}
	d.settle()
	return ok
}

// ForeignKeys returns the keys of other clusters that are shown, in order.
func (d *Directory) ForeignKeys() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.replica.ForeignKeys()
}
