// Package conflict keeps what cannot both be right: an address with two holders, or a network that has no pool. Each is
// told once, and lasts until a list of the engine no longer shows it.
//
// The package refuses to know what a conflict is about: the caller finds them, and says in a sentence what each is.
package conflict

import (
	"iter"
	"maps"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// Place is where a conflict is.
type Place struct {
	Pool   chronicle.PoolKey
	At     addr.Offset
	Subnet netip.Prefix // of a network that has no pool
}

// Conflict is what cannot both be right.
type Conflict struct {
	Text   string // a sentence, from when it was noted first
	Who    string // whom it is about
	Same   string // what stays the same as long as it lasts
	Next   string // what ends it
	Host   bool   // it is about an address that the host itself has
	Warned bool   // a peer warns of it
}

// Conflicts are those of one host. Use [New].
type Conflicts struct {
	now    map[Place]Conflict // since the begin of the last complete list
	before map[Place]Conflict // before that
}

// New returns none.
func New() *Conflicts { return &Conflicts{now: map[Place]Conflict{}, before: map[Place]Conflict{}} }

// Begin has a complete list tell anew which conflicts there are.
func (c *Conflicts) Begin() {
	c.now, c.before = c.before, c.now
	clear(c.now)
}

// Has reports whether there is a conflict at a place, since the last list.
func (c *Conflicts) Has(at Place) bool {
	_, known := c.now[at]
	return known
}

// Tell notes a conflict, and reports whether it is news: there is none at the place yet, and the same was not there before
// the list.
func (c *Conflicts) Tell(at Place, what Conflict) (news bool) {
	if c.Has(at) {
		return false
	}
	last, told := c.before[at]
	if told = told && last.Same == what.Same; told {
		what = last
	}
	c.now[at] = what
	return !told
}

// Keep has a conflict about a holder last, of which the list cannot tell. It reports whether there is one.
func (c *Conflicts) Keep(at Place, who string) bool {
	if last, told := c.before[at]; told && !c.Has(at) && last.Who == who {
		c.now[at] = last
	}
	last, told := c.now[at]
	return told && last.Who == who
}

// End ends the conflict at a place.
func (c *Conflicts) End(at Place) {
	if len(c.now)+len(c.before) > 0 { // mostly there is none, and this is called for each address
		delete(c.now, at)
		delete(c.before, at)
	}
}

// EndWarned ends the conflict at a place that a warning has made.
func (c *Conflicts) EndWarned(at Place) {
	for _, all := range []map[Place]Conflict{c.now, c.before} {
		if all[at].Warned {
			delete(all, at)
		}
	}
}

// DropPool ends the conflicts in a pool.
func (c *Conflicts) DropPool(key chronicle.PoolKey) {
	for _, all := range []map[Place]Conflict{c.now, c.before} {
		maps.DeleteFunc(all, func(at Place, _ Conflict) bool { return at.Pool == key })
	}
}

// All returns the conflicts since the last list, in no order. One that was read may be ended.
func (c *Conflicts) All() iter.Seq2[Place, Conflict] { return maps.All(c.now) }
