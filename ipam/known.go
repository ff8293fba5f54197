package ipam

import (
	"iter"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// pool is a pool of the state with what this peer knows of it. What each call reads, and
// each look at all pools, comes first, in few lines of the cache: a host may have a
// thousand, and call one after the other.
type pool struct {
	*chronicle.Pool
	space *space.Space
	facts poolFacts
	asked int // networks of this host that the engine has asked for on the pool
	told
	idleSince time.Time // since when it is told to have networks here, and has none

	// missing holds when an inventory first lacked an address that a container
	// holds, and offHost when the host first lacked an address that is held for an
	// interface.
	missing, offHost absences
	// seen holds the addresses that the last inventory has, and whose; surveyed
	// says that these are all: it was complete, and knew the pool.
	seen map[addr.Offset]string
	// strangers holds since when an address is kept back for something else
	// on the network.
	strangers map[addr.Offset]time.Time
	surveyed  bool
	untaken   bool // of this host's own addresses one was not its own yet
	toldOnce  bool // something was announced since somebody joined
	// gateway is this host's own gateway address, if it has one.
	hasGateway bool
	gateway    addr.Offset
	mine       []addr.Range // as the ring has it
	// unnamed holds when an inventory first lacked an auxiliary address that no
	// network names.
	unnamed absences
	// named holds when the engine last named an auxiliary address of a network
	// that it makes, and left when what is no more this peer's was freed: until an
	// inventory that began later has come, one that did earlier says otherwise.
	named, left map[addr.Offset]uint64

	vacated     time.Time  // when somebody last was given all that this peer had here
	spareSince  time.Time  // since when it has more than it needs
	unusedSince time.Time  // since when nothing here uses it
	announced   wire.Spare // what was announced last
	announcedAt time.Time
}

// told is what the engine's last inventory tells of the networks of this host on a pool.
type told struct {
	// listed is how many it shows, -1 before the first, and lost how many of those this
	// peer may not have been asked for.
	listed, lost int
	kept         map[addr.Offset]chronicle.Kind // what they keep back
	// parted is when the engine last removed a network: an inventory that began earlier
	// says otherwise. partings are those that it has removed since the last one.
	parted   moment
	partings int
}

// poolFacts is what follows for a pool from a content of the state.
type poolFacts struct {
	at         version
	keepsNames bool // some address of it is kept for a name
	auxiliary  bool // some is reserved for a network
	used       bool // this peer has said that it uses the pool
	chosen     bool // its subnet was
	passing    bool // and it goes when nobody uses it
}

// factsOf returns what follows for the pool from the state. It is looked for once in each
// slot: a host may have a thousand pools, in which little happens.
func (m *Machine) factsOf(p *pool) *poolFacts {
	if p.facts.at != m.version() {
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
		at:         m.version(),
		keepsNames: has(chronicle.KindKeptForName),
		auxiliary:  has(chronicle.KindAuxiliary),
		used:       p.UsedBy(m.self),
		chosen:     chosen,
		passing:    chosen && p.Name == "" && !p.Operated(),
	}
}

// keeps reports whether the last inventory has a network that keeps the address back.
func (p *pool) keeps(o addr.Offset) bool {
	_, kept := p.kept[o]
	return kept
}

// network is a network of this host.
type network struct {
	Network
	count int // how many docker networks asked for just this
	// replayed is how many of them the engine has asked for again since it
	// started.
	replayed int
	// asked is when the engine last asked for its pool; zero if an earlier
	// release has not written it.
	asked moment
	// beside is how many networks the last list had shown on its subnet when the engine began to make it.
	beside int
	// again says that this was taken for a replay, and not counted.
	again bool
	// inPlace says that one that was so counts since the engine started, in the place of one that has gone, as it seems: it
	// may have been another that was not counted.
	inPlace bool
	// missing is when an inventory first lacked all networks on the pool.
	missing time.Time
	// fresh says that the engine is making the network, or was when it last
	// asked for its pool, and did not ask again for one that it has.
	fresh bool
	// useSaid says that the state has said, since this is counted, that this host uses
	// the pool.
	useSaid bool
	// chosenAt is when it was last answered to a request that left the
	// choice to us, and burst how often in quick succession.
	chosenAt time.Time
	burst    int
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
		if !ofHost(kind) {
			return true
		}
	}
	return false
}

// ofHost reports whether what holds an address is the host itself, or something
// that it keeps the address back for: nothing that was started on it.
func ofHost(k space.Kind) bool {
	return k == space.Host || k == space.Gateway || k == space.Stranger || k == space.Kept
}

// records yields the addresses of which there is a record, in order.
func (p *pool) records() iter.Seq2[addr.Offset, space.Record] {
	return p.space.Records(addr.Whole(p.CIDR))
}
