package ipam

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/paxos"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/space"
)

// ErrForeign is returned when a database is another peer's, or does not hold
// what a peer writes.
var ErrForeign = errors.New("not a database that this peer can use")

// Restoration is a database on its way into a machine. Use [NewRestoration], or [Restore] for all of it.
type Restoration struct {
	m        *Machine
	identity *identity
	anything bool
	unknown  string // a bucket that this release does not have
	last     *pool  // of the last address: most lie side by side
	memory   space.Memory

	acceptor     paxos.Acceptor
	acceptorSlot uint64
	asides       []*proposal
}

// Restore returns the machine that the records describe, or a new one if
// there are none. load calls visit once for each record, in the order of
// buckets and keys, so that a pool is known before its addresses come, which
// come together; the bytes need to be valid only during the call. An error means that the
// records were not all written by one machine, or were damaged since.
func Restore(cfg Config, load func(visit func(bucket string, key, value []byte) error) error) (*Machine, error) {
	l, err := NewRestoration(cfg)
	if err != nil {
		return nil, err
	}
	if err := load(l.Visit); err != nil {
		return nil, err
	}
	return l.Machine(cfg)
}

// NewRestoration begins to restore a machine. cfg may change until [Restoration.Machine],
// but for what tells which records are understood. It fails where [New] does.
func NewRestoration(cfg Config) (*Restoration, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Restoration{m: m}, nil
}

// Machine returns the machine when all records have come: with the configuration as it
// is by now, which may follow from how the database was found. Nothing else may be done
// with the restoration then.
func (l *Restoration) Machine(cfg Config) (*Machine, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m := l.m
	if l.anything {
		cfg.Remains = nil // they are for a new database
	}
	m.configure(cfg)
	if l.unknown != "" {
		return nil, fmt.Errorf("%w: it has the bucket %q, which this release does not know", ErrForeign, l.unknown)
	}
	if !l.anything {
		return m, nil
	}
	if l.identity == nil {
		return nil, fmt.Errorf("%w: it does not say whose it is", ErrForeign)
	}
	if m.state.Slot == 0 && len(m.networks) > 0 {
		return nil, fmt.Errorf("%w: it has networks and no cluster", ErrForeign)
	}
	if m.restoredLabel != "" && m.restoredLabel != m.cfg.Label && len(m.state.Pools) > 0 {
		return nil, fmt.Errorf("%w: it belongs to the cluster %q and has pools, and RINGLET_CLUSTER says %q: set RINGLET_CLUSTER=%s, or move the database away so that this host joins the other cluster as a new one", ErrForeign, m.restoredLabel, m.cfg.Label, m.restoredLabel)
	}
	m.self, m.restored, m.own = l.identity.self, l.identity.boot, ownMember{}
	m.number = max(m.savedNumber, m.state.Number(m.self))
	m.unsettledTo = m.savedNumber
	if err := l.checkAsides(); err != nil {
		return nil, err
	}
	if err := l.finishVotes(); err != nil {
		return nil, err
	}
	for _, cp := range m.state.Pools {
		p := m.poolFor(cp)
		m.followRing(p)
		p.space.Seal()
	}
	m.proposals = l.asides
	m.setAside(m.underWay())
	return m, nil
}

// checkAsides finds commands that this peer cannot have proposed: they would never be settled.
func (l *Restoration) checkAsides() error {
	for _, p := range l.asides {
		for i, c := range p.commands {
			if c.Author != l.m.self || c.Number > l.m.number || i > 0 && c.Number <= p.commands[i-1].Number {
				return fmt.Errorf("record of the commands: %w: command %d of %s", codec.ErrCorrupt, c.Number, c.Author.Short())
			}
		}
	}
	return nil
}

// finishVotes takes in what this peer has promised and accepted in the slot
// that is next. What it has on disk of an older one is of no use.
func (l *Restoration) finishVotes() error {
	m := l.m
	if l.acceptorSlot != m.state.Slot+1 {
		return nil
	}
	if m.state.Slot == 0 && !m.cfg.Join && m.cfg.Formation.Size == 0 {
		return fmt.Errorf("%w: it has begun to found a cluster with others, and RINGLET_JOIN and RINGLET_BOOTSTRAP no longer say with whom: set them as they were, or remove the database", ErrForeign)
	}
	m.acceptor, m.acceptorOnDisk = l.acceptor, true
	return nil
}

