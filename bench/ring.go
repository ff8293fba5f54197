package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// manyTokens is how finely the ring of P10 is divided.
const manyTokens = 10_000

// peerID returns the ID of a peer of a made-up cluster.
func peerID(n int) (id peer.ID) {
	binary.BigEndian.PutUint64(id[:8], uint64(n+1)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(id[8:], uint64(n+1))
	return id
}

// divided is a cluster whose one pool is divided into tokens of equal length, dealt out in turn.
type divided struct {
	state  *chronicle.State
	pool   chronicle.PoolKey
	length addr.Count
	number map[peer.ID]uint64
	peers  int
}

// decide applies one command.
func (d *divided) decide(author peer.ID, a chronicle.Action) (chronicle.Outcome, error) {
	d.number[author]++
	out := d.state.Apply([]chronicle.Command{{Author: author, Number: d.number[author], Action: a}})
	if out[0].Refused != "" {
		return out[0], fmt.Errorf("%v: %s", a, out[0].Refused)
	}
	return out[0], nil
}

// newDivided returns a cluster of so many peers and tokens, in a /8.
func newDivided(peers, tokens int) (*divided, error) {
	d := &divided{state: &chronicle.State{}, number: map[peer.ID]uint64{}, peers: peers}
	first := chronicle.Founder{ID: peerID(0), Name: "host-0"}
	if _, err := d.decide(first.ID, chronicle.Found{Cluster: [16]byte{1}, Peers: []chronicle.Founder{first}}); err != nil {
		return nil, err
	}
	for i := 1; i < peers; i++ {
		if _, err := d.decide(first.ID, chronicle.Admit{Founder: chronicle.Founder{ID: peerID(i), Name: peer.Name(fmt.Sprintf("host-%d", i))}, Speaks: chronicle.Spoken}); err != nil {
			return nil, err
		}
	}
	cidr := netip.MustParsePrefix("10.0.0.0/8")
	out, err := d.decide(first.ID, chronicle.CreatePool{CIDR: cidr, Deal: chronicle.DealNone})
	if err != nil {
		return nil, err
	}
	d.pool, d.length = out.Pool, addr.Size(cidr)/addr.Count(tokens)
	for i := range tokens {
		start := addr.Offset(i) * addr.Offset(d.length)
		size := addr.FloorPow2(d.length)
		if _, err := d.decide(peerID(i%peers), chronicle.Open{
			Pool: d.pool, Range: addr.Range{Start: start, End: start + addr.Offset(d.length)}, Size: size,
		}); err != nil {
			return nil, err
		}
	}
	for i := range peers { // nothing is left to decide
		id := peerID(i)
		if _, err := d.decide(id, chronicle.SetState{Peer: id, Phase: chronicle.Active}); err != nil {
			return nil, err
		}
	}
	return d, nil
}

// part returns 1,024 addresses of a peer, as many whatever else it has: all use as much of the processor's cache.
func (d *divided) part(id peer.ID) netip.Prefix {
	p := d.state.Pool(d.pool)
	for r := range p.Ring.OwnedBy(id) {
		return netip.PrefixFrom(addr.Nth(p.CIDR, r.Start), 22)
	}
	return netip.Prefix{}
}

// giveAndDigest does what giveAndBack does, with the digest of the state after each slot, as peers make it.
func (d *divided) giveAndDigest(n int) error {
	return d.give(n, func() error {
		if d.state.Digest() == 0 {
			return errFull
		}
		return nil
	})
}

// giveAndBack has addresses change hands and come back, in n slots. The ring stays as it is.
func (d *divided) giveAndBack(n int) error { return d.give(n, func() error { return nil }) }

func (d *divided) give(n int, after func() error) error {
	p := d.state.Pool(d.pool)
	for n > 0 {
		t, r := p.Ring.At(addr.Offset(rand.Uint64N(uint64(p.Ring.Size()))))
		if t.Owner == ring.Free {
			continue
		}
		n -= 2
		to := peerID(n & 1)
		if to == t.Owner {
			to = peerID(2)
		}
		part := addr.Range{Start: r.Start + 1, End: r.Start + 2}
		if _, err := d.decide(t.Owner, chronicle.Give{Pool: d.pool, Range: part, To: to}); err != nil {
			return err
		}
		if err := after(); err != nil {
			return err
		}
		if _, err := d.decide(to, chronicle.Give{Pool: d.pool, Range: part, To: t.Owner}); err != nil {
			return err
		}
		if err := after(); err != nil {
			return err
		}
	}
	return nil
}

// measureRing measures a ring of 10,000 tokens, in absolute time where its goal is stated so: P10, its growth: P12, and
// what peers do with each other's: G20 and G21.
func measureRing(b *bench) error {
	big, err := newDivided(100, manyTokens/2) // what is free lies between: as many tokens again
	if err != nil {
		return err
	}
	small, err := newDivided(100, manyTokens/20)
	if err != nil {
		return err
	}
	tokens := big.state.Pool(big.pool).Ring.Len()
	lookups := func(d *divided) func(n int) error {
		p := d.state.Pool(d.pool)
		return func(n int) error {
			sum := peer.ID{}
			for range n {
				t, _ := p.Ring.At(addr.Offset(rand.Uint64N(uint64(p.Ring.Size()))))
				sum[0] += t.Owner[0]
			}
			return nil
		}
	}
	size := float64(len(big.state.Encode()))
	list := []contender{
		computing("lookup", lookups(big)), computing("lookup small", lookups(small)),
		computing("snapshot", repeated(func() error {
			if len(big.state.Encode()) == 0 {
				return errFull
			}
			return nil
		})),
		computing("slot", big.giveAndBack), computing("slot small", small.giveAndBack),
		computing("digest", big.giveAndDigest), computing("digest small", small.giveAndDigest),
	}
	others, err := big.exchanges()
	if err != nil {
		return err
	}
	got, err := interleave(b.rounds, b.slice/4, append(list, others...))
	if err != nil {
		return err
	}
	scaled := func(s spread, unit float64) spread { return spread{s.q1 / unit, s.median / unit, s.q3 / unit} }
	what := fmt.Sprintf("a ring of %d tokens", tokens)
	b.add(row{goal: "P10", what: what + ": look up an owner", limit: 200, unit: " ns", got: got.p50("lookup")})
	b.add(row{goal: "P10", what: what + ": apply a slot", limit: 10, unit: " µs", got: scaled(got.p50("slot"), 1e3)})
	b.add(row{goal: "P10", what: what + ": make a snapshot", limit: 10, unit: " ms", got: scaled(got.p50("snapshot"), 1e6)})
	each := size / float64(tokens)
	b.add(row{goal: "P10 G21", what: "bytes of the snapshot for each token, counted", limit: 8, unit: " B", got: spread{each, each, each}})
	b.add(row{goal: "P12", what: "ten times the tokens: look up an owner", limit: 1.2, got: got.times("lookup", "lookup small")})
	b.add(row{goal: "P12 G22", what: "ten times the tokens: apply a slot", limit: 1.2, got: got.times("slot", "slot small")})
	b.add(row{goal: "P12 G22", what: "ten times the tokens: apply a slot, and make the digest", limit: 1.2, got: got.times("digest", "digest small")})
	b.addExchanges(what, got)
	return nil
}
