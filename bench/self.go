package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"go.etcd.io/bbolt"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
)

// What this program serves on a socket when it is started with one of these and the socket's path.
const (
	bareArg     = "serve-bare"
	memoryArg   = "serve-from-memory"
	oneByOneArg = "serve-one-by-one"
)

// selfServer returns what serves a socket if that is what this program was started for, or nil.
func selfServer(arg string) func(socket string) error {
	switch arg {
	case bareArg:
		return bareServer
	case memoryArg:
		return memoryServer
	case oneByOneArg:
		return oneByOneServer
	}
	return nil
}

// startSelf runs this program as such a server, in a new directory.
func (b *bench) startSelf(arg string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := b.sub(arg)
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "self.sock")
	p, err := b.start(dir, func() error { return activate(b.ctx, socket) }, self, []string{arg, socket})
	if err != nil {
		return nil, err
	}
	p.path = socket
	return p, nil
}

// untilTold returns a context that ends when the process is told to.
func untilTold() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM)
}

// memoryServer is ringlet's driver and node with a store that keeps nothing.
func memoryServer(socket string) error {
	return serve(socket, &memory{}, func(c calls) driver.Backend { return c })
}

// oneByOneServer is ringlet's driver and node with a bbolt commit for each call, which none shares with another.
func oneByOneServer(socket string) error {
	floor, err := openBolt(filepath.Join(filepath.Dir(socket), "one-by-one.db"))
	if err != nil {
		return err
	}
	defer floor.db.Close()
	return serve(socket, &updates{floor.db}, func(c calls) driver.Backend { return &oneByOne{calls: c} })
}

// serve has a driver and a node with a store serve a socket until they are told to end.
func serve(socket string, store node.Store, backend func(calls) driver.Backend) error {
	n, err := newNode(store, nil)
	if err != nil {
		return err
	}
	d, err := driver.New(driver.Config{Backend: backend(calls{n}), Logger: silent})
	if err != nil {
		return err
	}
	l, err := driver.Listen(socket)
	if err != nil {
		return err
	}
	ctx, stop := untilTold()
	defer stop()
	go func() { _ = n.Run(ctx) }()
	return d.Serve(ctx, l)
}

// calls makes a node the driver's backend.
type calls struct{ *node.Node }

func (c calls) RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
	return c.Node.RequestPool(ctx, r)
}

func (c calls) ReleaseAddress(ctx context.Context, n ipam.Network, a netip.Addr) error {
	return c.Node.ReleaseAddress(ctx, n, a)
}
func (c calls) Greeted(ctx context.Context) { _ = c.Greet(ctx) }
func (calls) Recheck()                      {}

// oneByOne has each call about an address wait for the one before it, so that no two share a commit.
type oneByOne struct {
	calls
	mu sync.Mutex
}

func (o *oneByOne) RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls.RequestAddress(ctx, r)
}

func (o *oneByOne) ReleaseAddress(ctx context.Context, n ipam.Network, a netip.Addr) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls.ReleaseAddress(ctx, n, a)
}

// updates is a new store that has bbolt commit at once what it is given, and nothing before it.
type updates struct{ db *bbolt.DB }

func (*updates) Load(func(bucket string, key, value []byte) error) error { return nil }

// errNothing ends a transaction that would write nothing.
var errNothing = errors.New("nothing was put")

func (u *updates) Commit(fill func(put func(bucket string, key, value []byte) error) error) error {
	err := u.db.Update(func(tx *bbolt.Tx) error {
		wrote := false
		err := fill(func(bucket string, key, value []byte) error {
			wrote = true
			in, err := tx.CreateBucketIfNotExists([]byte(bucket))
			switch {
			case err != nil:
				return err
			case value == nil:
				return in.Delete(key)
			}
			return in.Put(key, value)
		})
		if err == nil && !wrote {
			return errNothing
		}
		return err
	})
	if errors.Is(err, errNothing) {
		return nil
	}
	return err
}
