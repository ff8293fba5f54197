package networks

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// poolsOf is a node as far as vain knows it.
type poolsOf struct {
	pools   []ipam.PoolStatus
	removed []string
	refuses error
}

func (p *poolsOf) Status(context.Context) (ipam.Status, error) {
	return ipam.Status{Pools: slices.Clone(p.pools)}, nil
}
func (p *poolsOf) Snapshot(ctx context.Context) (ipam.Status, error) { return p.Status(ctx) }
func (p *poolsOf) RemovePool(_ context.Context, pool string) error {
	p.removed = append(p.removed, pool)
	return p.refuses
}

// Only the pool that was made for a network, which no list has shown before the engine gave it back, is removed.
func TestPoolsOfRefusedNetworks(t *testing.T) {
	pool := netip.MustParsePrefix("10.79.0.0/24")
	network := []dockerd.Network{{Name: "lab79", Subnets: []dockerd.Subnet{{Prefix: pool}}}}
	excluded := []ipam.RangeStatus{{Kind: "excluded"}}
	for name, tt := range map[string]struct {
		there, away, refused bool // the pool, before; the engine; the removal
		listed, late         bool // before it was given back; after that
		holders              []ipam.RangeStatus
		want                 int
	}{
		"a refused network":                      {want: 1},
		"a pool that was there":                  {there: true},
		"a network that was there":               {listed: true},
		"a list that comes late":                 {late: true},
		"an engine that starts, or is not asked": {away: true},
		"an exclusion of an operator":            {holders: excluded},
		"another network is on it after all":     {refused: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			n := &poolsOf{}
			is := ipam.PoolStatus{Pool: pool, Holders: tt.holders}
			if tt.there {
				n.pools = append(n.pools, is)
			}
			if tt.refused {
				n.refuses = errors.New("a network is on it")
			}
			v := NewRefused(n, func() dockerd.State { return dockerd.State{Connected: !tt.away} }, slog.New(slog.DiscardHandler))
			before := v.Before(t.Context())
			if !tt.there {
				n.pools = append(n.pools, is)
			}
			v.Granted(before, pool)
			if v.See(nil); tt.listed {
				v.See(network)
			}
			v.Released(pool)
			if tt.late {
				v.See(network)
			}
			for len(v.back) > 0 {
				v.remove(t.Context(), <-v.back)
			}
			if len(n.removed) != tt.want {
				t.Errorf("removed %v", n.removed)
			}
		})
	}
}
