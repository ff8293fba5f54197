package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ringlet/ringlet/gossip"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/announce"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/directory/replica"
)

func status() ipam.Status {
	self := ipam.PeerStatus{ID: "aa01", Name: "host-a", State: "active"}
	addr := netip.MustParseAddr
	return ipam.Status{
		Verdict: ipam.Degraded, State: ipam.CutOff, Slot: 42, Pending: 2, Self: self,
		Peers: []ipam.PeerStatus{
			self,
			{ID: "bb02", Name: "host-b", State: "draining"},
			{ID: "cc03", Name: "host-c", State: "evicted"},
			{ID: "dd04", Name: "host-d", State: "active", Reachable: true, Health: ipam.HealthStatus{Address: "10.1.0.5:7952", Answers: true}},
			{ID: "ee05", Name: "host-e", State: "filling"},
		},
		Pools: []ipam.PoolStatus{{
			Pool: netip.MustParsePrefix("10.50.0.0/28"), Name: "lab",
			Size: 16, Held: 3, Resting: 1, Ready: 4, Free: 5, Reserved: 2, Quarantined: 1, Mine: 4,
			Holders: []ipam.RangeStatus{
				{Start: addr("10.50.0.0"), End: addr("10.50.0.0"), Owner: "reserved"},
				{Start: addr("10.50.0.1"), End: addr("10.50.0.7"), Owner: "aa01"},
				{Start: addr("10.50.0.8"), End: addr("10.50.0.8"), Owner: "bb02"},
				{Start: addr("10.50.0.9"), End: addr("10.50.0.9"), Owner: "cc03"},
				{Start: addr("10.50.0.10"), End: addr("10.50.0.14"), Owner: "free"},
				{Start: addr("10.50.0.15"), End: addr("10.50.0.15"), Owner: "reserved"},
			},
		}, {
			Pool: netip.MustParsePrefix("fd00:50::/64"), Size: 1<<64 - 1, Free: 1<<64 - 1,
		}},
		Problems: []ipam.Problem{{Code: "started-over", Level: "fine"}, {Code: "conflict", Level: "degraded"}, {Code: "pool-full", Level: "degraded"}, {Code: "conflict", Level: "degraded"}},
	}
}

// reader is what Watch wants.
type reader func(ctx context.Context) (ipam.Status, error)

func fine(context.Context) (ipam.Status, error) { return status(), nil }

