package trade

import (
	"math/rand/v2"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
)

// Config is what a [Trade] is told of its peer.
type Config struct {
	Rand  *rand.Rand
	Deal  chronicle.Deal // how much of a pool each peer keeps
	Chunk addr.Count     // how many addresses are opened at a time; 0: it follows from the pool and the peers
	Rest  time.Duration  // how long a freed address rests
}

// Peers is what a trade asks about the other peers.
type Peers interface {
	// IsLive reports whether a peer of the cluster can probably be reached.
	IsLive(id peer.ID) bool
	// NameOf names a peer in notes.
	NameOf(id peer.ID) string
}

// Trade is one peer's part in moving space. Use [New]. It is not safe for concurrent use.
type Trade struct {
	cfg   Config
	out   *effect.Writer
	log   *replog.Log
	peers Peers
	self  peer.ID

	last      uint64 // the last question of this start
	questions map[question]*asking
	granted   map[asked]granted
	told      map[chronicle.PoolKey]map[peer.ID]told // what others announced last
	stocks    map[chronicle.PoolKey]*stock
	begged    map[chronicle.PoolKey]bool // pools of which somebody was refused space, for there was none

	announcedAt time.Time
	sharing     sharing
}

// New returns a trade that has asked and announced nothing. [Trade.Configure] and [Trade.Begin] are to follow.
func New(out *effect.Writer, log *replog.Log, peers Peers) *Trade {
	return &Trade{
		out: out, log: log, peers: peers,
		questions: map[question]*asking{}, granted: map[asked]granted{},
		told:   map[chronicle.PoolKey]map[peer.ID]told{},
		stocks: map[chronicle.PoolKey]*stock{},
		begged: map[chronicle.PoolKey]bool{},
	}
}

// Configure sets what the trade is told of its peer.
func (t *Trade) Configure(cfg Config) { t.cfg = cfg }

// Begin says who this peer is, and which start of it this is. What answers an earlier start answers no question of this one.
func (t *Trade) Begin(self peer.ID, boot peer.Boot) { t.self, t.last = self, uint64(boot)<<32 }

// NextQuestion numbers the questions of this peer, those of others than the trade, too.
func (t *Trade) NextQuestion() uint64 {
	t.last++
	return t.last
}

// DropPool forgets a pool that is gone.
func (t *Trade) DropPool(k chronicle.PoolKey) {
	delete(t.stocks, k)
	delete(t.begged, k)
	delete(t.told, k)
}

// Prune forgets the questions that nobody asks any more, and the answers that nobody will ask for again.
func (t *Trade) Prune() {
	for q, a := range t.questions {
		if t.out.Passed(forgetAsking, a.used) {
			delete(t.questions, q)
		}
	}
	for k, g := range t.granted {
		if t.out.Now().Sub(g.at) >= keepGranted {
			delete(t.granted, k)
		}
	}
}
