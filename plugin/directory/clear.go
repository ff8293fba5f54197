package directory

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

const (
	// clearAgain is how often a peer is asked again that has not removed its keys.
	clearAgain = 500 * time.Millisecond
	// clearTime is how long it is waited for that.
	clearTime = 5 * time.Second
	// maxClears is how many clears wait at most, and how many of a peer are told
	// apart.
	maxClears = 16
)

// Removed is what came of [Directory.Remove].
type Removed struct {
	Keys   int      // that were there
	Silent []string // IDs of peers that have not removed theirs
}

// Remove has every peer remove a key, or with below all keys that begin with it,
// and set again what it holds. Foreign keys stay. It returns when all peers have done
// the former, or after 5 seconds.
func (d *Directory) Remove(ctx context.Context, key string, below bool) (out Removed) {
	c := replica.Clear{Serial: rand.Uint64(), Key: key, Below: below}
	waits := map[peer.ID]bool{} // a set
	reader := d.Watch(d.Last())
	d.mu.Lock()
	for text, id := range d.replica.Keys("", time.Now()) {
		if c.Meets(string(text)) && id != replica.Foreign {
			out.Keys++
			if id != d.cfg.Self.ID && id != peer.None {
				waits[id] = true
			}
		}
	}
	cluster := d.cluster
	d.mu.Unlock()
	d.clear(c)
	ctx, cancel := context.WithTimeout(ctx, clearTime)
	defer cancel()
	for first := true; ; first = false {
		for id := range waits {
			d.send(cluster, id, c)
		}
		if carrier := d.carrier.Load(); first && carrier != nil {
			for _, id := range carrier.Living() { // of the others only what is agreed goes
				if !waits[id] {
					d.send(cluster, id, c)
				}
			}
		}
		again, stop := context.WithTimeout(ctx, clearAgain)
		for again.Err() == nil && len(waits) > 0 {
			list, _, err := reader.Next(again)
			for _, e := range list {
				if c.Meets(e.Key) {
					delete(waits, e.Origin)
				}
			}
			if err != nil && len(list) == 0 && again.Err() == nil { // a gap: they are asked again
				break
			}
		}
		stop()
		if ctx.Err() != nil || len(waits) == 0 {
			break
		}
	}
	for id := range waits {
		out.Silent = append(out.Silent, id.String())
	}
	slices.Sort(out.Silent)
	return out
}

// mayClear judges a clear of another peer, as [Directory.may], and reports whether
// it is new.
func (d *Directory) mayClear(f *wire.Frame, c replica.Clear) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.may(f) || slices.Contains(d.clears[f.From], c.Serial) {
		return false
	}
	if _, known := d.clears[f.From]; !known && len(d.clears) >= replica.MaxOrigins {
		clear(d.clears)
	}
	seen := append(d.clears[f.From], c.Serial)
	d.clears[f.From] = seen[max(len(seen)-maxClears, 0):]
	return true
}

// clear removes keys of this peer's, and what it shows as agreed, and has the
// publisher set again what is to be there.
func (d *Directory) clear(c replica.Clear) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, key := range d.replica.Own("") {
		if c.Meets(key) {
			d.replica.Remove(key)
		}
	}
	for _, key := range d.replica.Agreed("") {
		if c.Meets(key) {
			d.replica.RemoveAgreed(key)
		}
	}
	d.settle()
	if len(d.cleared) < maxClears { // what is set again is everything
		d.cleared = append(d.cleared, c)
	}
	if d.rouse != nil {
		d.rouse()
	}
}

// again notes that keys were removed which are to be set again.
func (p *publisher) again() {
	p.mu.Lock()
	list := p.cleared
	p.cleared = nil
	p.mu.Unlock()
	if len(list) == 0 {
		return
	}
	p.all, p.compared, p.beat = true, time.Time{}, time.Time{}
	p.shown, p.showAll = nil, true
	p.drop(ServiceKeys(p.cfg.Cluster), p.services.serves)
	p.drop(p.uses, p.services.uses)
	p.services.anew()
}

// drop removes the keys of this peer with a prefix that are not to be there.
func (p *publisher) drop(prefix string, wanted func(key string) bool) {
	p.mu.Lock()
	own := p.replica.Own(prefix)
	p.mu.Unlock()
	own = slices.DeleteFunc(own, wanted)
	p.write(own, make([][]byte, len(own)))
}

// rest names what ends the publisher's wait, nil if it does not wait; false if
// there is no time for one.
func (p *publisher) rest(rouse context.CancelFunc) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rouse = rouse
	return len(p.cleared) == 0 && p.agreement.version == p.identities
}
