package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
)

// label is the name that a cluster has unless it is given another.
const label = "ringlet"

// silent is a log that nobody reads.
var silent = slog.New(slog.DiscardHandler)

func machineConfig() ipam.Config {
	return ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1)), Deal: chronicle.DealAll, Marks: ipam.Marks{Label: label}}
}

// newNode makes a node of a store that was opened with the preview, if there is one.
func newNode(store node.Store, preview *node.Preview) (*node.Node, error) {
	return node.New(node.Config{Machine: machineConfig(), Store: store, Preview: preview, Logger: silent})
}

// openStore opens a database as ringlet does. preview may be nil.
func openStore(dir string, preview persist.Preview) (*persist.Store, error) {
	return persist.Open(persist.Config{Path: filepath.Join(dir, "ringlet.db"), Schema: ipam.SchemaVersion, Preview: preview, Logger: silent})
}

// openNode opens a node on the database in dir.
func openNode(dir string) (*node.Node, *persist.Store, error) {
	preview := node.NewPreview(machineConfig())
	store, err := openStore(dir, preview)
	if err != nil {
		return nil, nil, err
	}
	n, err := newNode(store, preview)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return n, store, nil
}

// caller is somebody who allocates and frees in turn.
type caller struct {
	node *node.Node
	net  ipam.Network
	name string
	n    int
	held netip.Addr
}

var network16 = ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/16"), Range: netip.MustParsePrefix("10.50.0.0/16")}

// next allocates, or frees what was allocated.
func (c *caller) next() error {
	ctx := context.Background()
	if c.held.IsValid() {
		a := c.held
		c.held = netip.Addr{}
		return c.node.ReleaseAddress(ctx, c.net, a)
	}
	c.n++
	g, err := c.node.RequestAddress(ctx, ipam.AddressRequest{
		Network: c.net, Purpose: ipam.ForContainer, Name: fmt.Sprintf("%s-%d", c.name, c.n), MAC: ipam.MAC{2, 0x42, 10, 1, 2, 3},
	})
	c.held = g.Address.Addr()
	return err
}

// pair allocates and frees.
func (c *caller) pair() error { return errors.Join(c.next(), c.next()) }

func (c *caller) timed() func() (time.Duration, error) { return timed(c.next) }

// memory is a store that keeps nothing.
type memory struct{ mu sync.Mutex }

func (*memory) Load(func(bucket string, key, value []byte) error) error { return nil }

func (m *memory) Commit(fill func(put func(bucket string, key, value []byte) error) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fill(func(string, []byte, []byte) error { return nil })
}

// many is how many clients come at once.
const many = 64

// measureNode measures durable calls in process: P5.
func measureNode(b *bench) error {
	dir, err := b.sub("node")
	if err != nil {
		return err
	}
	n, store, err := openNode(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	floor, err := openBolt(filepath.Join(dir, "floor.db"))
	if err != nil {
		return err
	}
	defer floor.db.Close()
	got, err := interleave(b.rounds, 10*b.slice, []contender{
		clients("ringlet", many, func(i int) func() (time.Duration, error) {
			return (&caller{node: n, net: network16, name: fmt.Sprintf("client-%d", i)}).timed()
		}),
		clients("bbolt", many, func(int) func() (time.Duration, error) { return timed(floor.one) }),
	})
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P5", what: "64 callers in process, durable, rate against bbolt with group commit and consecutive keys", limit: 0.8, least: true,
		got: got.rates("ringlet", "bbolt"), note: fmt.Sprintf("%s against %s a second", number(got.rate("ringlet")), number(got.rate("bbolt"))),
	})
	return nil
}
