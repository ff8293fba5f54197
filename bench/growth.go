package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
)

// amidst returns the core of one peer of a large cluster, restored from what it would have on its disk.
func amidst(peers, tokens int) (*machine, error) {
	d, err := newDivided(peers, tokens)
	if err != nil {
		return nil, err
	}
	return d.restored()
}

// restored returns the core of a peer of the cluster.
func (d *divided) restored() (*machine, error) {
	self := peerID(d.peers - 1) // the last in the roster
	identity := append([]byte{1}, self[:]...)
	identity = codec.Bytes(codec.Uint(identity, 1), "host-a")
	identity = codec.Uint(identity, 0)
	load := func(visit func(bucket string, key, value []byte) error) error {
		if err := visit("chronicle", []byte{0}, d.state.Encode()); err != nil {
			return err
		}
		return visit("identity", []byte("self"), identity)
	}
	core, err := ipam.Restore(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1)), HostBoot: ipam.HostBoot{ID: "new"}, BootAlone: true, Deal: chronicle.DealNone}, load)
	if err != nil {
		return nil, err
	}
	m := drive(core)
	for range 60 { // nobody answers that this database is an old one
		core.Step(m.now, ipam.Tick{})
		m.now = m.now.Add(time.Second)
	}
	net := network8
	net.Range = d.part(self)
	m.request = ipam.AddressRequest{Network: net, Purpose: ipam.ForContainer, MAC: ipam.MAC{2, 0x42, 10, 1, 2, 3}}
	m.release = ipam.AddressRelease{Network: net}
	_, err = m.allocate(netip.Addr{})
	return m, err
}

// measureGrowth measures an allocation and its release at ten times of what there is: P12 and G22.
func measureGrowth(b *bench) error {
	type place struct{ peers, tokens int }
	places := map[string]place{
		"10 peers, 1,000 tokens":       {10, 500},
		"100 peers, 1,000 tokens":      {100, 500},
		"100 peers, 10,000 tokens":     {100, 5_000},
		"1,000 peers, 10,000 tokens":   {1_000, 5_000},
		"5 peers, 10 tokens":           {5, 5},
		"5 peers, 10,000 tokens":       {5, 5_000},
		"100 peers, 1,000 tokens, two": {100, 500}, // beside itself: what the noise makes of nothing
	}
	var list []contender
	for name, p := range places {
		m, err := amidst(p.peers, p.tokens)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := m.pairs(2_000); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, computing(name, m.pairs))
	}
	got, err := interleave(b.rounds, b.slice/2, list)
	if err != nil {
		return err
	}
	for _, step := range []struct{ goal, what, from, to string }{
		{"P12", "ten times the peers, 100", "10 peers, 1,000 tokens", "100 peers, 1,000 tokens"},
		{"P12", "ten times the tokens, 10,000", "100 peers, 1,000 tokens", "100 peers, 10,000 tokens"},
		{"P12", "ten times the peers, 1,000", "100 peers, 10,000 tokens", "1,000 peers, 10,000 tokens"},
		{"G22", "a thousand times the tokens, 10,000, of 5 peers", "5 peers, 10 tokens", "5 peers, 10,000 tokens"},
		{"P12", "the same twice, to show the noise", "100 peers, 1,000 tokens", "100 peers, 1,000 tokens, two"},
	} {
		b.add(row{
			goal: step.goal, what: "allocate and free in the core: " + step.what, limit: 1.2,
			got: got.times(step.to, step.from), note: duration(got.p50(step.to).median),
		})
	}
	if err := b.measurePools(); err != nil {
		return err
	}
	return b.measureMoreHeld()
}

// crossing allocates and frees n times, each time in another one of so many pools of 256 addresses.
func crossing(pools int) (func(n int) error, error) {
	networks := subnets(pools, 24)
	m, err := newMachine(networks[0].Pool.String())
	if err != nil {
		return nil, err
	}
	for _, net := range networks[1:] {
		if _, err := m.step(&ipam.PoolRequest{Space: net.Space, Pool: net.Pool}); err != nil {
			return nil, err
		}
	}
	cidrs := make([]netip.Prefix, pools)
	for i, net := range networks {
		cidrs[i] = net.Pool
	}
	if err := m.list(cidrs...); err != nil {
		return nil, err
	}
	next := 0
	return func(n int) error {
		for range n {
			next = (next + 1) % pools
			m.request.Network, m.release.Network = networks[next], networks[next]
			if err := m.pairs(1); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// measurePools measures the same at ten times the pools.
func (b *bench) measurePools() error {
	var list []contender
	for name, pools := range map[string]int{"10": 10, "100": 100, "1,000": 1_000} {
		pairs, err := crossing(pools)
		if err != nil {
			return fmt.Errorf("%s pools: %w", name, err)
		}
		if err := pairs(max(remembered, 300*pools)); err != nil { // until each address of each has been used
			return fmt.Errorf("%s pools: %w", name, err)
		}
		list = append(list, computing(name, pairs))
	}
	got, err := interleave(b.rounds, b.slice/2, list)
	if err != nil {
		return err
	}
	for _, step := range []struct{ from, to string }{{"10", "100"}, {"100", "1,000"}} {
		b.add(row{
			goal: "P12", what: "allocate and free in the core, in one pool after the other: ten times the pools, " + step.to, limit: 1.2,
			got: got.times(step.to, step.from), note: duration(got.p50(step.to).median),
		})
	}
	return nil
}

// measureMoreHeld measures the same at ten times the held addresses in one pool.
func (b *bench) measureMoreHeld() error {
	few := 100_000
	if b.short {
		few = 1_000
	}
	var list []contender
	for name, held := range map[string]int{"few": few, "many": 10 * few} {
		m, err := newMachine(network8.Pool.String())
		if err != nil {
			return err
		}
		// As full in both.
		f := fill{pool: network8.Pool.String(), window: 16 * held, held: held}
		if err := f.occupy(m); err != nil {
			return err
		}
		m.stay()
		if err := m.pairs(70_000); err != nil {
			return err
		}
		list = append(list, computing(name, m.pairs))
	}
	got, err := interleave(b.rounds, b.slice/2, list)
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P12", what: fmt.Sprintf("allocate and free in the core: ten times held, %d", 10*few), limit: 1.2,
		got: got.times("many", "few"), note: duration(got.p50("many").median),
	})
	return nil
}
