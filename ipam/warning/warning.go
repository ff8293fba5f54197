package warning

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
)

// Bucket is where the database has the warnings: under each address the peer that warns of it.
const Bucket = "warning"

const (
	// Every is how often a peer repeats its warning.
	Every = time.Minute
	// heeded is for how long a warning counts.
	heeded = 10 * time.Minute
	// mostBy and mostOfAll limit of how many addresses one peer can warn, and all together: a host has far fewer
	// containers.
	mostBy    = 4096
	mostOfAll = 16384

	formatWarning = 1
)

// warning says that an address is in use on the host of a peer that does not own it.
type warning struct {
	by    peer.ID
	until time.Time
}

// Warnings are the warnings that count. Use [New].
type Warnings struct {
	out  *effect.Writer
	of   map[netip.Addr]warning
	by   map[peer.ID]int // how many of them each peer has given
	next time.Time       // when to look whether one is over; zero: there is none
	sent time.Time       // when this peer last warned the others
}

// New returns warnings of nothing.
func New(out *effect.Writer) *Warnings {
	return &Warnings{out: out, of: map[netip.Addr]warning{}, by: map[peer.ID]int{}}
}

// Restore takes in a record of [Bucket]. [Warnings.Extend] is to follow, in the first step.
func (w *Warnings) Restore(key, value []byte) error {
	a, ok := netip.AddrFromSlice(key)
	r := codec.NewReader(value)
	r.Format(formatWarning, "a warning")
	if !ok {
		r.Fail("address of a warning")
	}
	by := peer.ID(r.ID("peer that warns"))
	if err := r.Done(); err != nil {
		return fmt.Errorf("address %v: %w", a, err)
	}
	w.put(a, by)
	return nil
}

func (w *Warnings) put(a netip.Addr, by peer.ID) {
	if old, known := w.of[a]; known {
		w.by[old.by]--
	}
	w.of[a] = warning{by: by}
	w.by[by]++
}

// Take takes in, also on disk, that a peer warns of an address. own is this peer, whose warnings have no limit. heeds is
// false where the peer warns of too many, and news where it did not warn of this one before.
func (w *Warnings) Take(a netip.Addr, by, own peer.ID) (heeds, news bool) {
	old, known := w.of[a]
	if !known && by != own && (len(w.of) >= mostOfAll || w.by[by] >= mostBy) {
		return false, false
	}
	if news = !known || old.by != by; news {
		w.put(a, by)
		w.out.Put(Bucket, string(a.AsSlice()), append([]byte{formatWarning}, by[:]...))
	}
	w.keep(a, w.out.Now().Add(heeded))
	return true, news
}

// keep heeds a warning up to then.
func (w *Warnings) keep(a netip.Addr, until time.Time) {
	v := w.of[a]
	v.until = until
	w.of[a] = v
	if w.next.IsZero() || until.Before(w.next) {
		w.next = until
	}
}

// Extend heeds all warnings for the full time from now on, after a start.
func (w *Warnings) Extend() {
	for a := range w.of { // the same with all, in any order
		w.keep(a, w.out.Now().Add(heeded))
	}
}

// ExtendBy heeds those of one peer for the full time from now on.
func (w *Warnings) ExtendBy(by peer.ID) {
	for a, v := range w.of { // the same with all, in any order
		if v.by == by {
			w.keep(a, w.out.Now().Add(heeded))
		}
	}
}

// Sleep heeds all warnings for as much longer as this peer has slept: it did not hear the peer that repeats them.
func (w *Warnings) Sleep(slept time.Duration) {
	w.next = time.Time{}
	for a, v := range w.of { // the same with all, in any order
		w.keep(a, v.until.Add(slept))
	}
}

// AnyOver reports whether it is time to look for warnings that nobody has repeated.
func (w *Warnings) AnyOver() bool { return !w.next.IsZero() && !w.out.Now().Before(w.next) }

// Over returns the addresses of the warnings that nobody has repeated, in order: each is to be ended. One that lasts is
// heeded for the full time once more.
func (w *Warnings) Over(lasts func(a netip.Addr, by peer.ID) bool) []netip.Addr {
	now := w.out.Now()
	w.next = time.Time{}
	return w.which(func(a netip.Addr, v warning) bool {
		switch {
		case now.Before(v.until):
			w.keep(a, v.until)
		case lasts(a, v.by):
			w.keep(a, now.Add(heeded))
		default:
			return true
		}
		return false
	})
}

// Missing returns the addresses of which a peer has warned, and which it does not repeat, in order: each is to be ended.
func (w *Warnings) Missing(by peer.ID, still []netip.Addr) []netip.Addr {
	if w.by[by] == 0 {
		return nil
	}
	return w.which(func(a netip.Addr, v warning) bool { return v.by == by && !slices.Contains(still, a) })
}

// End ends the warning of an address, also on disk. It reports whether there was one.
func (w *Warnings) End(a netip.Addr) bool {
	v, known := w.of[a]
	if !known {
		return false
	}
	delete(w.of, a)
	if w.by[v.by]--; w.by[v.by] == 0 {
		delete(w.by, v.by)
	}
	w.out.Delete(Bucket, string(a.AsSlice()))
	return true
}

// By returns the peer that warns of an address, and whether one does.
func (w *Warnings) By(a netip.Addr) (peer.ID, bool) {
	v, warned := w.of[a]
	return v.by, warned
}

// IsEmpty reports whether nobody warns of anything, as nearly always.
func (w *Warnings) IsEmpty() bool { return len(w.of) == 0 }

// Count returns of how many addresses a peer warns.
func (w *Warnings) Count(by peer.ID) int {
	if w.IsEmpty() {
		return 0 // mostly, and this is asked in each step
	}
	return w.by[by]
}

// Of returns the addresses of which a peer warns, in order.
func (w *Warnings) Of(by peer.ID) []netip.Addr {
	return w.which(func(_ netip.Addr, v warning) bool { return v.by == by })
}

// Which returns those of the addresses that are such, in order.
func (w *Warnings) Which(such func(netip.Addr) bool) []netip.Addr {
	return w.which(func(a netip.Addr, _ warning) bool { return such(a) })
}

func (w *Warnings) which(such func(netip.Addr, warning) bool) (out []netip.Addr) {
	for a, v := range w.of {
		if such(a, v) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// IsDue reports whether this peer, if it has to warn the others, is to do so now.
func (w *Warnings) IsDue() bool { return w.out.Passed(Every, w.sent) }

// Sent takes note that this peer has warned all others.
func (w *Warnings) Sent() { w.sent = w.out.Now() }

// SendAgain has this peer warn the others at once.
func (w *Warnings) SendAgain() { w.sent = time.Time{} }

// Wake asks to be stepped when a warning may be over, and if this peer warns others, when it does so next.
func (w *Warnings) Wake(warns bool) {
	if !w.next.IsZero() {
		w.out.WakeAt(w.next)
	}
	if warns {
		w.out.WakeAt(w.sent.Add(Every))
	}
}
