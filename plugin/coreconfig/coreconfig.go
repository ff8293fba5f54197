// Package coreconfig turns what an operator has set, and what tells this machine from others, into the settings of the core.
// It refuses to know the database, the engine, and what the core does with its settings.
package coreconfig

import (
	crand "crypto/rand"
	"math/rand/v2"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/identity"
)

// Of turns the settings into the core's.
func Of(cfg config.Config) ipam.Config {
	rest := cfg.Rest
	if rest == 0 {
		rest = -1 // none, where zero would mean the default
	}
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // never fails
	return ipam.Config{
		Name: peer.Name(cfg.Name), Zone: peer.Zone(cfg.Zone), Machine: identity.Machine(cfg.Name), Rand: rand.New(rand.NewChaCha8(seed)),
		Rest: rest, Deal: deal(cfg.Deal), Chunk: addr.Count(cfg.Chunk),
		Join: len(cfg.Join) > 0 && cfg.Bootstrap.N != 1 || cfg.Bootstrap.N > 1, Formation: formation(cfg),
		FoundAlone: cfg.Bootstrap.N == 1,
		HostBoot:   ipam.HostBoot{ID: identity.HostBoot(), At: identity.HostStart()}, BootAlone: cfg.BootAlone,
		CallTime: cfg.Timeout, EvictAfter: cfg.EvictAfter, Quarantine: cfg.Quarantine, Marks: ipam.Marks{Label: cfg.Cluster},
		Subnets: ipam.Subnets{Universe: cfg.Universe, ULA: cfg.DeriveULA, Bits4: cfg.Subnet.V4, Bits6: cfg.Subnet.V6, Avoid: cfg.Avoid},
	}
}

func deal(d config.Deal) chronicle.Deal {
	switch d {
	case config.DealAll:
		return chronicle.DealAll
	case config.DealNone:
		return chronicle.DealNone
	case config.DealHalf:
	}
	return chronicle.DealHalf
}

// formation says how a peer without a cluster founds one with others. The
// hosts in RINGLET_JOIN found it, or as many as RINGLET_BOOTSTRAP says.
func formation(cfg config.Config) ipam.Formation {
	hosts := gossip.Seeds(cfg.Join)
	f := ipam.Formation{Size: len(hosts), List: gossip.ListHash(hosts), Observer: cfg.Bootstrap.Observer}
	if n := cfg.Bootstrap.N; n > 0 && n != len(hosts) {
		f.Size, f.List = n, 0
	}
	if f.Size < 2 {
		return ipam.Formation{NamesNobody: len(cfg.Join) == 0 && cfg.Bootstrap.N == 0}
	}
	return f
}
