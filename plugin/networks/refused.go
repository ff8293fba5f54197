package networks

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/plugin/dockerd"
)

// Refused removes the pools that were made for networks which never came to be: the engine asks for the pool first, and gives it
// back where its network driver then refuses the network. Such a pool would keep its name and its subnet from the next try.
// A pool of a network that was there stays, as it remembers who had which address. Safe for concurrent use.
type Refused struct {
	node   Node
	engine func() dockerd.State
	logger *slog.Logger

	mu   sync.Mutex
	made map[netip.Prefix]bool // by this process, for a network that no list has shown
	back chan netip.Prefix     // of those, what the engine gave back
}

// Node is what [Refused] asks of the node.
type Node interface {
	Status(ctx context.Context) (ipam.Status, error)
	Snapshot(ctx context.Context) (ipam.Status, error)
	RemovePool(ctx context.Context, pool string) error
}

// maxRefused bounds what is remembered: more only stay.
const maxRefused = 256

// NewRefused returns what has removed nothing yet. engine returns how far the engine is in sight.
func NewRefused(n Node, engine func() dockerd.State, logger *slog.Logger) *Refused {
	return &Refused{node: n, engine: engine, logger: logger, made: map[netip.Prefix]bool{}, back: make(chan netip.Prefix, maxRefused)}
}

// Before returns the pools that there are, for Granted.
func (v *Refused) Before(ctx context.Context) map[netip.Prefix]bool {
	if v == nil || !v.engine().Connected {
		return nil // an engine that starts asks for what it has, and without lists nobody tells what never came to be
	}
	st, err := v.node.Snapshot(ctx)
	if err != nil {
		return nil
	}
	there := map[netip.Prefix]bool{}
	for i := range st.Pools {
		there[st.Pools[i].Pool] = true
	}
	return there
}

// Granted notes a pool that was made for a network.
func (v *Refused) Granted(before map[netip.Prefix]bool, pool netip.Prefix) {
	if before == nil || before[pool] {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.made) < maxRefused {
		v.made[pool] = true
	}
}

// See takes a list of networks: those that it has came to be.
func (v *Refused) See(networks []dockerd.Network) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, n := range networks {
		for _, s := range n.Subnets {
			delete(v.made, s.Prefix)
		}
	}
}

// Released notes that the engine gave back the pool of a network.
func (v *Refused) Released(pool netip.Prefix) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.made[pool] {
		select {
		case v.back <- pool:
		default: // it stays
		}
	}
}

const (
	// removeTime is for how long a removal waits for the engine's list and for other hosts.
	removeTime = 20 * time.Second
	// removeAgain is how soon one that was refused is tried again, and removeTries how often. The release may be that of an
	// earlier network for a minute after a start, so that the node takes this one for one in the making.
	removeAgain = 15 * time.Second
	removeTries = 8
)

// Run removes pools until ctx ends. Its error is always nil.
func (v *Refused) Run(ctx context.Context) error {
	tries := map[netip.Prefix]int{}
	timer := time.NewTimer(removeAgain)
	defer timer.Stop()
	timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case pool := <-v.back:
			tries[pool] = 0
			timer.Reset(0)
		case <-timer.C:
			for pool := range tries {
				if tries[pool]++; v.remove(ctx, pool) || tries[pool] == removeTries {
					delete(tries, pool)
				}
			}
			if len(tries) > 0 {
				timer.Reset(removeAgain)
			}
		}
	}
}

// operated reports whether an operator excluded a range, or reserved it.
func operated(r ipam.RangeStatus) bool {
	return r.Kind == chronicle.KindExcluded.String() || r.Kind == chronicle.KindKeptForName.String()
}

// remove removes a pool once the next list shows no network on it. What an operator reserved in it meanwhile keeps it. It reports
// whether there is nothing left to do.
func (v *Refused) remove(ctx context.Context, pool netip.Prefix) (done bool) {
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	st, err := v.node.Status(ctx)
	if err != nil {
		return false
	}
	at := slices.IndexFunc(st.Pools, func(p ipam.PoolStatus) bool { return p.Pool == pool })
	if at < 0 || slices.ContainsFunc(st.Pools[at].Holders, operated) {
		return true
	}
	v.mu.Lock()
	still := v.made[pool]
	v.mu.Unlock()
	if !still {
		return true
	}
	if err := v.node.RemovePool(ctx, pool.String()); err != nil { // a network is on it after all, here or on another host
		v.logger.Info("pool of a refused network kept", slog.String("pool", pool.String()), logattr.Err(err))
		return errors.Is(err, ipam.ErrPoolNotFound)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.made, pool)
	v.logger.Info("pool of a refused network removed", slog.String("pool", pool.String()))
	return true
}
