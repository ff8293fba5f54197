package ipam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

// ErrForeign is returned when a database is another peer's, or does not hold
// what a peer writes.
var ErrForeign = errors.New("not a database that this peer can use")

// loaded is a database on its way into a machine.
type loaded struct {
	m        *Machine
	identity *identity
	anything bool
	unknown  string // a bucket that this release does not have
	last     *pool  // of the last address: most lie side by side
}

// Restore returns the machine that the records describe, or a new one if
// there are none. load calls visit once for each record, in the order of
// buckets and keys, so that a pool is known before its addresses come; the
// bytes need to be valid only during the call. An error means that the
// records were not all written by one machine, or were damaged since.
func Restore(cfg Config, load func(visit func(bucket string, key, value []byte) error) error) (*Machine, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	l := loaded{m: m}
	if err := load(l.visit); err != nil {
		return nil, err
	}
	if l.unknown != "" {
		return nil, fmt.Errorf("%w: it has the bucket %q, which this release does not know", ErrForeign, l.unknown)
	}
	if !l.anything {
		return m, nil
	}
	if l.identity == nil {
		return nil, fmt.Errorf("%w: it does not say whose it is", ErrForeign)
	}
	if m.state.Slot == 0 {
		return nil, fmt.Errorf("%w: it has a peer and no cluster", ErrForeign)
	}
	m.self, m.restored = l.identity.self, l.identity.boot
	m.number = m.state.Number(m.self)
	for _, cp := range m.state.Pools {
		p := m.poolFor(cp)
		m.followRing(p)
		p.space.Seal()
		if n := p.space.Strays(); n > 0 && m.broken == nil {
			m.broken = fmt.Errorf("I5: pool %v: %d held addresses lie in ranges that are not this peer's", p.CIDR, n)
		}
	}
	return m, nil
}

func (l *loaded) visit(bucket string, key, value []byte) error {
	l.anything = true
	switch bucket {
	case bucketIdentity:
		return wrap(l.visitIdentity(string(key), value), "identity")
	case bucketChronicle:
		return l.visitChronicle(string(key), value)
	case bucketNetwork:
		n, err := parseNetwork(key, value)
		if err == nil {
			l.m.networks[n.ID()] = n
			l.m.perPool[n.Pool] += n.count
		}
		return wrap(err, "network")
	case bucketHolding:
		return wrap(l.visitHolding(key, value), "address")
	}
	l.unknown = bucket
	return nil
}

func (l *loaded) visitIdentity(key string, value []byte) error {
	switch key {
	case keySelf:
		id, err := parseIdentity(value)
		l.identity = &id
		return err
	case keyUnlisted:
		l.m.unlisted = true
		return parseUnlisted(value)
	}
	return fmt.Errorf("%w: its key", codec.ErrCorrupt)
}

func wrap(err error, what string) error {
	if err != nil {
		return fmt.Errorf("record of the %s: %w", what, err)
	}
	return nil
}

func (l *loaded) visitChronicle(key string, value []byte) (err error) {
	if key == keySnapshot {
		var s *chronicle.State
		if s, err = chronicle.DecodeState(value); err == nil {
			l.m.state = s
		}
		return wrap(err, "snapshot")
	}
	number, ok := strings.CutPrefix(key, keySlot)
	if !ok || len(number) != 8 {
		return fmt.Errorf("%w: key of a slot", codec.ErrCorrupt)
	}
	// Slots follow one another, behind the snapshot; those before it are kept
	// for peers that lag.
	switch n := binary.BigEndian.Uint64([]byte(number)); {
	case n <= l.m.state.Slot:
		return nil
	case n != l.m.state.Slot+1:
		return fmt.Errorf("%w: slot %d follows slot %d", codec.ErrCorrupt, n, l.m.state.Slot)
	}
	batch, err := chronicle.DecodeBatch(value)
	if err != nil {
		return wrap(err, "slot")
	}
	l.m.state.Apply(batch)
	return nil
}

// visitHolding puts an address back. A pool and its addresses go in one write,
// so none is of a pool that is gone.
func (l *loaded) visitHolding(key, value []byte) error {
	k, o, err := parseHoldingKey(key)
	if err != nil {
		return err
	}
	if l.last == nil || l.last.Key != k {
		cp := l.m.state.Pool(k)
		if cp == nil {
			return fmt.Errorf("%w: it lies in pool %v, which does not exist", codec.ErrCorrupt, k)
		}
		l.last = l.m.poolFor(cp)
	}
	rec, err := parseHolding(value)
	if err != nil {
		return err
	}
	if err := l.last.space.Put(o, rec); err != nil {
		return fmt.Errorf("%w: pool %v: %w", codec.ErrCorrupt, l.last.CIDR, err)
	}
	if rec.Kind == space.Gateway && rec.State == space.Held {
		l.last.gateway, l.last.hasGateway = o, true
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
	}
	m.boot = m.restored + 1
	m.saveIdentity()
}
