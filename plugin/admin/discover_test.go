package admin

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/directory"
)

// crowded has a cluster of several hosts.
type crowded struct{ Backend }

func (crowded) Snapshot(context.Context) (ipam.Status, error) {
	self := ipam.PeerStatus{ID: "aa", Name: "host-a", State: "active", Reachable: true}
	return ipam.Status{Self: self, Peers: []ipam.PeerStatus{
		{ID: "dd", Name: "host-d", State: "evicted", Address: "10.0.0.4:7950"},
		{ID: "cc", Name: "host-c", State: "draining", Address: "[fd00::3]:7950"},
		{ID: "bb", Name: "host-b", State: "active", Address: "10.0.0.2:7950", Reachable: true},
		self,
		{ID: "ee", Name: "host-e", State: "active"}, // nobody knows where it is
	}}, nil
}

func TestDiscovery(t *testing.T) {
	s, err := New(Config{Backend: crowded{newMemory()}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	target := func(address, id, name, state, reachable string) Target {
		return Target{[]string{address}, map[string]string{
			"__meta_ringlet_id": id, "__meta_ringlet_name": name, "__meta_ringlet_state": state, "__meta_ringlet_reachable": reachable,
		}}
	}
	three := func(self, port string) []Target {
		return []Target{
			target(self, "aa", "host-a", "active", "true"),
			target("10.0.0.2:"+port, "bb", "host-b", "active", "true"),
			target("[fd00::3]:"+port, "cc", "host-c", "draining", "false"),
		}
	}
	for _, tt := range []struct {
		host, path string
		want       []Target // nil: refused
	}{
		{"host-a.example:7951", "/sd/prometheus", three("host-a.example:7951", "7951")},
		{"[fd00::1]:7951", "/sd/prometheus", three("[fd00::1]:7951", "7951")},
		{"host-a:7951", "/sd/prometheus?port=8080", three("host-a:8080", "8080")},
		{"host-a", "/sd/prometheus?port=8080", three("host-a:8080", "8080")},
		{"localhost", "/sd/prometheus", nil},
		{"host-a:7951", "/sd/prometheus?port=0", nil},
		{"host-a:7951", "/sd/prometheus?port=65536", nil},
		{"host-a:7951", "/sd/prometheus?port=http", nil},
		{"host-a:7951", "/sd/prometheus?Port=7951", nil},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil)
		r.Host = tt.host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if tt.want == nil {
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s at %s: got status %d: %s", tt.path, tt.host, w.Code, w.Body)
			}
			continue
		}
		var got []Target
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
			t.Fatalf("%s at %s: got status %d, %v: %s", tt.path, tt.host, w.Code, err, w.Body)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s at %s (-want +got):\n%s", tt.path, tt.host, diff)
		}
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
