package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/events"
)

// eventful is a log of the second start with a grant, its end and a problem in
// it, the first of which it no longer keeps.
func eventful() *events.Log {
	l := events.New(2, 0, 3)
	pool, a := netip.MustParsePrefix("10.50.0.0/24"), netip.MustParseAddr("10.50.0.7")
	use := ipam.Use{Kind: "container", Container: "4f3a2b1c0d9e8f7a", Name: "web", MAC: ipam.MAC{2, 0, 0, 0, 0, 7}, Since: someTime}
	l.Note(someTime, ipam.Note{Kind: ipam.NotePoolCreated, Pool: pool})
	l.Note(someTime, ipam.Note{Kind: ipam.NoteGranted, Pool: pool, Address: a, Use: use})
	l.Note(someTime.Add(time.Second), ipam.Note{Kind: ipam.NoteMoved, Pool: netip.MustParsePrefix("10.51.0.0/24"), Address: a, Last: a, From: "free", To: "host-b"})
	l.Problems(someTime.Add(time.Minute), []ipam.Problem{{Code: "pool-full", Text: "pool lab is full", Next: "remove containers", Level: "degraded"}})
	return l
}

// kept returns what a client gets that does not follow.
func kept(t *testing.T, s *Server, query string, header ...string) string {
	t.Helper()
	w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/events?follow=false"+query, nil, header...)
	if ct := w.Header().Get("Content-Type"); w.Code != 200 || ct != "text/event-stream" {
		t.Fatalf("%s: %d %s %s", query, w.Code, ct, w.Body)
	}
	return w.Body.String()
}

func TestEventsOnTheWire(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory(), Events: eventful()})
	golden.Check(t, "events.txt", []byte(kept(t, s, "")))
}

func TestWhichEvents(t *testing.T) {
	m := newMemory()
	m.pools = append(m.pools, ipam.PoolStatus{Pool: netip.MustParsePrefix("10.51.0.0/24"), Name: "dmz"})
	s, _ := logged(t, Config{Backend: m, Events: eventful()})
	for _, tt := range []struct {
		query, last string
		want        string // IDs, with a + for a gap
	}{
		{"", "", "2-2 2-3 2-4"},
		{"&since=2-3", "", "2-4"},
		{"&since=2-1", "", "2-2 2-3 2-4"},
		{"&since=1-9", "", "+2-1 2-2 2-3 2-4"},
		{"&since=1-9", "2-4", ""}, // what a browser had last counts more
		{"", "2-2", "2-3 2-4"},
		{"&kind=granted", "", "2-2"},
		{"&kind=granted,problem-began", "", "2-2 2-4"},
		{"&pool=10.51.0.0/24", "", "2-3"},
		{"&kind=granted&pool=10.51.0.0/24", "", ""},
		{"&pool=dmz", "", "2-3"},
	} {
		var got []string
		gap := ""
		for line := range strings.Lines(kept(t, s, tt.query, "Last-Event-ID", tt.last)) {
			line = strings.TrimSpace(line)
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				got = append(got, id)
			}
			if line == "event: gap" {
				gap, got[len(got)-1] = "+", "+"+got[len(got)-1]
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s after %q: got %v %s, want %s", tt.query, tt.last, got, gap, tt.want)
		}
	}
	for _, query := range []string{"?since=x", "?follow=no", "?kind=grant", "?kind=granted,", "?pool=10.50.0.1/24", "?tail=3"} {
		if w, p := ask(t.Context(), s.Handler(), "GET", "/v1/events"+query, nil); w.Code != 400 || p.Code != "bad-request" {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if w, p := ask(t.Context(), s.Handler(), "GET", "/v1/events?pool=none", nil); w.Code != 404 || p.Code != "pool-not-found" {
		t.Errorf("no such pool: %d %s", w.Code, w.Body)
	}
}

// line reads the next line that is not empty.
func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if text = strings.TrimSpace(text); text != "" {
			return text
		}
	}
}

