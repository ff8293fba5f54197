package locks_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/lock"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/locks"
)

// host is a peer that is alone, on a database that stays.
type host struct {
	*locks.Keeper
	node *node.Node
	end  func()
}

// start starts the process of a host.
func start(t *testing.T, dir string) *host {
	t.Helper()
	machine := ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))}
	preview := node.NewPreview(machine)
	store, err := persist.Open(persist.Config{Path: filepath.Join(dir, "ringlet.db"), Schema: ipam.SchemaVersion, Preview: preview, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.New(node.Config{
		Machine: machine, Store: store, Preview: preview, Logger: slog.New(slog.DiscardHandler), Timeout: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	id, err := n.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k, err := locks.New(n, id.ID, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() { _ = n.Run(ctx) })
	wg.Go(func() { _ = k.Run(ctx) })
	h := &host{Keeper: k, node: n}
	h.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		n.Stop()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.end)
	return h
}

func (h *host) take(t *testing.T, name string, token uint64) uint64 {
	t.Helper()
	fence, err := h.Take(t.Context(), lock.Want{Name: name, Holder: "restic", Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return fence
}

// held returns the fences of the locks that are held.
func (h *host) held(t *testing.T) (out []uint64) {
	t.Helper()
	list, err := h.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		out = append(out, l.Fence)
	}
	return out
}

// A lock stays as long as its program renews it, and ends when that has not for the time of a lease.
func TestLease(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		h := start(t, t.TempDir())
		defer h.end()
		renewed, gone := h.take(t, "backup", 1), h.take(t, "report", 2)
		for range 12 {
			time.Sleep(5 * time.Second)
			if stands, err := h.Renew(t.Context(), "backup", renewed); !stands || err != nil {
				t.Fatalf("a lock that is renewed stands: %v, %v", stands, err)
			}
		}
		if got := h.held(t); len(got) != 1 || got[0] != renewed {
			t.Errorf("held are %v, renewed was %d", got, renewed)
		}
		if stands, err := h.Renew(t.Context(), "report", gone); stands || err != nil {
			t.Errorf("a lock that was not renewed stands: %v, %v", stands, err)
		}
		next := h.take(t, "report", 3)
		if stands, err := h.Renew(t.Context(), "report", gone); stands || err != nil || next <= gone {
			t.Errorf("the lock of the former holder stands with fence %d behind %d: %v, %v", next, gone, stands, err)
		}
		for _, fence := range []uint64{gone, next, next} {
			if err := h.Release(t.Context(), "report", fence); err != nil {
				t.Error(err)
			}
		}
		if got := h.held(t); len(got) != 1 {
			t.Errorf("held are %v", got)
		}
		time.Sleep(locks.Lease + locks.Grace - time.Second)
		if got := h.held(t); len(got) != 1 {
			t.Error("a lock ended before its lease")
		}
		time.Sleep(3 * time.Second)
		if got := h.held(t); len(got) > 0 {
			t.Errorf("held are %v, and nobody renews them", got)
		}
	})
}

// The process of a host starts anew. A program that renews its lock keeps it, and what a dead one had ends.
func TestLeaseOverAStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		h := start(t, dir)
		lives := h.take(t, "backup", 1)
		h.take(t, "report", 2)
		h.end()
		h = start(t, dir)
		defer h.end()
		synctest.Wait()
		if got := h.held(t); len(got) != 2 {
			t.Errorf("behind a start are held %v", got)
		}
		for range 7 {
			time.Sleep(5 * time.Second)
			if stands, err := h.Renew(t.Context(), "backup", lives); !stands || err != nil {
				t.Fatalf("a lock that is renewed stands: %v, %v", stands, err)
			}
		}
		if got := h.held(t); len(got) != 1 || got[0] != lives {
			t.Errorf("held are %v, renewed was %d", got, lives)
		}
	})
}
