package ipam

import (
	"errors"
	"fmt"

	"github.com/ringlet/ringlet/ipam/cluster"
	"github.com/ringlet/ringlet/ipam/doubt"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/holding"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/warning"
)

// ErrForeign is returned when a database is another peer's, or does not hold
// what a peer writes.
var ErrForeign = errors.New("not a database that this peer can use")

// Restoration is a database on its way into a machine. Use [NewRestoration], or [Restore] for all of it.
type Restoration struct {
	m        *Machine
	log      *replog.Restoration
	pools    *pool.Restoration
	anything bool
	unknown  string // a bucket that this release does not have
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
	return &Restoration{m: m, log: m.log.Restore(), pools: m.pools.Restore()}, nil
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
	if m.members.Self() == peer.None {
		return nil, fmt.Errorf("%w: it does not say whose it is", ErrForeign)
	}
	if m.state.Slot == 0 && len(m.engine.IDs()) > 0 {
		return nil, fmt.Errorf("%w: it has networks and no cluster", ErrForeign)
	}
	if label := m.members.Me.Label(); label != "" && label != m.cfg.Label && len(m.state.Pools) > 0 {
		return nil, fmt.Errorf("%w: it belongs to the cluster %q and has pools, and RINGLET_CLUSTER says %q: set RINGLET_CLUSTER=%s, or move the database away so that this host joins the other cluster as a new one", ErrForeign, label, m.cfg.Label, label)
	}
	if err := l.log.Finish(m.members.Self()); err != nil {
		return nil, err
	}
	if m.log.HasVotedToFound() && !m.cfg.Join && m.cfg.Formation.Size == 0 {
		return nil, fmt.Errorf("%w: it has begun to found a cluster with others, and RINGLET_JOIN and RINGLET_BOOTSTRAP no longer say with whom: set them as they were, or remove the database", ErrForeign)
	}
	if err := l.pools.Finish(); err != nil {
		m.log.Fail(err)
	}
	m.setAside(m.log.UnderWay())
	return m, nil
}

// Visit takes in a record, see [Restore]. After an error the restoration is of no use.
func (l *Restoration) Visit(bucket string, key, value []byte) error {
	l.anything = true
	if bucket == holding.Bucket { // as nearly all are
		return wrap(l.pools.Visit(key, value), "address")
	}
	switch bucket {
	case bucketIdentity:
		return wrap(l.visitIdentity(string(key), value), "identity")
	case cluster.Bucket:
		return wrap(l.m.members.RestoreContact(key, value), "peer")
	case bucketChronicle:
		return l.visitLog(string(key), value)
	case engine.Bucket:
		return wrap(l.m.engine.Restore(key, value), "network")
	case warning.Bucket:
		return wrap(l.m.warnings.Restore(key, value), "warning")
	case doubt.Bucket:
		return wrap(l.m.doubts.Restore(key, value), "late releases")
	}
	l.unknown = bucket
	return nil
}

func (l *Restoration) visitIdentity(key string, value []byte) error {
	switch key {
	case keyHost: // of a release that took silence for an answer
		return nil
	case replog.KeyNumber:
		return l.log.Number(value)
	}
	return l.m.members.Restore(key, value)
}

func wrap(err error, what string) error {
	if err != nil {
		return fmt.Errorf("record of the %s: %w", what, err)
	}
	return nil
}

func (l *Restoration) visitLog(key string, value []byte) error {
	err := l.log.Visit(key, value)
	if errors.Is(err, replog.ErrLater) {
		return l.later()
	}
	return err
}

// later refuses a database that a later release has written: this one would
// have to leave out slots that the addresses in it follow from.
func (l *Restoration) later() error {
	return fmt.Errorf("%w: a later release has used it, at a level of the protocol that this one does not speak (it speaks %d): install that release again, the database is as it was", ErrForeign, l.m.cfg.Spoken)
}
