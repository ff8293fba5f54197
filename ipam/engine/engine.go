package engine

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/rule"
)

// Config is what an [Engine] is told of its peer.
type Config struct {
	Lists bool          // the peer has a socket of the engine: lists come
	Grace time.Duration // the least distance of two lists
	Rules rule.Set      // that tests take away
}

// Engine is what this host's engine has, as far as the peer knows. Use [New].
type Engine struct {
	cfg      Config
	nonce    uint64 // of this start of the peer
	out      *effect.Writer
	serial   uint64    // the last number of anything that happened
	clockSet time.Time // since when nobody has set the clock, as far as is known; zero: for long enough
	started  time.Time // that start

	replaying bool   // the engine may still be asking again for what it has
	answered  bool   // a list that was begun since it started has come, whole or in part
	greeted   Moment // when it started, or this process
	sent      sent   // since then, by requests of containers
	silent    bool   // no list will come for now

	networks map[poolid.ID]*Network
	subnets  map[netip.Prefix]*Subnet // where networks of this host are, or were
	complete Mark                     // of the last complete list since this start
	listed   Mark                     // of the last list of networks since then
	shown    []netip.Prefix           // subnets of the networks that the last list has

	host   []netip.Prefix // addresses that the host itself has, with their masks
	routed []netip.Prefix // where it has routes to and no subnet is to be chosen
}

// New returns an engine of which nothing is known.
func New(out *effect.Writer) *Engine {
	return &Engine{out: out, answered: true, networks: map[poolid.ID]*Network{}, subnets: map[netip.Prefix]*Subnet{}}
}

// Configure tells it of its peer.
func (e *Engine) Configure(cfg Config) { e.cfg = cfg }

// Start begins a start of the peer, which has that nonce.
func (e *Engine) Start(nonce uint64) { e.started, e.nonce = e.out.Now(), nonce }

// Greet notes that the engine, or this process, has started, so that the pools that it asks for may be those that it has.
func (e *Engine) Greet() {
	e.replaying, e.answered, e.greeted, e.sent = true, false, e.moment(), nothing
}

// Greeted returns when that was.
func (e *Engine) Greeted() Moment { return e.greeted }

// Mode is what may be said of an engine by what it answers. Lists, its silence and greetings change it; a request never does (R30).
type Mode byte

// The modes (protocol, 7.1).
const (
	Absent   Mode = iota // no list comes, as far as is known
	Starting             // it may be asking again for what it has, and answers nothing meanwhile: however long that takes
	Unknown              // it has started, or this process, less than [ListTime] ago
	Running              // a list, or a part of one, that was begun since then has come
)

// ListTime is how long a list is waited for that tells whether an engine starts.
const ListTime = 10 * time.Second

// Mode returns the mode of the engine.
func (e *Engine) Mode() Mode {
	switch {
	case !e.cfg.Lists:
	case e.answered, e.cfg.Rules.Has(rule.Starting) && e.sinceGreeted() >= makeTime:
		return Running
	case e.silent:
		return Starting
	case e.sinceGreeted() < ListTime:
		return Unknown
	}
	return Absent
}

// Replaying reports whether what the engine asks for now may be what it has: it starts no container before it has asked for all that.
// Where no lists come, that is so for a minute.
func (e *Engine) Replaying() bool {
	return e.replaying && (e.cfg.Lists || e.sinceGreeted() < makeTime)
}

// sinceGreeted returns how long ago it started, or this process, as far as is certain.
func (e *Engine) sinceGreeted() time.Duration { return e.age(e.greeted.At) }

// sent is what the requests of containers have.
type sent byte

const (
	nothing sent = iota // none has come
	mac                 // no name
	name                // one had its name
)

// StartsContainers notes that the engine has asked for a container's address, with its name or without: it asks again for
// everything that it has before it starts a container. It reports whether requests were not known to have that.
func (e *Engine) StartsContainers(named bool) (news bool) {
	e.replaying = false
	has := mac
	if named {
		has = name
	}
	news = has > e.sent
	e.sent = max(e.sent, has)
	return news
}

// Named reports whether a container's request had its name since the engine started: then each has.
func (e *Engine) Named() bool { return e.sent == name }

// Answers notes that the engine has answered what was asked after the mark: it answers only when it has asked again for all.
func (e *Engine) Answers(mark Mark) {
	if mark.Knows(e.greeted.Serial) {
		e.answered, e.replaying = true, false
	}
	e.silent = false
}

// FallSilent notes that no list will come for now.
func (e *Engine) FallSilent() { e.silent = true }

// Silent reports whether no list will come for now.
func (e *Engine) Silent() bool { return e.silent }

// Lists reports whether lists come at all, if not now.
func (e *Engine) Lists() bool { return e.cfg.Lists }

// WillList reports whether lists will come.
func (e *Engine) WillList() bool { return e.cfg.Lists && !e.silent }

// Complete returns the mark of the last complete list since this start.
func (e *Engine) Complete() Mark { return e.complete }

// SetComplete notes that of another one.
func (e *Engine) SetComplete(mark Mark) { e.complete = mark }

// Knows reports whether the last complete list tells of what has that number.
func (e *Engine) Knows(serial uint64) bool { return e.complete.Knows(serial) }

// KnowsStart reports whether a complete list was begun since the engine, or this process, started.
func (e *Engine) KnowsStart() bool { return e.complete.Knows(e.greeted.Serial) }

// KnowsNetworks reports whether the peer knows which networks of this host are on its pools. Where lists come it does from
// the first on since the engine or this process started: a database may be younger than networks, which were never asked for.
func (e *Engine) KnowsNetworks() bool {
	return !e.WillList() || e.isListed() || e.cfg.Rules.Has(rule.Listed)
}

func (e *Engine) isListed() bool { return e.listed.Knows(e.greeted.Serial) }