// Visit takes in a record, see [Restore]. After an error the restoration is of no use.
func (l *Restoration) Visit(bucket string, key, value []byte) error {
	l.anything = true
	if bucket == bucketHolding { // as nearly all are
		return wrap(l.visitHolding(key, value), "address")
	}
	switch bucket {
	case bucketIdentity:
		return wrap(l.visitIdentity(string(key), value), "identity")
	case bucketPeer:
		id, c, err := parseContact(key, value)
		if err == nil {
			l.m.contacts[id] = c
		}
		return wrap(err, "peer")
	case bucketChronicle:
		return l.visitChronicle(string(key), value)
	case bucketNetwork:
		n, err := parseNetwork(key, value)
		if err == nil {
			l.m.networks[n.ID()] = n
			l.m.toMark = l.m.toMark || !n.useSaid
			l.m.countAsked(n.Pool, n.count)
		}
		return wrap(err, "network")
	case bucketWarning:
		a, by, err := parseWarning(key, value)
		if err == nil {
			l.m.putWarning(a, by)
		}
		return wrap(err, "warning")
	case bucketLate:
		if string(key) == keyLost {
			at, err := parseLost(value)
			l.m.lostAt = at
			return wrap(err, "loss of a database")
		}
		a, since, err := parseDoubt(key, value)
		if err == nil {
			l.m.holdDoubt(a, doubt{since: since})
		}
		return wrap(err, "late releases")
	}
	l.unknown = bucket
	return nil
}

func (l *Restoration) visitIdentity(key string, value []byte) error {
	switch key {
	case keySelf:
		id, err := parseIdentity(value)
		l.identity = &id
		return err
	case keyUnlisted:
		inherited, unsure, had, err := parseUnlisted(value)
		l.m.unlisted, l.m.unsure, l.m.inherited, l.m.before = true, unsure, inherited, had
		return err
	case keyDrained:
		l.m.drained = true
		return parseMark(value, "a note that this peer was draining")
	case keyGaveWay:
		l.m.gaveWay = time.Unix(0, 0) // the start counts from then on
		return parseMark(value, "a note that a cluster was dissolved")
	case keyClock:
		c, err := parseClock(value)
		l.m.restoredClock = c
		return err
	case keyHost: // of a release that took silence for an answer
	case keyOld, keyGivenUp:
		r := oldDatabase
		if key == keyGivenUp {
			r = givenUp
		}
		if len(value) == 0 {
			return fmt.Errorf("%w: no reason", codec.ErrCorrupt)
		}
		if l.m.suspended.reason != givenUp {
			l.m.suspended = suspension{r, string(value)}
		}
	case keyRejoined:
		cluster, clients, err := parseRemains(value)
		l.m.rejoined, l.m.unclaimed = cluster, clients
		return err
	case keyPlace:
		l.m.restoredPlace = string(value)
	case keyLabel:
		l.m.restoredLabel = string(value)
	case keyLeft:
		r := codec.NewReader(value)
		if r.Byte("format") != formatRecord {
			r.Fail("format of a wish to leave")
		}
		l.m.leaving, l.m.left, l.m.forced = true, r.Bool("left"), r.Bool("forced")
		return r.Done()
	case keyNumber:
		r := codec.NewReader(value)
		if r.Byte("format") != formatRecord {
			r.Fail("format of a number")
		}
		l.m.savedNumber = r.Uint("number")
		return r.Done()
	default:
		return fmt.Errorf("%w: its key", codec.ErrCorrupt)
	}
	return nil
}

// parseMark reads a record that is there or not, and says nothing else.
func parseMark(value []byte, what string) error {
	r := codec.NewReader(value)
	if r.Byte("format") != formatRecord {
		r.Fail("format of " + what)
	}
	return r.Done()
}

