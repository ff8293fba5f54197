package admin

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
)

// counting is a backend whose Status needs time in its context, as the node's.
type counting struct{ leaver }

func (c counting) Status(ctx context.Context) (ipam.Status, error) {
	if err := ctx.Err(); err != nil {
		return ipam.Status{}, err
	}
	return c.memory.Status(ctx)
}

// A request to leave is answered with how far the peer is, also where
// RINGLET_TIMEOUT is as short as it may be.
func TestLeavingWithAShortTimeout(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 2 * time.Second} {
		bubble.Test(t, func(t *testing.T) {
			m := newMemory()
			m.state = ipam.Leaving
			forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			s, _ := logged(t, Config{Backend: counting{leaver{m, forever}}, Timeout: timeout})
			if w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/self/leave", strings.NewReader("{}")); w.Code != 202 {
				t.Errorf("timeout %v: got %d %s", timeout, w.Code, w.Body)
			}
		})
	}
}

// A host is a target also if it was reached by an IPv6 address at the usual port.
func TestDiscoverBehindAProxyOnIPv6(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory()})
	r := httptest.NewRequest(http.MethodGet, "/sd/prometheus?port=7951", nil)
	r.Host = "[fd00::7]"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if !strings.Contains(w.Body.String(), `"[fd00::7]:7951"`) {
		t.Errorf("this host is not among the targets: %s", w.Body)
	}
}

// heavy is a directory that counts who reads all of it at the same time.
type heavy struct {
	*shelf
	now, most atomic.Int64
}

func (h *heavy) Places(func(string) bool) []directory.Place {
	n := h.now.Add(1)
	defer h.now.Add(-1)
	for {
		most := h.most.Load()
		if n <= most || h.most.CompareAndSwap(most, n) {
			break
		}
	}
	time.Sleep(time.Second)
	return nil
}

// What costs much in a large cluster is done for one stranger at a time, and the others wait
// for as long as they have time.
func TestDirectoryIsReadByOneAtATime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		dir := &heavy{shelf: newShelf()}
		s, _ := logged(t, Config{Backend: newMemory(), Directory: dir, Remote: true})
		var wg sync.WaitGroup
		var busy atomic.Int64
		for range 4 * MaxRequests {
			wg.Go(func() {
				if w, _ := ask(t.Context(), s.Handler(), "GET", "/sd/prometheus?containers=true&port=9100", nil); w.Code == http.StatusServiceUnavailable {
					busy.Add(1)
				}
			})
		}
		wg.Wait()
		if n := busy.Load(); n == 0 || n >= 4*MaxRequests-1 {
			t.Errorf("%d of %d were refused", n, 4*MaxRequests)
		}
		if most := dir.most.Load(); most != 1 {
			t.Errorf("%d read the whole directory at once", most)
		}
	})
}
