package ipam

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

// ErrForeign is returned when a database is another peer's, or does not hold
// what a peer writes.
var ErrForeign = errors.New("not a database that this peer can use")

// loaded is what a database holds, before it is put together.
type loaded struct {
	identity  *identity
	state     *chronicle.State
	slots     []slot
	networks  []*network
	holdings  []holding
	anything  bool
	unknown   string
	firstSlot uint64
}

type slot struct {
	number uint64
	batch  []chronicle.Command
}

type holding struct {
	pool chronicle.PoolKey
	at   addr.Offset
	rec  space.Record
}

// Restore returns the machine that the records describe, or a new one if
// there are none. load calls visit once for each record, in any order; the
// bytes need to be valid only during the call. An error means that the
// records were not all written by one machine, or were damaged since.
func Restore(cfg Config, load func(visit func(bucket string, key, value []byte) error) error) (*Machine, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	var l loaded
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
	m.self, m.restored = l.identity.self, l.identity.boot
	if err := m.restoreState(&l); err != nil {
		return nil, err
	}
	for _, n := range l.networks {
		m.networks[n.ID()] = n
	}
	if err := m.restoreHoldings(&l); err != nil {
		return nil, err
	}
	return m, nil
}

func (l *loaded) visit(bucket string, key, value []byte) error {
	l.anything = true
	switch bucket {
	case bucketIdentity:
		if string(key) != keySelf {
			return fmt.Errorf("%w: key of the identity", codec.ErrCorrupt)
		}
		id, err := parseIdentity(value)
		l.identity = &id
		return wrap(err, "identity")
	case bucketChronicle:
		return l.visitChronicle(string(key), value)
	case bucketNetwork:
		n, err := parseNetwork(key, value)
		l.networks = append(l.networks, n)
		return wrap(err, "network")
	case bucketHolding:
		k, o, err := parseHoldingKey(key)
		if err != nil {
			return err
		}
		rec, err := parseHolding(value)
		l.holdings = append(l.holdings, holding{k, o, rec})
		return wrap(err, "address")
	}
	l.unknown = bucket
	return nil
}

func wrap(err error, what string) error {
	if err != nil {
		return fmt.Errorf("record of the %s: %w", what, err)
	}
	return nil
}

func (l *loaded) visitChronicle(key string, value []byte) (err error) {
	if key == keySnapshot {
		l.state, err = chronicle.DecodeState(value)
		return wrap(err, "snapshot")
	}
	number, ok := strings.CutPrefix(key, keySlot)
	if !ok || len(number) != 8 {
		return fmt.Errorf("%w: key of a slot", codec.ErrCorrupt)
	}
	s := slot{number: binary.BigEndian.Uint64([]byte(number))}
	if s.batch, err = chronicle.DecodeBatch(value); err != nil {
		return wrap(err, "slot")
	}
	l.slots = append(l.slots, s)
	return nil
}

// restoreState applies the slots behind the snapshot, which must follow one
// another.
func (m *Machine) restoreState(l *loaded) error {
	if l.state != nil {
		m.state = l.state
	}
	for _, s := range l.slots {
		switch {
		case s.number <= m.state.Slot:
			continue
		case s.number != m.state.Slot+1:
			return fmt.Errorf("%w: slot %d follows slot %d", codec.ErrCorrupt, s.number, m.state.Slot)
		}
		m.state.Apply(s.batch)
	}
	if m.state.Slot == 0 {
		return fmt.Errorf("%w: it has a peer and no cluster", ErrForeign)
	}
	m.number = m.state.Number(m.self)
	for _, cp := range m.state.Pools {
		m.addPool(cp)
	}
	return nil
}

// restoreHoldings puts the addresses back. A pool and its addresses go in one
// write, so none is of a pool that is gone.
func (m *Machine) restoreHoldings(l *loaded) error {
	for _, h := range l.holdings {
		p := m.pools[h.pool]
		if p == nil {
			return fmt.Errorf("%w: an address is held in pool %v, which does not exist", codec.ErrCorrupt, h.pool)
		}
		if err := p.space.Put(h.at, h.rec); err != nil {
			return fmt.Errorf("%w: pool %v: %w", codec.ErrCorrupt, p.CIDR, err)
		}
		if h.rec.Kind == space.Gateway && h.rec.State == space.Held {
			p.gateway, p.hasGateway = h.at, true
		}
	}
	for _, p := range m.sortedPools() {
		p.space.Seal()
		if n := p.space.Strays(); n > 0 && m.broken == nil {
			m.broken = fmt.Errorf("I5: pool %v: %d held addresses lie in ranges that are not this peer's", p.CIDR, n)
		}
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
