package node_test

import (
	"context"
	"errors"
	"fmt"
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
)

// disk is a store in memory that can be slow, and can fail.
type disk struct {
	mu      sync.Mutex
	records machinetest.Disk
	slow    time.Duration
	fail    error
	hung    chan struct{} // no commit ends before it is closed; nil: none hangs
	commits int
	tries   int // commits, and steps of the machine after which there was nothing to write
}

func (d *disk) Load(visit func(bucket string, key, value []byte) error) error {
	return d.records.Load(visit)
}

func (d *disk) Commit(fill func(put func(bucket string, key, value []byte) error) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tries++
	var save []ipam.Record
	if err := fill(func(bucket string, key, value []byte) error {
		r := ipam.Record{Bucket: bucket, Key: append([]byte(nil), key...)}
		if value != nil {
			r.Value = append([]byte{}, value...)
		}
		save = append(save, r)
		return nil
	}); err != nil {
		return err
	}
	if len(save) == 0 {
		return nil
	}
	time.Sleep(d.slow)
	if d.hung != nil {
		<-d.hung
	}
	if d.fail != nil {
		return d.fail
	}
	d.records.Commit(save)
	d.commits++
	return nil
}

// tried returns how often a commit was tried.
func (d *disk) tried() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tries
}

func start(t *testing.T, d *disk, cfg ipam.Config) *node.Node {
	t.Helper()
	if d.records == nil {
		d.records = machinetest.Disk{}
	}
	cfg.Name = "host-a"
	cfg.Rand = rand.New(rand.NewPCG(1, 2))
	n, err := node.New(node.Config{Machine: cfg, Store: d, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// serve runs the node for the time of the test, and returns what Run returns.
func serve(t *testing.T, n *node.Node) <-chan error {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(cancel)
	return ended
}

var network = ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.50.0.0/16"), Range: netip.MustParsePrefix("10.50.0.0/16")}

func request(name string) ipam.AddressRequest {
	return ipam.AddressRequest{Network: network, Purpose: ipam.ForContainer, Name: name}
}

func TestConcurrentRequestsShareCommits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		if _, err := n.RequestAddress(t.Context(), request("first")); err != nil {
			t.Fatal(err)
		}
		before := d.commits
		d.slow = 5 * time.Millisecond
		seen := make(chan netip.Addr, 64)
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				g, err := n.RequestAddress(t.Context(), request(fmt.Sprint("c", i)))
				if err != nil {
					t.Error(err)
				}
				seen <- g.Address.Addr()
			})
		}
		wg.Wait()
		close(seen)
		all := map[netip.Addr]bool{}
		for a := range seen {
			if all[a] {
				t.Errorf("%v handed out twice", a)
			}
			all[a] = true
		}
		if got := d.commits - before; got > 3 {
			t.Errorf("64 requests at once took %d commits", got)
		}
	})
}

func TestNothingIsAnsweredBeforeItIsOnDisk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{slow: time.Second}
		n := start(t, d, ipam.Config{})
		g, err := n.RequestAddress(t.Context(), request("web"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := ipam.Restore(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}, d.Load)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := m.Who(time.Now(), g.Address.Addr()); err != nil || s.State != "held" {
			t.Errorf("answered with %v, and the disk says %+v, %v", g.Address, s, err)
		}
	})
}

func TestCommitFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		ended := serve(t, n)
		d.slow, d.fail = time.Millisecond, errors.New("no space left on device")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if _, err := n.RequestAddress(t.Context(), request(fmt.Sprint("c", i))); !errors.Is(err, ipam.ErrStopped) {
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		d.mu.Lock()
		d.fail = nil
		d.mu.Unlock()
		if _, err := n.Status(t.Context()); !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("a look afterwards: %v", err)
		}
		if err := <-ended; !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A call that waited, and is served by a commit that fails, is not left
// waiting: its job is of an earlier batch.
func TestCommitFailsOfWhatWaited(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{AwaitInventory: true})
		ended := serve(t, n)
		done := make(chan error, 1)
		began := time.Now()
		go func() {
			_, err := n.RequestAddress(t.Context(), request("web"))
			done <- err
		}()
		synctest.Wait()
		mark, err := n.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d.mu.Lock()
		d.fail = errors.New("no space left on device")
		d.mu.Unlock()
		if _, err := n.Inventory(t.Context(), ipam.Inventory{After: mark}); !errors.Is(err, ipam.ErrStopped) {
			t.Errorf("the inventory: %v", err)
		}
		if err := <-done; !errors.Is(err, ipam.ErrStopped) || time.Since(began) != 0 {
			t.Errorf("the call that waited: %v after %v", err, time.Since(began))
		}
		<-ended
	})
}

