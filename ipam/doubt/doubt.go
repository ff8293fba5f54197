package doubt

import (
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
)

// lasts is how long an address is in doubt. The engine waits for the network driver as long as that takes.
const lasts = 10 * time.Minute

// doubt is what the peer knows of an address in doubt.
type doubt struct {
	since time.Time // the last holder ended without a release
	// released numbers a release that may have been the present holder's; 0 if none came. A list that was begun later tells.
	released uint64
}

// Doubts are the addresses in doubt, also on disk. Use [New].
type Doubts struct {
	out    *effect.Writer
	engine *engine.Engine

	at   map[netip.Addr]doubt
	lost time.Time // when a list last showed what an earlier database of this host must have known; zero: none did lately
}

// New returns none.
func New(out *effect.Writer, e *engine.Engine) *Doubts {
	return &Doubts{out: out, engine: e, at: map[netip.Addr]doubt{}}
}

// Add notes that the holder of an address ends without a release. Where no lists come nothing could tell later whose release
// came: each is believed.
func (d *Doubts) Add(a netip.Addr) {
	if d.engine.Lists() {
		d.set(a, d.out.Now())
	}
}

func (d *Doubts) set(a netip.Addr, since time.Time) {
	d.at[a] = doubt{since: since}
	d.save(a, since)
}

// TakeLoss notes that a list shows what an earlier database of this host must have known: containers that this one knew may
// end yet.
func (d *Doubts) TakeLoss() {
	if now := d.out.Now(); !d.lost.Equal(now) {
		d.lost = now
		d.saveLoss()
	}
}

// HasLoss reports whether there was such a loss, as far as is known.
func (d *Doubts) HasLoss() bool { return !d.lost.IsZero() }

// Any reports whether releases may come late. The peer looks at the clock each second then, to notice that it slept.
func (d *Doubts) Any() bool { return len(d.at) > 0 || d.HasLoss() }

// Grant notes that an address is granted. If that is soon after a database was lost, the lost one may have had a holder of it
// whose release is yet to come.
func (d *Doubts) Grant(a netip.Addr) {
	if !d.HasLoss() || !d.isRecent(d.lost) {
		return // mostly, and this is called for each grant
	}
	if _, known := d.at[a]; !known {
		d.set(a, d.lost)
	}
}

// isRecent reports whether a late release may still come of a holder that ended then.
func (d *Doubts) isRecent(at time.Time) bool { return d.out.Now().Sub(d.engine.SureSince(at)) < lasts }

// Has reports whether an address is in doubt.
func (d *Doubts) Has(a netip.Addr) bool {
	at, known := d.at[a]
	return known && d.isRecent(at.since)
}

// TakeRelease notes a release that may be the present holder's, and that frees nothing.
func (d *Doubts) TakeRelease(a netip.Addr) {
	at := d.at[a]
	at.released = d.engine.Stamp()
	d.at[a] = at
}

// MayBeReleased reports whether such a release has come. A list tells.
func (d *Doubts) MayBeReleased(a netip.Addr) bool {
	return len(d.at) > 0 && d.at[a].released > 0 && d.engine.WillList()
}

// TakeHolder notes that the address has another holder, whose release has not come.
func (d *Doubts) TakeHolder(a netip.Addr) {
	if len(d.at) == 0 {
		return
	}
	if at, known := d.at[a]; known {
		at.released = 0
		d.at[a] = at
	}
}

// Resolve has the caller free what a list tells to be released, in order, and forgets the doubts that are over. judge says
// whether the list lacks the holder of an address, and whether it may be freed by that.
func (d *Doubts) Resolve(list engine.Mark, judge func(netip.Addr) (absent, frees bool), free func(netip.Addr)) {
	var over, gone []netip.Addr
	for a, at := range d.at {
		if at.released > 0 && list.Knows(at.released) {
			absent, frees := judge(a)
			if frees {
				gone = append(gone, a)
				continue
			}
			if !absent {
				at.released = 0
				d.at[a] = at
			}
		}
		if at.released == 0 && !d.isRecent(at.since) {
			over = append(over, a)
		}
	}
	slices.SortFunc(gone, netip.Addr.Compare)
	for _, a := range gone {
		free(a)
	}
	if d.HasLoss() && !d.isRecent(d.lost) {
		d.lost = time.Time{}
		d.saveLoss()
	}
	slices.SortFunc(over, netip.Addr.Compare)
	for _, a := range over {
		delete(d.at, a)
		d.save(a, time.Time{})
	}
}
