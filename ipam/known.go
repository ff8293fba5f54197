package ipam

import (
	"iter"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/space"
)

// pool is a pool of the state with what this peer knows of it. What each call reads, and
// each look at all pools, comes first, in few lines of the cache: a host may have a
// thousand, and call one after the other.
type pool struct {
	*chronicle.Pool
	space     *space.Space
	facts     poolFacts
	here      *engine.Subnet // the networks of this host on it
	idleSince time.Time      // since when it is told to have networks here, and has none

	// missing holds when an inventory first lacked an address that a container
	// holds, and offHost when the host first lacked an address that is held for an
	// interface.
	missing, offHost absences
	// seen holds the addresses that the last inventory has, and whose; surveyed
	// says that these are all: it was complete, and knew the pool.
	seen map[addr.Offset]string
	// stranded has the networks of those of them that are endpoints without a container.
	stranded map[addr.Offset]string
	// strangers holds since when an address is kept back for something else
	// on the network.
	strangers map[addr.Offset]time.Time
	former    map[space.Key]addr.Offset // of containers whose record has another key than what the engine sends now, see stickBy
	surveyed  bool
	untaken   bool // of this host's own addresses one was not its own yet
	// gateway is this host's own gateway address, if it has one.
	hasGateway bool
	gateway    addr.Offset
	mine       []addr.Range // as the ring has it
	// named holds when the engine last named an auxiliary address of a network
	// that it makes, and left when what is no more this peer's was freed: until an
	// inventory that began later has come, one that did earlier says otherwise.
	named, left map[addr.Offset]uint64

	vacated     time.Time // when somebody last was given all that this peer had here
	unusedSince time.Time // since when nothing here uses it
}

// poolFacts is what follows for a pool from a content of the state.
type poolFacts struct {
	at         uint64 // of which edition of the state
	keepsNames bool   // some address of it is kept for a name
	used       bool   // this peer has said that it uses the pool
	chosen     bool   // its subnet was
	passing    bool   // and it goes when nobody uses it
}

// factsOf returns what follows for the pool from the state. It is looked for once in each
// slot: a host may have a thousand pools, in which little happens.
func (m *Machine) factsOf(p *pool) *poolFacts {
	if p.facts.at != m.log.Edition() {
		m.learnFacts(p)
	}
	return &p.facts
}

func (m *Machine) learnFacts(p *pool) {
	has := func(k chronicle.Kind) bool {
		return slices.ContainsFunc(p.Reserved, func(r chronicle.Reservation) bool { return r.Kind == k })
	}
	chosen := p.Origin == chronicle.FromChoice
	p.facts = poolFacts{
		at:         m.log.Edition(),
		keepsNames: has(chronicle.KindKeptForName),
		used:       p.UsedBy(m.me.ID()),
		chosen:     chosen,
		passing:    chosen && p.Name == "" && !p.Operated(),
	}
}

// keeps reports whether the last inventory has a network that keeps the address back.
func (p *pool) keeps(o addr.Offset) bool {
	_, kept := p.here.Kept[o]
	return kept
}

// held yields the held addresses of the pool, in order.
func (p *pool) held() iter.Seq2[addr.Offset, space.Record] { return p.space.HeldIn(addr.Whole(p.CIDR)) }

// busy reports whether an address of the pool is held by anything but the
// host's own interfaces, strangers, and what waits for its name.
func (p *pool) busy() bool {
	for _, kind := range p.space.Kinds() {
		if kind != space.Host && kind != space.Stranger && kind != space.Kept {
			return true
		}
	}
	return false
}

// hasContainers reports whether an address of the pool is held by anything but
// the host and strangers, or waits for its name.
func (p *pool) hasContainers() bool {
	for _, kind := range p.space.Kinds() {
		if !kind.OfHost() {
			return true
		}
	}
	return false
}

// hasEndpoints reports whether an address of the pool is held by an endpoint of the engine.
func (p *pool) hasEndpoints() bool {
	for _, kind := range p.space.Kinds() {
		if kind == space.Container || kind == space.Unmarked {
			return true
		}
	}
	return false
}

// records yields the addresses of which there is a record, in order.
func (p *pool) records() iter.Seq2[addr.Offset, space.Record] {
	return p.space.Records(addr.Whole(p.CIDR))
}
