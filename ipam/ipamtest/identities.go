package ipamtest

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/identity"
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
