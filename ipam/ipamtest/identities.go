package ipamtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/peer"
)

// identities is what has become of label sets in the cluster that is, and in those that it was recovered from.
type identities struct {
	given map[uint64]string // by number: the set that got it, for good
	live  map[string]uint64 // by set: its number
	last  uint64            // the number that was given last
	wants []string          // what hosts have asked for last
}

// identify has a host ask for numbers of label sets, and has some of these be collected, whether or not anybody needs them.
func (c *cluster) identify() {
	if !c.isUnited() { // two clusters have numbers of their own
		return
	}
	q := &ipam.IdentityRequest{}
	for range 1 + c.rnd.IntN(8) {
		q.Labels = append(q.Labels, fmt.Sprintf("app=%d;tier=%d", c.rnd.IntN(c.w.Identities), c.rnd.IntN(3)))
	}
	ids := &c.oracle.identities
	if ids.wants = q.Labels; ids.last > 0 && c.rnd.IntN(2) == 0 {
		q.Collect = []uint64{ids.last, identity.First + c.rnd.Uint64N(ids.last)} // the highest, and any
		q.Labels = q.Labels[:c.rnd.IntN(len(q.Labels))]                          // often none
	}
	one(c.rnd, c.sites...).call(q, nil)
}

// identified compares what an action did to label sets with all that was done before (R68 to R70).
func (o *oracle) identified(out chronicle.Outcome) {
	ids := &o.identities
	switch a := out.Command.Action.(type) {
	case chronicle.Identify:
		if before, twice := ids.given[out.Identity]; twice {
			o.c.fail("I9", "number %d is given to %s, and %s had it before", out.Identity, a.Labels, before)
		}
		if n := ids.live[a.Labels]; n != 0 {
			o.c.fail("I9", "%s gets number %d, and has %d", a.Labels, out.Identity, n)
		}
		ids.given[out.Identity], ids.live[a.Labels], ids.last = a.Labels, out.Identity, out.Identity
	case chronicle.Collect:
		for _, n := range a.Numbers {
			if text := ids.given[n]; ids.live[text] == n {
				delete(ids.live, text)
			}
		}
	}
}

// identifiedAgain follows a recovery: what the survivor did not know is undone, and no number of it comes again.
func (o *oracle) identifiedAgain(state *chronicle.State) {
	ids := &o.identities
	clear(ids.live)
	for _, s := range state.Identities.Sets {
		if before, known := ids.given[s.Number]; known && before != s.Text {
			o.c.fail("I9", "number %d is of %s since the recovery, and was of %s", s.Number, s.Text, before)
		}
		ids.live[s.Text], ids.given[s.Number] = s.Number, s.Text
	}
}

// identifyAll has every host ask for the same sets, now that all is quiet: they get a number each, on all hosts the same.
func (c *cluster) identifyAll() {
	texts := c.oracle.identities.wants
	if len(texts) == 0 {
		return
	}
	for s := range c.members() {
		if r := c.ask(s, &ipam.IdentityRequest{Labels: texts}); r.Err != nil {
			c.fail("refused", "%s has no identities for %v: %v", s, texts, r.Err)
		}
		c.wait(time.Minute, c.agreed)
	}
	var first map[string]uint64
	for s := range c.members() {
		known := map[string]uint64{}
		for _, set := range s.machine.Identities().Sets {
			known[set.Text] = set.Number
		}
		if first == nil {
			first = known
		}
		if !maps.Equal(first, known) || !maps.Equal(known, c.oracle.identities.live) {
			c.fail("I9", "%s knows %d label sets, another host %d, and %d have a number", s, len(known), len(first), len(c.oracle.identities.live))
		}
		if i := slices.IndexFunc(texts, func(text string) bool { return known[text] == 0 }); i >= 0 {
			c.fail("refused", "%s knows no number of %s", s, texts[i])
		}
	}
	c.count["identities"] += len(c.oracle.identities.given)
	c.count["identities alive"] += len(c.oracle.identities.live)
}

// locks is what has become of the locks of the cluster that is, and of those that it was recovered from.
type locks struct {
	last map[string]uint64 // by name: the highest fence that was ever given
	held map[string]lock.Lock
}