// visitAside takes in commands that may have left and are not settled.
func (l *Restoration) visitAside(value []byte) error {
	batch, err := chronicle.DecodeBatch(append([]byte{}, value...))
	if err != nil {
		return err
	}
	if len(batch) == 0 {
		return fmt.Errorf("%w: no command", codec.ErrCorrupt)
	}
	p := &proposal{commands: batch, kept: true}
	actions := make([]chronicle.Action, len(batch))
	for i, c := range batch {
		actions[i] = c.Action
	}
	p.key = proposalKey(actions)
	l.m.asides[p.last()] = true
	l.asides = append(l.asides, p)
	return nil
}

func wrap(err error, what string) error {
	if err != nil {
		return fmt.Errorf("record of the %s: %w", what, err)
	}
	return nil
}

func (l *Restoration) visitChronicle(key string, value []byte) (err error) {
	if key == replog.KeySnapshot {
		var s *chronicle.State
		if s, err = chronicle.DecodeState(value); err == nil {
			l.m.state = s
		}
		if err == nil && l.m.outdated() {
			return l.later()
		}
		return wrap(err, "snapshot")
	}
	if key == keyAcceptor {
		l.acceptorSlot, l.acceptor, err = parseAcceptor(value)
		return wrap(err, "acceptor")
	}
	if strings.HasPrefix(key, keyAside) {
		return wrap(l.visitAside(value), "commands")
	}
	n, ok := replog.ParseKey(key)
	if !ok {
		return fmt.Errorf("%w: key of a slot", codec.ErrCorrupt)
	}
	// Slots follow one another, behind the snapshot; those before it are kept
	// for peers that lag.
	switch {
	case n <= l.m.state.Slot:
		l.m.log.Restore(n, nil)
		return nil
	case n != l.m.state.Slot+1:
		return fmt.Errorf("%w: slot %d follows slot %d", codec.ErrCorrupt, n, l.m.state.Slot)
	}
	value = append([]byte{}, value...)
	batch, err := chronicle.DecodeBatch(value)
	if err != nil { // it was decided so, as learn has found; or what is on disk is not what was written, which the store would have found
		l.m.broken, batch = errUnreadable(n, err), nil
	}
	if l.m.outdated() || !chronicle.Known(batch) {
		return l.later()
	}
	l.m.log.Restore(n, value)
	l.m.apply(batch)
	return nil
}

// later refuses a database that a later release has written: this one would
// have to leave out slots that the addresses in it follow from.
func (l *Restoration) later() error {
	return fmt.Errorf("%w: a later release has used it, at a level of the protocol that this one does not speak (it speaks %d): install that release again, the database is as it was", ErrForeign, l.m.cfg.Spoken)
}

// visitHolding puts an address back. A pool and its addresses go in one write,
// so none is of a pool that is gone.
func (l *Restoration) visitHolding(key, value []byte) error {
	k, o, err := parseHoldingKey(key)
	if err != nil {
		return err
	}
	if l.last == nil || l.last.Key != k {
		cp := l.m.state.Pool(k)
		if cp == nil {
			return fmt.Errorf("%w: it lies in pool %v, which does not exist", codec.ErrCorrupt, k)
		}
		if l.last != nil {
			l.last.space.Index()
		}
		l.last = l.m.poolFor(cp)
	}
	var rec space.Record
	name, ref, packed, err := parseHolding(value, &rec)
	if err != nil {
		return err
	}
	if err := l.last.space.PutText(o, &rec, name, ref, packed, &l.memory); err != nil {
		return fmt.Errorf("%w: pool %v: %w", codec.ErrCorrupt, l.last.CIDR, err)
	}
	if rec.Kind == space.Gateway && rec.State == space.Held {
		l.last.gateway, l.last.hasGateway = o, true
	}
	if rec.Kind == space.Stranger && rec.State == space.Held && !isWarned(rec) {
		l.m.watchStranger(l.last, o, time.Unix(0, rec.Since))
	}
	return nil
}

// bootUp gives the peer its ID, if it has none yet, and raises its boot. Both
// are on disk before anything is answered.
func (m *Machine) bootUp() {
	if m.self == peer.None {
		for i := range m.self {
			m.self[i] = byte(m.cfg.Rand.Uint32())
		}
		m.own = ownMember{}
	}
	m.boot = m.restored + 1
	m.nonce = m.cfg.Rand.Uint64()
	m.saveIdentity()
}
