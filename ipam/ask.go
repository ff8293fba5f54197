package ipam

import (
	"errors"
	"iter"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// tradePeers answers what the trade asks about peers.
type tradePeers struct{ m *Machine }

func (p tradePeers) IsLive(id peer.ID) bool   { return p.m.members.View().Live(id) }
func (p tradePeers) NameOf(id peer.ID) string { return p.m.members.View().NameOf(id) }

// spaces yields the pools and what this peer has of them, in order of their addresses.
func (m *Machine) spaces() iter.Seq2[*chronicle.Pool, *space.Space] {
	return func(yield func(*chronicle.Pool, *space.Space) bool) {
		for _, p := range m.pools.Sorted() {
			if !yield(p.Pool, p.Space) {
				return
			}
		}
	}
}

// errRefused is returned when all peers that could do it have refused.
var errRefused = errors.New("refused")

// ask asks the peers concerned for something that they have in a range. It makes the call wait while there
// is hope, and returns errRefused, with the last answer, when all have refused. When
// what was asked for is there the caller finds it before it asks.
func (m serving) ask(p *pool.Pool, want wire.Want, in addr.Range, kind chronicle.Kind) (wire.Answer, error) {
	var first time.Time
	if c := m.call; c != nil {
		if c.askedAt.IsZero() {
			c.askedAt = m.now
		}
		first = c.askedAt
	}
	is := m.trade.Ask(p.Pool, want, in, kind, first)
	if is.Refused {
		return is.Answer, errRefused
	}
	return wire.Answer{}, m.waitForPeers(p, want, in, is.Waits)
}

// spaceElsewhere asks for space in a range in which this peer has none left,
// and says why it got none. Of a range of one address the owner says who holds it.
func (m serving) spaceElsewhere(p *pool.Pool, n Network, want addr.Range) error {
	if t, _ := p.Ring.At(want.Start); want.Size() == 1 && t.Owner != ring.Free && t.Owner != ring.Reserved && t.Owner != m.members.Self() {
		return m.fromOwner(p, want.Start, wire.WantExact, 0)
	}
	if m.members.View().Alone() {
		return p.ErrFull(want, n.Range, m.members.IsDraining())
	}
	if _, err := m.ask(p, wire.WantSpace, want, 0); !errors.Is(err, errRefused) {
		return err
	}
	return p.ErrFull(want, n.Range, m.members.IsDraining())
}

// askOwner asks the owner of an address of another peer for it, or to reserve it, as [serving.ask] does.
func (m serving) askOwner(p *pool.Pool, o addr.Offset, want wire.Want, kind chronicle.Kind) (wire.Answer, error) {
	t, _ := p.Ring.At(o)
	switch {
	case m.members.IsPredecessor(t.Owner):
		return wire.Answer{}, m.waitForSuccession()
	case m.state.Member(t.Owner) == nil:
		return wire.Answer{}, failf(ErrAddressInUse, "address %v in %s %s, or choose another address", addr.Nth(p.CIDR, o), sentence.Pool(p.Pool), m.quarantineText(t.Owner))
	}
	return m.ask(p, want, addr.One(o), kind)
}

// fromOwner is askOwner, and says who holds the address if its owner refuses while that is so (protocol, 3.7).
func (m serving) fromOwner(p *pool.Pool, o addr.Offset, want wire.Want, kind chronicle.Kind) error {
	answer, err := m.askOwner(p, o, want, kind)
	if errors.Is(err, errRefused) {
		return failf(ErrAddressInUse, "address %v in %s is held by %s: stop or free it there first, or choose another address", addr.Nth(p.CIDR, o), sentence.Pool(p.Pool), answer.Text)
	}
	return err
}
