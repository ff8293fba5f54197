package main

import (
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/wire"
)

// merge appends to out what two sorted lists of tokens make together, the newer one of two at the same place. That is the
// least that a peer does which takes in another one's ring token by token. Ringlet does not: rings follow from slots, and
// of two states the later one is taken as a whole.
func merge(out, a, b []ring.Token) []ring.Token {
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch x, y := &a[i], &b[j]; {
		case x.Start < y.Start:
			out = append(out, *x)
			i++
		case x.Start > y.Start:
			out = append(out, *y)
			j++
		case x.Version < y.Version:
			out = append(out, *y)
			i, j = i+1, j+1
		default:
			out = append(out, *x)
			i, j = i+1, j+1
		}
	}
	return append(append(out, a[i:]...), b[j:]...)
}

// exchanges returns contenders of what peers do with each other's rings, and such a merge of which one token is newer.
func (d *divided) exchanges() ([]contender, error) {
	tokens := slices.Collect(d.state.Pool(d.pool).Ring.Tokens())
	newer := slices.Clone(tokens)
	newer[len(newer)/2].Version++
	merged := make([]ring.Token, 0, 2*len(tokens))
	encoded := d.state.Encode()
	beats, err := d.beats()
	return []contender{
		computing("merge", repeated(func() error {
			if len(merge(merged, tokens, newer)) != len(tokens) {
				return errFull
			}
			return nil
		})),
		computing("decode", repeated(func() error {
			_, err := chronicle.DecodeState(encoded)
			return err
		})),
		computing("beat", beats),
	}, err
}

// beats returns a peer that takes in what another one shows of itself as it does at rest, whose ring is equal.
func (d *divided) beats() (func(n int) error, error) {
	m, err := d.restored()
	if err != nil {
		return nil, err
	}
	for i := range d.peers - 1 { // all are there, as they are nearly always
		m.core.Step(m.now, &ipam.Message{Frame: d.beat(peerID(i))})
	}
	frame := wire.Encode(nil, d.beat(peerID(0)))
	return func(n int) error {
		for range n {
			f, err := wire.Decode(frame)
			if err != nil {
				return err
			}
			m.core.Step(m.now, &ipam.Message{Frame: f})
		}
		return m.pairs(1) // it would hand out nothing if it took the rings to differ
	}, nil
}

// beat is what another peer shows of itself while its ring is equal.
func (d *divided) beat(from peer.ID) *wire.Frame {
	return &wire.Frame{
		Header: wire.Header{Cluster: d.state.Cluster, From: from, To: peer.None, Boot: 1, Nonce: 1, Slot: d.state.Slot, Digest: d.state.Digest()},
		Body:   wire.Beat{},
	}
}

// addExchanges adds the rows of exchanges.
func (b *bench) addExchanges(what string, got results) {
	const against = ", against a merge of two sorted lists of as many tokens of which one is newer"
	b.add(row{
		goal: "G20", what: what + ": apply a slot" + against, limit: 3, got: got.times("slot", "merge"),
		note: fmt.Sprintf("%s against %s", duration(got.p50("slot").median), duration(got.p50("merge").median)),
	})
	b.add(row{
		goal: "G20", what: "the same, with the digest of the state, which peers make anew after each slot", limit: 3,
		got: got.times("digest", "merge"), note: "both take " + duration(got.p50("digest").median),
	})
	b.add(row{
		goal: "G20", what: what + ": take in a frame by whose digest another peer's is equal" + against, limit: 0.1,
		got: got.times("beat", "merge"), note: duration(got.p50("beat").median),
	})
	b.add(row{
		goal: "G21", what: what + ": decode and check a state that has it" + against, limit: 12,
		got: got.times("decode", "merge"), note: duration(got.p50("decode").median),
	})
}