// A client that follows gets what happens as it happens, and the end of the
// server ends its stream at once.
func TestFollow(t *testing.T) {
	l := events.New(1, 0, 0)
	s, err := New(Config{Backend: newMemory(), Events: l, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
	resp, err := client.Get("http://ringlet/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r := bufio.NewReader(resp.Body)
	if got := line(t, r); got != "retry: 2000" {
		t.Errorf("the stream begins with %q", got)
	}
	for i := range 3 {
		l.Note(someTime, ipam.Note{Kind: ipam.NotePeerJoined, Holder: fmt.Sprint("host-", i)})
		if got, want := line(t, r), fmt.Sprint("id: 1-", i+1); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
		var e events.Event
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line(t, r), "data: ")), &e); err != nil || e.Peer != fmt.Sprint("host-", i) {
			t.Errorf("got %+v, %v", e, err)
		}
	}
	end()
	if rest, err := io.ReadAll(r); err != nil || strings.TrimSpace(string(rest)) != "" {
		t.Errorf("at its end the stream has %q, %v", rest, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// silent is a client that never reads, as far as its server can tell.
type silent struct {
	http.ResponseWriter
	deadline time.Time
}

func (s *silent) SetWriteDeadline(at time.Time) error { s.deadline = at; return nil }
func (s *silent) FlushError() error {
	time.Sleep(time.Until(s.deadline))
	return context.DeadlineExceeded
}

// Whoever does not read is dropped, and his place is free again; whoever reads
// hears a sign of life every 15 seconds.
func TestSilenceOfClientsAndServers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _ := logged(t, Config{Backend: newMemory(), Events: eventful()})
		begun := time.Now()
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/v1/events", nil)
		s.Handler().ServeHTTP(&silent{ResponseWriter: httptest.NewRecorder()}, r)
		if took := time.Since(begun); took != writeTimeout {
			t.Errorf("a client that does not read was dropped after %v", took)
		}
		if len(s.streams) != 0 {
			t.Error("it kept its place")
		}

		ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
		defer cancel()
		w, _ := ask(ctx, s.Handler(), "GET", "/v1/events?since=2-4", nil)
		if diff := cmp.Diff("retry: 2000\n\nid: 2-4\n\nid: 2-4\n\n", w.Body.String()); diff != "" {
			t.Errorf("40 silent seconds (-want +got):\n%s", diff)
		}
	})
}

// Who asked for some events only hears a sign of life, too, while others happen
// all the time, and can go on behind those.
func TestFilteredStreamShowsThatItLives(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := events.New(2, 0, 64)
		s, _ := logged(t, Config{Backend: newMemory(), Events: l})
		ctx, cancel := context.WithTimeout(t.Context(), 34*time.Second)
		defer cancel()
		go func() {
			every := time.NewTicker(5 * time.Second)
			defer every.Stop()
			for ctx.Err() == nil {
				l.Note(time.Now(), ipam.Note{Kind: ipam.NoteGranted, Pool: netip.MustParsePrefix("10.50.0.0/24"), Address: netip.MustParseAddr("10.50.0.7")})
				select {
				case <-ctx.Done():
				case <-every.C:
				}
			}
		}()
		w, _ := ask(ctx, s.Handler(), "GET", "/v1/events?kind=conflict", nil)
		if diff := cmp.Diff("retry: 2000\n\nid: 2-4\n\nid: 2-7\n\n", w.Body.String()); diff != "" {
			t.Errorf("34 seconds (-want +got):\n%s", diff)
		}
	})
}

func TestNoMoreStreamsThanTheLimit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _ := logged(t, Config{Backend: newMemory(), Events: eventful()})
		ctx, cancel := context.WithCancel(t.Context())
		for range MaxStreams {
			go ask(ctx, s.Handler(), "GET", "/v1/events", nil)
		}
		synctest.Wait()
		if w, p := ask(t.Context(), s.Handler(), "GET", "/v1/events", nil); w.Code != 503 || p.Code != CodeBusy {
			t.Errorf("one more: %d %s", w.Code, w.Body)
		}
		for range 2 * MaxRequests { // they take no place from anybody
			if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/peers", nil); w.Code != 200 {
				t.Fatalf("peers: %d", w.Code)
			}
		}
		cancel()
		synctest.Wait()
		if len(s.streams) != 0 {
			t.Errorf("%d streams are still counted", len(s.streams))
		}
		kept(t, s, "")
		if w, _ := ask(t.Context(), s.Handler(), "HEAD", "/v1/events", nil); w.Code != 200 || len(s.streams) != 0 {
			t.Errorf("HEAD: %d, %d streams", w.Code, len(s.streams))
		}
	})
}

// Without events the path is not there.
func TestNoEvents(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory()})
	if w, p := ask(t.Context(), s.Handler(), "GET", "/v1/events", nil); w.Code != 404 || p.Code != CodeNotFound {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