// bench returns metrics that watch a status, and their log.
func bench(read reader) (*Metrics, *bytes.Buffer) {
	var log bytes.Buffer
	m := New(Config{Version: "v1.2.3", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	m.Watch(read)
	m.WatchGossip(func() gossip.Status {
		return gossip.Status{Alive: 3, Known: 5, Queued: 6, Counts: gossip.Counts{
			Sent: 10, Failed: 11, Dropped: 12, Unknown: 13, Oversize: 14, Broadcast: 15, BroadcastsDropped: 16, Received: 17, Overrun: 18, Undecodable: 19,
			Repeated: 21, Unconfirmed: 22, Duplicate: 23, Encrypted: 31, Refused: map[string]uint64{"key": 32, "label": 0},
		}}
	}, func() uint64 { return 20 })
	m.WatchDisk(func() (uint64, bool) { return 5 << 30, true })
	m.WatchETCD(func() bool { return true })
	m.WatchDirectory(func() directory.Stats {
		return directory.Stats{Size: replica.Size{Peers: 4, Records: 24}, Exchanges: 25, Sent: 26, Received: 27, Refused: 28, Dropped: 29, HeartbeatAge: 30 * time.Second, Identities: 31, Locks: 32}
	})
	return m, &log
}

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("got status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// ours keeps the lines about series of this program.
func ours(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "ringlet_") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func observe(m *Metrics) {
	m.ObserveRequest("RequestAddress", "ok", 800*time.Microsecond)
	m.ObserveRequest("RequestAddress", "no-address", 300*time.Microsecond)
	m.ObserveRequest("status", "ok", time.Millisecond)
	m.ObserveCommit(1, 700*time.Microsecond)
	m.ObserveCommit(64, 3*time.Millisecond)
	m.LeaksFound(2)
	m.LeaksMended(1)
	m.Probed(ProbeQuiet)
	m.Probed(ProbeQuiet)
	m.Probed(ProbeAnswered)
	m.Announced(announce.Sent)
	m.Announced(announce.Gone)
	m.Asked("granted")
	m.Asked("silent")
}

func TestSeries(t *testing.T) {
	m, log := bench(fine)
	observe(m)
	text := regexp.MustCompile(`goversion="[^"]*"`).ReplaceAllString(ours(scrape(t, m)), `goversion="GO"`)
	golden.Check(t, "series.txt", []byte(text))
	if log.Len() > 0 {
		t.Errorf("logged:\n%s", log)
	}
}

func TestSeriesFollowTheirRules(t *testing.T) {
	m, _ := bench(fine)
	observe(m)
	problems, err := testutil.GatherAndLint(m.registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "ringlet_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// A status that cannot be read costs its own series and no others.
func TestStatusFails(t *testing.T) {
	m, log := bench(func(context.Context) (ipam.Status, error) { return ipam.Status{}, errors.New("the store is closed") })
	observe(m)
	text := scrape(t, m)
	for _, want := range []string{"ringlet_requests_total{", "ringlet_gossip_broadcasts_total 15", "ringlet_build_info{", "go_goroutines "} {
		if !strings.Contains(text, want) {
			t.Errorf("the scrape lacks %q", want)
		}
	}
	for _, not := range []string{"ringlet_addresses", "ringlet_chronicle_slot", "ringlet_commands_pending", "ringlet_conflicts"} {
		if strings.Contains(text, not) {
			t.Errorf("the scrape has %q, which nobody knows", not)
		}
	}
	if !strings.Contains(scrape(t, m), `promhttp_metric_handler_errors_total{cause="gathering"} 1`) {
		t.Error("the failure was not counted")
	}
	if got := log.String(); !strings.Contains(got, "metrics were incomplete") || !strings.Contains(got, "the store is closed") {
		t.Errorf("logged:\n%s", got)
	}
}

func TestAStuckPeerDoesNotHoldTheScrape(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m, log := bench(func(ctx context.Context) (ipam.Status, error) { <-ctx.Done(); return ipam.Status{}, ctx.Err() })
		begun := time.Now()
		if text := scrape(t, m); !strings.Contains(text, "ringlet_build_info") {
			t.Error("the scrape lacks what is known")
		}
		if took := time.Since(begun); took != DefaultTimeout {
			t.Errorf("took %v, want %v", took, DefaultTimeout)
		}
		if !strings.Contains(log.String(), "deadline exceeded") {
			t.Errorf("logged:\n%s", log)
		}
	})
}

// A status that was read a while ago says so.
func TestAgeOfTheStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		st := status()
		st.AsOf = time.Now()
		m, _ := bench(func(context.Context) (ipam.Status, error) { return st, nil })
		time.Sleep(90 * time.Second)
		if text := scrape(t, m); !strings.Contains(text, "ringlet_status_age_seconds 90\n") {
			t.Errorf("the scrape has %s", ours(text))
		}
	})
}

func TestPoolsThatAreGone(t *testing.T) {
	st := status()
	m, _ := bench(func(context.Context) (ipam.Status, error) { return st, nil })
	if !strings.Contains(scrape(t, m), "10.50.0.0/28") {
		t.Fatal("the pool is missing")
	}
	st.Pools = st.Pools[1:]
	if strings.Contains(scrape(t, m), "10.50.0.0/28") {
		t.Error("the pool is still there")
	}
}

func TestBeforeThereIsAnythingToWatch(t *testing.T) {
	m := New(Config{})
	observe(m)
	text := scrape(t, m)
	for _, name := range []string{"ringlet_commands_pending", "ringlet_addresses", "ringlet_chronicle_slot", "ringlet_state", "ringlet_gossip"} {
		if strings.Contains(text, name) {
			t.Errorf("%s was made up", name)
		}
	}
	if !strings.Contains(text, "ringlet_leaks_found_total 2") {
		t.Error("what was counted is missing")
	}
}

func TestConcurrentUse(t *testing.T) {
	m, _ := bench(fine)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 100 {
				observe(m)
			}
		})
		if i < maxScrapes {
			wg.Go(func() { ours(scrape(t, m)) })
		}
	}
	wg.Wait()
	if want := fmt.Sprintf(`ringlet_leaks_found_total %d`, 4*100*2); !strings.Contains(scrape(t, m), want) {
		t.Errorf("the scrape lacks %q", want)
	}
}

func BenchmarkObserveRequest(b *testing.B) {
	m := New(Config{})
	b.ReportAllocs()
	for b.Loop() {
		m.ObserveRequest("RequestAddress", "ok", time.Millisecond)
	}
}

// Every state of a peer has its series: none is missing where the core has a
// new one.
func TestEveryStateIsShown(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../ipam/peer/standing.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	for _, s := range standings() {
		shown[strconv.Quote(string(s))] = true
	}
	n := 0
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Standing" {
			n++
			if lit, ok := spec.Values[0].(*ast.BasicLit); !ok || !shown[lit.Value] {
				t.Errorf("state %s has no series", spec.Names[0].Name)
			}
		}
		return true
	})
	if n != len(shown) {
		t.Errorf("the core has %d states, and %d are shown", n, len(shown))
	}
}