// A caller that gives up before its request is begun leaves nothing behind;
// one that gives up while it is being served has the grant withdrawn.
func TestCallerGivesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		if _, err := n.RequestAddress(t.Context(), request("first")); err != nil {
			t.Fatal(err)
		}
		d.slow = 10 * time.Millisecond
		var wg sync.WaitGroup
		for i := range 32 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond)
				defer cancel()
				g, err := n.RequestAddress(ctx, request(fmt.Sprint("c", i)))
				switch {
				case err == nil && ctx.Err() != nil:
					if err := n.Withdraw(t.Context(), g.Ticket); err != nil {
						t.Error(err)
					}
				case err == nil:
					if err := n.ReleaseAddress(t.Context(), network, g.Address.Addr()); err != nil {
						t.Error(err)
					}
				case !errors.Is(err, context.DeadlineExceeded):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		s, err := n.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if s.Pools[0].Held != 1 {
			t.Errorf("%d addresses are held, and one container has one", s.Pools[0].Held)
		}
	})
}

func TestWaitingCallHasItsDeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{AwaitInventory: true})
		serve(t, n)
		began := time.Now()
		ctx, cancel := context.WithDeadline(t.Context(), began.Add(20*time.Second))
		defer cancel()
		_, err := n.RequestAddress(ctx, request("web"))
		if !errors.Is(err, ipam.ErrNotReady) {
			t.Errorf("got %v, want to be told what it waited for", err)
		}
		if took := time.Since(began); took != 20*time.Second-500*time.Millisecond {
			t.Errorf("answered after %v, want half a second before the caller gives up", took)
		}
		// What waits is served by the inventory, and by the end of the wait.
		done := make(chan error, 2)
		for i := range 2 {
			go func() {
				_, err := n.RequestAddress(t.Context(), request(fmt.Sprint("c", i)))
				done <- err
			}()
		}
		synctest.Wait()
		mark, err := n.Mark(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Inventory(t.Context(), ipam.Inventory{After: mark}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	})
}

// A machine that wants to be woken each second is. Where something else has it stepped meanwhile that is as good.
func TestAlarm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{Join: true})
		serve(t, n)
		synctest.Wait()
		before := d.tried()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := d.tried() - before; got < 55 || got > 65 {
			t.Errorf("it was stepped %d times in a minute, want 60", got)
		}
		before = d.tried()
		for range 150 {
			time.Sleep(400 * time.Millisecond)
			n.Present(ipam.Presence{Peer: peer.ID{1}, Alive: true})
		}
		synctest.Wait()
		if got := d.tried() - before; got < 150 || got > 155 {
			t.Errorf("it was stepped %d times while it heard of another 150 times", got)
		}
	})
}

// A call that waits is tried again at each alarm, whatever else has the machine stepped.
func TestAlarmWhileACallWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{Join: true})
		serve(t, n)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		go n.RequestAddress(ctx, request("web")) // there is no cluster: in vain
		synctest.Wait()
		before := d.tried()
		for range 150 {
			time.Sleep(400 * time.Millisecond)
			n.Present(ipam.Presence{Peer: peer.ID{1}, Alive: true})
		}
		synctest.Wait()
		if got := d.tried() - before - 150; got < 45 {
			t.Errorf("there were %d alarms in a minute", got)
		}
	})
}

func TestRestartKeepsWhatIsHeld(t *testing.T) {
	d := &disk{}
	n := start(t, d, ipam.Config{})
	g, err := n.RequestAddress(t.Context(), request("web"))
	if err != nil {
		t.Fatal(err)
	}
	before, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n = start(t, d, ipam.Config{})
	after, err := n.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.Self.ID != before.Self.ID || after.Cluster != before.Cluster || after.Self.Boot != before.Self.Boot+1 {
		t.Errorf("before %+v, after %+v", before.Self, after.Self)
	}
	if s, err := n.Who(t.Context(), g.Address.Addr()); err != nil || s.Name != "web" {
		t.Errorf("%+v, %v", s, err)
	}
	if broken, err := n.Check(t.Context()); err != nil || broken.Verdict != ipam.Fine {
		t.Errorf("%v, %v", broken, err)
	}
}

func BenchmarkRequestAndRelease(b *testing.B) {
	d := &disk{records: machinetest.Disk{}}
	n, err := node.New(node.Config{
		Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))}, Store: d, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	q := request("web")
	for b.Loop() {
		g, err := n.RequestAddress(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		if err := n.ReleaseAddress(b.Context(), network, g.Address.Addr()); err != nil {
			b.Fatal(err)
		}
	}
}
