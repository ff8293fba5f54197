package node_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// A slow disk: the first request is given up while it is committed, and the
// user starts the container again before the grant is taken back.
func TestGivenUpAndAskedAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		d.slow = 30 * time.Second
		small := ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.60.0.0/30"), Range: netip.MustParsePrefix("10.60.0.0/30")}
		q := ipam.AddressRequest{Network: small, Purpose: ipam.ForContainer, Name: "web", Address: netip.MustParseAddr("10.60.0.1")}
		// Others lead, so that the request that is given up waits for a commit.
		for _, name := range []string{"first", "second"} {
			go func() { _, _ = n.RequestAddress(context.Background(), request(name)) }()
			time.Sleep(time.Second)
		}
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 45*time.Second)
			defer cancel()
			_, _ = n.RequestAddress(ctx, q)
		}()
		time.Sleep(50 * time.Second)
		g, err := n.RequestAddress(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		q.Name = "db"
		if other, err := n.RequestAddress(context.Background(), q); !errors.Is(err, ipam.ErrAddressInUse) {
			t.Errorf("web has %v, db got %v, %v", g.Address, other.Address, err)
		}
	})
}

// slowDisk takes its time for each commit, also for one of nothing.
type slowDisk struct {
	disk
	takes time.Duration
}

func (d *slowDisk) Commit(fill func(put func(bucket string, key, value []byte) error) error) error {
	err := d.disk.Commit(fill)
	time.Sleep(d.takes)
	return err
}

// Frames come faster than the disk is: a caller that serves some with its own
// request goes with its answer.
func TestCallerIsNotKeptByFrames(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &slowDisk{disk: disk{records: machinetest.Disk{}}, takes: 10 * time.Millisecond}
		n, err := node.New(node.Config{Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))}, Store: d, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		serve(t, n)
		self, err := n.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		frame := wire.Encode(nil, &wire.Frame{Header: wire.Header{From: peer.ID{9}, To: self.ID, Boot: 1, Nonce: 1}, Body: wire.Hello{Name: "host-b", Spoken: 1}})
		end := time.Now().Add(time.Minute)
		var frames sync.WaitGroup
		frames.Go(func() { // as gossip does
			for time.Now().Before(end) {
				n.Deliver(func(yield func([]byte, int) bool) { yield(frame, 0) })
				time.Sleep(6 * time.Millisecond)
			}
		})
		for range 10 {
			time.Sleep(23 * time.Millisecond)
			begun := time.Now()
			if _, err := n.RequestAddress(t.Context(), request("web")); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 30*time.Millisecond { // of a commit that is under way, and its own
				t.Errorf("a request took %v", took)
			}
		}
		frames.Wait()
		if n.Stop(); n.IsAtWork() {
			t.Error("frames are served still")
		}
	})
}

// What has happened is taken in although its caller has gone: a release, a
// withdrawal, and the pool of a network that nobody was told of.
func TestNewsOutlivesItsCaller(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		held, err := n.RequestAddress(t.Context(), request("web"))
		if err != nil {
			t.Fatal(err)
		}
		given, err := n.RequestAddress(t.Context(), request("db"))
		if err != nil {
			t.Fatal(err)
		}
		d.slow = 25 * time.Second
		late := func(f func(ctx context.Context) error) {
			t.Helper()
			go func() { _, _ = n.RequestAddress(context.Background(), request("other")) }()
			time.Sleep(time.Second)
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if err := f(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			time.Sleep(5 * time.Minute)
		}
		late(func(ctx context.Context) error { return n.ReleaseAddress(ctx, network, held.Address.Addr()) })
		late(func(ctx context.Context) error { return n.Withdraw(ctx, given.Ticket) })
		for _, g := range []ipam.AddressGrant{held, given} {
			if who, err := n.Who(t.Context(), g.Address.Addr()); err != nil || who.State == "held" {
				t.Errorf("%v is still held: %+v, %v", g.Address, who, err)
			}
		}
		// The pool is granted by a commit during which its caller goes.
		for _, name := range []string{"first", "second"} {
			go func() { _, _ = n.RequestAddress(context.Background(), request(name)) }()
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		if _, err := n.RequestPool(ctx, ipam.PoolRequest{Space: ipam.Local}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(5 * time.Minute)
		s, err := n.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range s.Pools {
			if p.Chosen {
				t.Errorf("pool %v is left of a network that was never made", p.Pool)
			}
		}
	})
}

// A panic on the way leaves nobody waiting: the node stops, and says so, and
// blames no disk.
func TestPanicStopsTheNode(t *testing.T) {
	boom := false
	n, err := node.New(node.Config{
		Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))},
		Store:   &disk{records: machinetest.Disk{}}, Logger: slog.New(slog.DiscardHandler),
		ObserveNote: func(ipam.Note) {
			if boom {
				panic("boom")
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	boom = true
	for _, name := range []string{"web", "db"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := n.RequestAddress(ctx, request(name)); !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("%s: %v", name, err)
		}
	}
	const says = "ringlet on host-a has stopped at an error of its own (panic: boom): report it with what ringlet bundle writes, it starts again by itself"
	if err := n.Run(t.Context()); !errors.Is(err, ipam.ErrStopped) || err.Error() != says {
		t.Errorf("Run returned %v", err)
	}
}

// Looks whose caller gives up do not touch what it was given. For the race
// detector.
func TestLookThatIsGivenUp(t *testing.T) {
	d := &disk{}
	n := start(t, d, ipam.Config{})
	d.slow = 5 * time.Millisecond
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 40 {
			_, _ = n.RequestAddress(context.Background(), request(string(rune('a'+i))+"x"))
		}
	}()
	for range 40 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		s, err := n.Status(ctx)
		if err != nil && s.Verdict != "" {
			t.Error("a status comes with an error")
		}
		cancel()
	}
	<-done
}

// So it is with a part of the addresses, and with a check.
func TestOtherLooksThatAreGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		if _, err := n.RequestAddress(t.Context(), request("first")); err != nil {
			t.Fatal(err)
		}
		d.hung = make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { _, _ = n.RequestAddress(context.Background(), request("second")) })
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		all.Go(func() {
			if list, err := n.List(ctx, ipam.Listing{Held: true}); err == nil || list.Addresses != nil {
				t.Errorf("got %v, %v", list, err)
			}
		})
		all.Go(func() {
			if a, err := n.Check(ctx); err == nil || len(a.Findings) > 0 {
				t.Errorf("got %+v, %v", a, err)
			}
		})
		time.Sleep(2 * time.Second)
		close(d.hung)
		all.Wait()
	})
}
