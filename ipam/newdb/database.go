package newdb

import (
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Key is where bucket "identity" has the mark of a new database, as long as a list is missing.
const Key = "unlisted"

const (
	bucketIdentity = "identity"
	formatMark     = 1

	// patience is how long others are waited for at most.
	patience = 2 * time.Minute
	// maxUnanswered is how often a peer is asked before it counts as away, whatever the carrier says.
	maxUnanswered = 10
	// replayTime is for how long after a start an engine that does not answer may be one that has just started, and will
	// list what it has.
	replayTime = time.Minute
)

// before says whether this host had networks when its new database took in the engine's first list: then databases were
// lost, else nothing speaks for that here.
type before byte

const (
	beforeUnknown before = iota
	beforeNone
	beforeSome
)

// theirs is how far another peer has come with its list.
type theirs struct {
	listing    wire.Listing // as it has said since this peer started
	unanswered int          // how often it was asked since
}

// Config is what the caller decides.
type Config struct {
	Rules   rule.Set      // rules that a test removes
	AskAt   time.Duration // how long passes at least until the others are asked again
	Untaken func() bool   // what this host keeps back is another peer's, or was when last looked at
}

// Database is what a peer knows of how new its database is. Use [New].
type Database struct {
	out    *effect.Writer
	engine *engine.Engine
	me     *start.Start
	cfg    Config

	unlisted  bool   // the database is new, and no complete list has come yet; on disk
	inherited bool   // while unlisted: the peer has taken over the space of a former peer; on disk
	unsure    bool   // the database is new, and others may have yet to list, too; on disk
	before    before // on disk like unsure
	bereaved  bool   // another host had networks that its database did not know

	theirs map[peer.ID]theirs
	asked  time.Time // when those who have yet to list were last asked
	listed time.Time // when the list of this host's engine was taken in
}

// New returns what is known of a database that is not new.
func New(out *effect.Writer, e *engine.Engine, me *start.Start) *Database {
	return &Database{out: out, engine: e, me: me, theirs: map[peer.ID]theirs{}}
}

// Configure sets what the caller decides.
func (d *Database) Configure(cfg Config) { d.cfg = cfg }

// Begin marks the database as new. meetsOthers says that there may be other peers.
func (d *Database) Begin(meetsOthers bool) {
	d.unlisted = !d.cfg.Rules.Has(rule.List)
	d.unsure = d.unlisted && !d.cfg.Rules.Has(rule.Lists) && meetsOthers
	d.save()
}

// GiveWay has the peer wait for others again: in the cluster that it comes to they may have lost their databases.
func (d *Database) GiveWay() {
	d.unsure = !d.cfg.Rules.Has(rule.List | rule.Lists)
	d.save()
}

// Inherit makes this peer wait for the engine's list once more: it has taken over space in which containers of this host may
// live. For this list it waits however long the engine is silent.
func (d *Database) Inherit() {
	d.unlisted, d.inherited = !d.cfg.Rules.Has(rule.List), true
	d.save()
}

// TakeList notes that a complete list of the engine was taken in. What is made since, and listed later, says nothing of what
// there was before.
func (d *Database) TakeList() {
	d.unlisted, d.inherited, d.listed = false, false, d.out.Now()
	if d.before == beforeUnknown {
		if d.before = beforeNone; len(d.engine.Subnets()) > 0 {
			d.before = beforeSome
		}
	}
	d.save()
}

// IsUnlisted reports whether no complete list has come yet.
func (d *Database) IsUnlisted() bool { return d.unlisted }

// HasInherited reports whether that list has to tell of space that was taken over.
func (d *Database) HasInherited() bool { return d.unlisted && d.inherited }

// IsUnsure reports whether others may have yet to list.
func (d *Database) IsUnsure() bool { return d.unsure }

// AwaitsOwn reports whether the peer waits for the list of its own engine.
func (d *Database) AwaitsOwn() bool {
	return d.unlisted && (d.engine.WillList() || d.inherited && d.engine.Lists())
}

// TakesIn reports whether this peer, with a new database, has yet to get what its host keeps back: for two minutes at most.
func (d *Database) TakesIn(now time.Time) bool {
	return d.unsure && now.Sub(d.engine.SureSince(d.since())) < patience && d.cfg.Untaken()
}

// since returns since when this peer knows all that it can know by itself: it has started, is in its cluster, and has taken
// in its list.
func (d *Database) since() time.Time {
	return slices.MaxFunc([]time.Time{d.me.At(), d.me.Joined(), d.listed}, time.Time.Compare)
}

// save writes the mark of a new database. The key is there only as long as a list is missing.
func (d *Database) save() {
	if !d.unlisted && !d.unsure {
		d.out.Delete(bucketIdentity, Key)
		return
	}
	b := codec.Bool(codec.Bool([]byte{formatMark}, d.inherited), d.unsure)
	d.out.Put(bucketIdentity, Key, append(b, byte(d.before)))
}

// Restore reads the mark. What others have to list was not in it at first, nor what this host had before.
func (d *Database) Restore(value []byte) error {
	r := codec.NewReader(value)
	r.Format(formatMark, "the mark of a new database")
	d.unlisted, d.inherited = true, r.Bool("mark of a new database")
	if r.Rest() > 0 {
		d.unsure = r.Bool("mark of a new database beside others")
	}
	if r.Rest() > 0 {
		if d.before = before(r.Byte("networks before")); d.before > beforeSome {
			r.Fail("networks before")
		}
	}
	return r.Done()
}
