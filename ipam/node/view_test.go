package node_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
)

// A view that panics gives its caller an error, the log a stack, and everybody
// else what they asked for.
func TestViewPanics(t *testing.T) {
	var log strings.Builder
	n, err := node.New(node.Config{Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1))}, Store: &disk{records: machinetest.Disk{}}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := n.Look(t.Context(), func() { panic("boom") }); err == nil || errors.Is(err, ipam.ErrStopped) || !strings.Contains(err.Error(), "boom") {
			t.Fatalf("got %v", err)
		}
	}
	if _, err := n.RequestAddress(t.Context(), request("web")); err != nil {
		t.Errorf("a grant afterwards: %v", err)
	}
	if s, err := n.Status(t.Context()); err != nil || s.Pools[0].Held != 1 {
		t.Errorf("a status afterwards: %+v, %v", s, err)
	}
	if got := log.String(); strings.Count(got, "view panicked") != 3 || !strings.Contains(got, "view_test.go") {
		t.Errorf("the log lacks a panic or where it was:\n%s", got)
	}
}

// A request that is done does not wait for the views that came with it.
func TestRequestsGoBeforeViews(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		mend := hang(t, n, d)
		const second = time.Second
		var order []string
		var mu sync.Mutex
		done := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		for range 2 {
			go func() {
				_ = n.Look(t.Context(), func() { time.Sleep(second) })
				done("view")
			}()
			synctest.Wait()
		}
		for _, name := range []string{"a", "b"} {
			go func() {
				if _, err := n.RequestAddress(t.Context(), request(name)); err != nil {
					t.Error(err)
				}
				done("grant")
			}()
			synctest.Wait()
		}
		mend()
		synctest.Wait()
		mu.Lock()
		if got := strings.Join(order, " "); got != "grant grant" {
			t.Errorf("at once are done: %s", got)
		}
		mu.Unlock()
		time.Sleep(3 * second)
		synctest.Wait()
		if got := strings.Join(order, " "); got != "grant grant view view" {
			t.Errorf("in the end are done: %s", got)
		}
	})
}

// However many guests look, one view of theirs is in a batch, and a request waits
// for no more than that.
func TestGuestsLookOneByOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, &disk{}, ipam.Config{})
		const view = 10 * time.Millisecond
		end := time.Now().Add(time.Second)
		var looks atomic.Int64
		for range 64 {
			go func() {
				for time.Now().Before(end) {
					if n.Look(node.AsGuest(t.Context()), func() { time.Sleep(view) }) == nil {
						looks.Add(1)
					}
				}
			}()
		}
		time.Sleep(view / 2)
		for range 20 {
			begun := time.Now()
			if _, err := n.RequestAddress(t.Context(), request(begun.String())); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(begun); took > 2*view {
				t.Errorf("a grant took %v beside guests, whose views take %v", took, view)
			}
			time.Sleep(view / 3)
		}
		time.Sleep(2 * time.Second)
		if looks.Load() < 50 {
			t.Errorf("the guests had %d looks in a second", looks.Load())
		}
	})
}

// A guest that gives up while another looks gets its reason, and takes no turn.
func TestGuestGivesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := start(t, &disk{}, ipam.Config{})
		go func() { _ = n.Look(node.AsGuest(t.Context()), func() { time.Sleep(time.Minute) }) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(node.AsGuest(t.Context()), time.Second)
		defer cancel()
		if err := n.Look(ctx, func() { t.Error("it looked") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Minute)
		if err := n.Look(node.AsGuest(t.Context()), func() {}); err != nil {
			t.Error(err)
		}
	})
}

// All who wait for the status share one; a caller that comes while it is made gets
// the next.
func TestStatusIsShared(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		d := &disk{}
		n := start(t, d, ipam.Config{})
		before := d.tried()
		mend := hang(t, n, d)
		when := make(chan time.Time, 100)
		for range cap(when) {
			go func() {
				s, err := n.Status(t.Context())
				if err != nil || s.Pools[0].Held != 1 {
					t.Errorf("got %+v, %v", s.Pools, err)
				}
				when <- s.AsOf
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		mend()
		first := <-when
		for range cap(when) - 1 {
			if at := <-when; !at.Equal(first) {
				t.Fatalf("one is of %v, another of %v", first, at)
			}
		}
		if tries := d.tried() - before; tries > 2 {
			t.Errorf("a grant and a hundred who wait took %d batches", tries)
		}
	})
}

// A listing in portions has each address once, whatever else is done between them.
func TestListInPortions(t *testing.T) {
	n := start(t, &disk{}, ipam.Config{})
	const held = 1200
	for i := range held {
		r := request(time.Duration(i).String())
		r.Network.Pool, r.Network.Range = netip.MustParsePrefix("10.60.0.0/20"), netip.MustParsePrefix("10.60.0.0/20")
		if _, err := n.RequestAddress(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[netip.Addr]bool{}
	parts := 0
	for q := (ipam.Listing{}); ; parts++ {
		p, err := n.List(t.Context(), q)
		if err != nil || len(p.Addresses) > 500 {
			t.Fatalf("%d addresses at once, %v", len(p.Addresses), err)
		}
		for _, a := range p.Addresses {
			if seen[a.Address] {
				t.Errorf("%v comes twice", a.Address)
			}
			if a.State == "held" { // not what the pool reserves
				seen[a.Address] = true
			}
		}
		if q.After = p.Next; !q.After.IsValid() {
			break
		}
	}
	if len(seen) != held || parts < 2 {
		t.Errorf("%d addresses in %d portions, want %d", len(seen), parts+1, held)
	}
}
