// Package pool has what this host holds in each pool: which addresses, for whom, and what the engine's lists and the host's
// interfaces said of them.
//
// The package refuses to know how commands are decided, which peers live, which requests wait, and how space moves between
// peers.
package pool

import (
	"iter"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/space"
)

// Pool is a pool of the state with what this peer knows of it. What each call reads, and each look at all pools, comes
// first, in few lines of the cache: a host may have a thousand, and call one after the other.
type Pool struct {
	*chronicle.Pool
	of          *Pools
	Space       *space.Space
	Here        *engine.Subnet // the networks of this host on it
	facts       Facts
	IdleSince   time.Time // since when the state says that it has networks here, and it has none
	UnusedSince time.Time // since when nothing here uses it

	// Missing holds when an inventory first lacked an address that a container
	// holds, and OffHost when the host first lacked an address that is held for an
	// interface.
	Missing, OffHost Absences
	// Seen holds the addresses that the last inventory has, and whose; Surveyed
	// says that these are all: it was complete, and knew the pool.
	Seen map[addr.Offset]string
	// Stranded has the networks of those of them that are endpoints without a container.
	Stranded map[addr.Offset]string
	// Strangers holds since when an address is kept back for something else
	// on the network.
	Strangers map[addr.Offset]time.Time
	former    map[space.Key]formerly // of containers whose record has another key than what the engine sends now
	Surveyed  bool
	Untaken   bool // of this host's own addresses one was not its own yet
	// Gateway is the address that this host holds as its own gateway, if it has one.
	HasGateway bool
	Gateway    addr.Offset
	Mine       []addr.Range // as the ring has it
	// Named holds when the engine last named an auxiliary address of a network
	// that it makes, and Left when what is no more this peer's was freed: until an
	// inventory that began later has come, one that did earlier says otherwise.
	Named, Left map[addr.Offset]uint64

	Vacated time.Time // when another peer last was given all that this peer had here
}

// Facts is what follows for a pool from a content of the state.
type Facts struct {
	at         uint64 // of which edition of the state
	KeepsNames bool   // some address of it is kept for a name
	IsUsed     bool   // this peer has said that it uses the pool
	Passes     bool   // its subnet was chosen, and it goes when nobody uses it
}

// Facts returns what follows for the pool from the state. It is looked for once in each slot: a host may have a thousand
// pools, in which little happens.
func (p *Pool) Facts() *Facts {
	if p.facts.at != *p.of.Edition {
		p.learnFacts()
	}
	return &p.facts
}

func (p *Pool) learnFacts() {
	p.facts = Facts{
		at:         *p.of.Edition,
		KeepsNames: slices.ContainsFunc(p.Reserved, func(r chronicle.Reservation) bool { return r.Kind == chronicle.KindKeptForName }),
		IsUsed:     p.UsedBy(p.of.Me.ID()),
		Passes:     p.Origin == chronicle.FromChoice && p.Name == "" && !p.Operated(),
	}
}

// Become has the pool be as another state has it.
func (p *Pool) Become(cp *chronicle.Pool) { p.Pool, p.facts = cp, Facts{} }

// Absences holds when addresses were first found to be absent from where they should be.
type Absences map[addr.Offset]time.Time

// Since returns when the address was first found absent, and whether that is now, at the given time.
func (a *Absences) Since(o addr.Offset, at time.Time) (first time.Time, news bool) {
	if first, known := (*a)[o]; known {
		return first, false
	}
	if *a == nil {
		*a = Absences{}
	}
	(*a)[o] = at
	return at, true
}

// Keeps reports whether the last inventory has a network that keeps the address back.
func (p *Pool) Keeps(o addr.Offset) bool {
	_, kept := p.Here.Kept[o]
	return kept
}

// Held yields the held addresses of the pool, in order.
func (p *Pool) Held() iter.Seq2[addr.Offset, space.Record] { return p.Space.HeldIn(addr.Whole(p.CIDR)) }

// Records yields the addresses of which there is a record, in order.
func (p *Pool) Records() iter.Seq2[addr.Offset, space.Record] {
	return p.Space.Records(addr.Whole(p.CIDR))
}

// holdsAny reports whether an address is held by a holder of such a kind.
func (p *Pool) holdsAny(such func(space.Kind) bool) bool {
	for _, kind := range p.Space.Kinds() {
		if such(kind) {
			return true
		}
	}
	return false
}

// IsBusy reports whether an address of the pool is held by anything but the host's own interfaces, strangers, and what waits
// for its name.
func (p *Pool) IsBusy() bool {
	return p.holdsAny(func(kind space.Kind) bool { return kind != space.Host && kind != space.Stranger && kind != space.Kept })
}

// HasContainers reports whether an address of the pool is held by anything but the host and strangers, or waits for its
// name.
func (p *Pool) HasContainers() bool {
	return p.holdsAny(func(kind space.Kind) bool { return !kind.OfHost() })
}

// HasEndpoint reports whether an address is held by an endpoint of the engine.
func (p *Pool) HasEndpoint(o addr.Offset) bool {
	kind, held := p.Space.Holds(o)
	return held && kind.OfEndpoint()
}

// HasGuestsIn reports whether anything in the range is held but for the host itself.
func (p *Pool) HasGuestsIn(r addr.Range) bool {
	for _, rec := range p.Space.HeldIn(r) {
		if !rec.Kind.OfHost() {
			return true
		}
	}
	return false
}

// Shows reports whether the engine's last list has the address.
func (p *Pool) Shows(o addr.Offset) bool {
	_, shown := p.Seen[o]
	return shown
}

// ShowsFree reports whether the range is one address, and the engine has listed all that it has on the pool, and nothing
// there. A peer with a new database may give away such an address before it has taken in all of the list: what is left of that
// another peer may have to give, with a new database, too, who waits in turn for what this one has.
func (p *Pool) ShowsFree(r addr.Range) bool {
	return p.Surveyed && r.Size() == 1 && !p.Shows(r.Start)
}

// Part is a piece of a range with one owner.
type Part struct {
	addr.Range
	Owner peer.ID
}

// PartsOf returns the pieces of a range, by owner. What is free counts as this peer's.
func (p *Pool) PartsOf(in addr.Range) []Part {
	var out []Part
	for r, t := range p.Ring.Within(in) {
		if t.Owner == ring.Free {
			t.Owner = p.of.Me.ID()
		}
		if n := len(out); n > 0 && out[n-1].Owner == t.Owner {
			out[n-1].End = r.End
			continue
		}
		out = append(out, Part{r, t.Owner})
	}
	return out
}