// wantLock has a program on a host ask for a lock, hold it for a while, and let it go. A program whose host crashes is gone: what
// it had the host lets go later.
func (c *cluster) wantLock() {
	if !c.isUnited() { // two clusters have locks of their own
		return
	}
	s := one(c.rnd, c.sites...)
	w := lock.Want{Name: fmt.Sprint("lock-", c.rnd.IntN(c.w.Locks)), Holder: s.String(), Token: c.rnd.Uint64() | 1}
	c.script(c.goes, func(t *script) {
		r, ok := t.ask(s, &ipam.LockRequest{Want: w})
		if ok && r.Err == nil {
			c.count["locks taken"]++
		} else {
			t.sleep(25 * time.Second) // it may have the lock all the same
		}
		t.sleep(c.about(10 * time.Second))
		for ; ; t.sleep(10 * time.Second) {
			if s.machine == nil {
				if c.calm {
					return
				}
				continue
			}
			i := slices.IndexFunc(s.machine.Locks(), func(l lock.Lock) bool { return l.Owner == s.id && l.Token == w.Token })
			if i < 0 {
				return
			}
			if r, ok := t.ask(s, &ipam.UnlockRequest{Name: w.Name, Fence: s.machine.Locks()[i].Fence}); ok && r.Err == nil {
				return
			}
		}
	})
}

// locked compares what an action did to locks with all that was done before (R70 to R74).
func (o *oracle) locked(out chronicle.Outcome) {
	ls := &o.locks
	end := func(name string, fence uint64, by peer.ID) {
		l, held := ls.held[name]
		if !held || l.Fence != fence || by != peer.None && l.Owner != by {
			o.c.fail("I10", "%s ends lock %s of %d, which %s has with %d", by.Short(), name, fence, l.Owner.Short(), l.Fence)
		}
		delete(ls.held, name)
	}
	switch a := out.Command.Action.(type) {
	case chronicle.Lock:
		if l, held := ls.held[a.Name]; held {
			o.c.fail("I10", "%s gets lock %s, which %s has", out.Command.Author.Short(), a.Name, l.Owner.Short())
		}
		if out.Fence <= ls.last[a.Name] {
			o.c.fail("I10", "lock %s is given with fence %d, and was with %d", a.Name, out.Fence, ls.last[a.Name])
		}
		ls.last[a.Name], ls.held[a.Name] = out.Fence, lock.Lock{Want: a.Want, Owner: out.Command.Author, Fence: out.Fence}
	case chronicle.Unlock:
		end(a.Name, a.Fence, out.Command.Author)
	case chronicle.Expire:
		end(a.Name, a.Fence, peer.None)
	}
	maps.DeleteFunc(ls.held, func(_ string, l lock.Lock) bool { // the locks of a peer end with it
		switch a := out.Command.Action.(type) {
		case chronicle.Evict:
			return l.Owner == a.Peer
		case chronicle.Retire:
			return l.Owner == a.Peer
		default:
			return false
		}
	})
}

// lockedAgain follows a recovery: what the survivor did not know is undone, and no fence of it comes again.
func (o *oracle) lockedAgain(state *chronicle.State) {
	clear(o.locks.held)
	for _, l := range state.Locks.Locks {
		o.locks.held[l.Name] = l
	}
}

// lockAll has every host get each lock, now that all is quiet: what crashed holders had has ended.
func (c *cluster) lockAll() {
	if c.w.Locks == 0 {
		return
	}
	c.pass(time.Minute) // what programs asked for and wait for no longer is decided by then
	for s := range c.members() {
		for _, l := range s.machine.Locks() { // of programs that are gone
			if l.Owner == s.id {
				c.ask(s, &ipam.UnlockRequest{Name: l.Name, Fence: l.Fence})
			}
		}
	}
	free := func() bool {
		return !slices.ContainsFunc(c.oracle.state.Locks.Locks, func(l lock.Lock) bool { return c.oracle.locks.held[l.Name].Fence != 0 })
	}
	if !c.wait(2*time.Minute, free) {
		c.fail("refused", "lock %+v never ends", c.oracle.state.Locks.Locks)
	}
	c.wait(time.Minute, c.agreed) // who has yet to hear that a lock has ended is refused
	for s := range c.members() {
		for i := range c.w.Locks {
			if !c.isMember(s) {
				break
			}
			w := lock.Want{Name: fmt.Sprint("lock-", i), Holder: s.String(), Token: c.rnd.Uint64() | 1}
			r := c.ask(s, &ipam.LockRequest{Want: w})
			again := c.ask(s, &ipam.LockRequest{Want: w})
			if r.Err != nil || again.Err != nil || again.Fence != r.Fence {
				c.fail("refused", "%s gets lock %s with %d and %d: %v, %v", s, w.Name, r.Fence, again.Fence, r.Err, again.Err)
			}
			if r := c.ask(s, &ipam.UnlockRequest{Name: w.Name, Fence: r.Fence}); r.Err != nil {
				c.fail("refused", "%s does not end lock %s: %v", s, w.Name, r.Err)
			}
			c.wait(time.Minute, c.agreed)
		}
	}
	c.count["locks"] += len(c.oracle.locks.last)
}
