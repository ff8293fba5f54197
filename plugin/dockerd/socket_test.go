package dockerd

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// listen starts the engine on a unix socket of its own and returns its path.
func listen(t *testing.T, engine *fakeEngine) string {
	t.Helper()
	socket := filepath.Join(socketDir(t), "docker.sock")
	engine.start(mustListen(t, socket))
	t.Cleanup(engine.stop)
	return socket
}

// socketDir returns a directory whose path is short enough for sockets in it,
// which that of t.TempDir is not for tests with a long name.
func socketDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "dockerd") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func mustListen(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// inventories runs a watcher and returns what it delivers. The watcher stops
// with the test.
func inventories(t *testing.T, cfg Config) (*Watcher, <-chan Inventory) {
	t.Helper()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	looks := make(chan Inventory)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.Run(ctx, func(ctx context.Context, inv Inventory) (time.Duration, error) {
			select {
			case looks <- inv:
			case <-ctx.Done():
			}
			return 0, nil
		}); err != nil {
			t.Errorf("Run returned %v, want nil", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w, looks
}

// await returns the first inventory that fits.
func await(t *testing.T, w *Watcher, looks <-chan Inventory, what string, fits func(Inventory) bool) Inventory {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case inv := <-looks:
			if fits(inv) {
				return inv
			}
		case <-limit:
			t.Fatalf("never saw %s; state %+v", what, w.State())
		}
	}
}

// The engine's socket is a new file after each restart, in the same directory.
func TestSocketIsReplaced(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("watch", func(t *testing.T) {
		engine := newFakeEngine(t)
		t.Cleanup(engine.stop)
		socket := filepath.Join(socketDir(t), "docker.sock")
		w, looks := inventories(t, Config{Socket: socket, Names: []string{"ringlet"}, RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond})
		for _, id := range []string{"n1", "n2", "n3"} {
			engine.set(id, oneContainer)
			engine.start(mustListen(t, socket))
			await(t, w, looks, id, func(inv Inventory) bool {
				return inv.Complete && len(inv.Networks) > 0 && inv.Networks[0].ID == id
			})
			engine.remove(id)
			engine.stop()
		}
	})
	// Connections end asynchronously, but they do end.
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(30 * time.Second)
	for runtime.NumGoroutine() > before {
		select {
		case <-deadline:
			t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
		case <-tick.C:
		}
	}
}

// State and Recheck are called from anywhere.
func TestConcurrentUse(t *testing.T) {
	engine := newFakeEngine(t)
	socket := listen(t, engine)
	w, looks := inventories(t, Config{Socket: socket, Names: []string{"ringlet"}, Debounce: time.Millisecond})
	var callers sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		callers.Go(func() {
			tick := time.NewTicker(100 * time.Microsecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					w.Recheck()
					_ = w.State()
				}
			}
		})
	}
	for range 20 {
		await(t, w, looks, "a look", func(inv Inventory) bool { return inv.Complete })
	}
	close(stop)
	callers.Wait()
}
