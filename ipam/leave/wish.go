package leave

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
)

// The keys of the records.
const (
	bucketIdentity = "identity"

	KeyLeft    = "left"    // this peer is to leave, or has left, as an operator wishes
	KeyDrained = "drained" // it was draining when it was evicted, and goes on with that

	formatWish = 1
)

// Wish is the wish of an operator that this peer leaves its cluster, or gives up its space. Use [New].
type Wish struct {
	out     *effect.Writer
	leaving bool
	forced  bool // it leaves although something is held here
	left    bool
	drained bool // it was draining when it was evicted, and goes on with that once it is back
}

// New returns that of nobody.
func New(out *effect.Writer) *Wish { return &Wish{out: out} }

// Restore takes in a record under [KeyLeft] or [KeyDrained].
func (w *Wish) Restore(key string, value []byte) error {
	r := codec.NewReader(value)
	r.Format(formatWish, "a wish to leave or drain")
	if key == KeyDrained {
		w.drained = true
		return r.Done()
	}
	w.leaving, w.left, w.forced = true, r.Bool("left"), r.Bool("forced")
	return r.Done()
}

func (w *Wish) save() {
	if !w.leaving && !w.left {
		w.out.Delete(bucketIdentity, KeyLeft)
		return
	}
	w.out.Put(bucketIdentity, KeyLeft, codec.Bool(codec.Bool([]byte{formatWish}, w.left), w.forced))
}

// Leave has this peer leave, by force although something is held here.
func (w *Wish) Leave(forced bool) {
	w.leaving, w.forced = true, forced
	w.save()
}

// Stay ends the wish that this peer leaves.
func (w *Wish) Stay() {
	w.leaving, w.forced = false, false
	w.save()
}

// Return has a peer that has left be in its cluster again, as one that recovers it: there is nobody whom it would leave.
func (w *Wish) Return() {
	w.left = false
	w.Stay()
}

// IsLeaving reports whether this peer is to leave, or has left.
func (w *Wish) IsLeaving() bool { return w.leaving }

// IsForced reports whether this peer leaves although something is held here.
func (w *Wish) IsForced() bool { return w.forced }

// HasLeft reports whether this peer has left its cluster.
func (w *Wish) HasLeft() bool { return w.left }

// Drained reports whether this peer is to give up its space once it is admitted again.
func (w *Wish) Drained() bool { return w.drained }

// SetDrained sets, and writes down, whether this peer drains on once it is admitted again: its process may end between
// the two.
func (w *Wish) SetDrained(drained bool) {
	if drained == w.drained {
		return
	}
	w.drained = drained
	if !drained {
		w.out.Delete(bucketIdentity, KeyDrained)
		return
	}
	w.out.Put(bucketIdentity, KeyDrained, []byte{formatWish})
}

// TakeDismissal takes in that this peer is not in the roster any more. It reports whether the peer has left as it was to.
// One that was evicted while it still owned space, or had said that it uses a pool, comes back to give it up.
func (w *Wish) TakeDismissal(v cluster.View) bool {
	if !w.leaving || !w.forced && hasAnything(v) {
		return false
	}
	w.left = true
	w.save()
	return true
}

func hasAnything(v cluster.View) bool {
	return v.State.OwnedBy(v.Self) > 0 || slices.ContainsFunc(v.State.Pools, func(p *chronicle.Pool) bool { return p.UsedBy(v.Self) })
}

// Next returns the command that brings this peer out of the roster next: by force at once, else when it owns nothing.
// draining says that it is giving up its space.
func (w *Wish) Next(v cluster.View, draining bool) []chronicle.Action {
	switch {
	case !w.leaving:
	case v.Alone():
		w.Stay() // there is nobody to leave
	case w.forced:
		return []chronicle.Action{chronicle.Evict{Peer: v.Self}}
	case !draining:
		return v.State.Drain(v.Self, true) // nothing is in use here that others would have to take
	case !hasAnything(v):
		return []chronicle.Action{chronicle.Retire{Peer: v.Self}}
	}
	return nil
}

// Grow returns the command that makes a peer active which was admitted and has space. One that was draining before it was
// evicted drains on: nobody has undone that.
func (w *Wish) Grow(v cluster.View) []chronicle.Action {
	switch {
	case v.State.Member(v.Self).Phase != chronicle.Filling:
		w.SetDrained(false)
		return nil
	case w.drained:
		return v.State.Drain(v.Self, true)
	case v.State.OwnedBy(v.Self) == 0:
		return nil
	}
	return []chronicle.Action{chronicle.SetState{Peer: v.Self, Phase: chronicle.Active}}
}
