package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
)

// endless is a backend whose list goes on, by portions, until fail is asked for.
type endless struct {
	*memory
	asked atomic.Int64
	fail  func(n int64) error
}

func (e *endless) List(_ context.Context, q ipam.Listing) (ipam.Portion, error) {
	n := e.asked.Add(1)
	if e.fail != nil {
		if err := e.fail(n); err != nil {
			return ipam.Portion{}, err
		}
	}
	a := netip.MustParseAddr("10.0.0.0")
	if q.After.IsValid() {
		a = q.After
	}
	var p ipam.Portion
	for range 500 {
		a = a.Next()
		p.Addresses = append(p.Addresses, ipam.AddressStatus{Address: a, State: "held", Name: strings.Repeat("x", 200)})
	}
	p.Next = a
	return p, nil
}

// A list that fails in its middle is cut off, so that nobody takes it for a whole
// one; one that fails at once is a problem.
func TestListBreaksOff(t *testing.T) {
	for name, last := range map[string]func(n int64) error{
		"an error": func(n int64) error { return errDisk },
		"a panic":  func(n int64) error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			e := &endless{memory: newMemory(), fail: func(n int64) error {
				if n == 3 {
					return last(n)
				}
				return nil
			}}
			s, log := logged(t, Config{Backend: e})
			srv := httptest.NewServer(s.Handler())
			defer srv.Close()
			resp, err := srv.Client().Get(srv.URL + "/v1/addresses")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if resp.StatusCode != 200 || err == nil || len(text) < 100_000 || json.Valid(text) {
				t.Errorf("got %d, %d bytes, %v", resp.StatusCode, len(text), err)
			}
			if name == "a panic" && !strings.Contains(log.String(), "boom") {
				t.Errorf("the log lacks the panic:\n%s", log)
			}
			e.asked.Store(2)
			if w, p := ask(t.Context(), s.Handler(), "GET", "/v1/addresses", nil); w.Code != 500 || p.Code != CodeInternal {
				t.Errorf("at once: %d %s", w.Code, w.Body)
			}
			if len(s.places)+len(s.lists) != 0 || s.underWay.left != maxUnderWay {
				t.Errorf("%d places, %d lists and %d bytes are still taken", len(s.places), len(s.lists), maxUnderWay-s.underWay.left)
			}
		})
	}
}

// deaf is a client that does not read: it takes what one write brings.
type deaf struct {
	*httptest.ResponseRecorder
	hear chan struct{}
}

func (d deaf) Write(b []byte) (int, error) {
	<-d.hear
	return d.ResponseRecorder.Write(b)
}

// Clients that do not read keep the places of their answers, and nothing more is
// made for them.
func TestClientsThatDoNotRead(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := &endless{memory: newMemory()}
		s, _ := logged(t, Config{Backend: e, Remote: true})
		hear := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var busy atomic.Int64
		for range 4 * maxLists {
			all.Go(func() {
				defer func() { _ = recover() }() // the list is cut off at the end
				d := deaf{httptest.NewRecorder(), hear}
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/addresses", nil)
				r.Host = "127.0.0.1"
				s.Handler().ServeHTTP(d, r)
				if d.Code == http.StatusServiceUnavailable {
					busy.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := e.asked.Load(); n != maxLists {
			t.Errorf("%d portions were made for clients that do not read, want %d", n, maxLists)
		}
		if taken := maxUnderWay - s.underWay.left; taken < maxLists*100_000 || taken > maxLists*400_000 {
			t.Errorf("%d bytes are under way", taken)
		}
		time.Sleep(DefaultTimeout)
		close(hear)
		cancel()
		all.Wait()
		if got := busy.Load(); got != 3*maxLists {
			t.Errorf("%d were told to come again, want %d", got, 3*maxLists)
		}
		if len(s.places)+len(s.lists) != 0 || s.underWay.left != maxUnderWay {
			t.Errorf("%d places, %d lists and %d bytes are still taken", len(s.places), len(s.lists), maxUnderWay-s.underWay.left)
		}
	})
}

// large is a backend with a status of some megabytes.
func large() fixed {
	st := ipam.Status{Verdict: ipam.Fine}
	for i := range 10_000 {
		st.Problems = append(st.Problems, ipam.Problem{Code: "x", Level: "degraded", Text: fmt.Sprintf("%01000d", i)})
	}
	return fixed{newMemory(), st}
}

// No more than 64 MiB wait for clients to read them. Who comes then is told to come
// again, and gets an answer once there is room.
func TestBytesUnderWay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _ := logged(t, Config{Backend: large(), Remote: true})
		hear := make(chan struct{})
		var all sync.WaitGroup
		codes := make(chan int, 20)
		for range cap(codes) {
			all.Go(func() {
				d := deaf{httptest.NewRecorder(), hear}
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/status", nil)
				r.Host = "127.0.0.1"
				go func() { s.Handler().ServeHTTP(d, r); codes <- d.Code }()
			})
		}
		all.Wait()
		time.Sleep(time.Minute)
		synctest.Wait()
		if left := s.underWay.left; left < 0 || left > maxUnderWay/4 {
			t.Errorf("%d bytes are left", left)
		}
		if w, p := ask(t.Context(), s.Handler(), "GET", "/v1/status", nil); w.Code != 503 || p.Code != CodeBusy || w.Header().Get("Retry-After") == "" {
			t.Errorf("one more: %d %.200s", w.Code, w.Body)
		}
		if w, _ := ask(t.Context(), s.Handler(), "GET", "/readyz", nil); w.Code != 200 {
			t.Errorf("readyz: %d %s", w.Code, w.Body)
		}
		close(hear)
		refused := 0
		for range cap(codes) {
			if <-codes == 503 {
				refused++
			}
		}
		if refused == 0 || refused > 15 {
			t.Errorf("%d of %d were refused", refused, cap(codes))
		}
		synctest.Wait()
		if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/status", nil); w.Code != 200 || s.underWay.left != maxUnderWay {
			t.Errorf("afterwards: %d, %d bytes are left", w.Code, s.underWay.left)
		}
	})
}

// Over TCP a status is 250 ms old at most, and shows what was written there before;
// on the socket it is as it is.
func TestHowOldAStatusIs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, path := range []string{"/v1/status", "/v1/pools"} {
			m := newMemory()
			local, _ := logged(t, Config{Backend: m})
			remote, _ := logged(t, Config{Backend: m, Remote: true, Token: strings.Repeat("t", 16)})
			pools := func(s *Server) int {
				w, _ := ask(t.Context(), s.Handler(), "GET", path, nil)
				return strings.Count(w.Body.String(), `"name":"pool-`)
			}
			pools(remote)
			w, _ := ask(t.Context(), local.Handler(), "POST", "/v1/pools", strings.NewReader(`{"cidr":"10.9.0.0/24","name":"pool-1"}`))
			if w.Code != 201 || pools(local) != 1 {
				t.Errorf("%s: %d on the socket at once", path, pools(local))
			}
			if old := pools(remote); old != 0 {
				t.Errorf("%s: over TCP another status was made at once", path)
			}
			time.Sleep(lag)
			if now := pools(remote); now != 1 {
				t.Errorf("%s: %d over TCP after %v", path, now, lag)
			}
			ask(t.Context(), remote.Handler(), "POST", "/v1/pools", strings.NewReader(`{"cidr":"10.10.0.0/24","name":"pool-2"}`), "Authorization", "Bearer "+strings.Repeat("t", 16))
			time.Sleep(time.Nanosecond)
			if now := pools(remote); now != 2 {
				t.Errorf("%s: %d over TCP after a write there", path, now)
			}
		}
	})
}

// However many ask, so many requests a second begin over TCP, and between two pieces
// of work others have their turn.
func TestCrowdLeavesRoom(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newCrowd()
		begun := time.Now()
		var all sync.WaitGroup
		for range 3 * maxRate {
			all.Go(func() { _ = c.begin(t.Context()) })
		}
		all.Wait()
		if took := time.Since(begun); took < 2900*time.Millisecond || took > 3*time.Second {
			t.Errorf("%d requests began within %v", 3*maxRate, took)
		}
		begun = time.Now()
		for range 10 {
			if err := c.do(t.Context(), func() { time.Sleep(10 * time.Millisecond) }); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took < 370*time.Millisecond {
			t.Errorf("10 pieces of 10ms took %v", took)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		cancel(gone)
		go func() { _ = c.do(t.Context(), func() { time.Sleep(time.Second) }) }()
		synctest.Wait()
		if err := c.do(ctx, func() { t.Error("it was done") }); !errors.Is(err, gone) {
			t.Errorf("got %v", err)
		}
		time.Sleep(2 * time.Second)
	})
}

// One address has 16 connections at most, and others theirs all the same.
func TestConnectionsOfOneAddress(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory(), Remote: true})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(ctx, l) })
	defer serving.Wait()
	defer cancel()
	lives := func(from string) (net.Conn, bool) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = fmt.Fprintf(conn, "GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
		text := make([]byte, 12)
		_, err = io.ReadFull(conn, text)
		return conn, err == nil && string(text) == "HTTP/1.1 200"
	}
	var conns []net.Conn
	for i := range maxConnsOfOne {
		conn, ok := lives("127.0.0.1")
		if !ok {
			t.Fatalf("connection %d is not answered", i+1)
		}
		conns = append(conns, conn)
	}
	if _, ok := lives("127.0.0.1"); ok {
		t.Error("one more is answered")
	}
	if _, ok := lives("127.0.0.2"); !ok {
		t.Error("another address is not answered")
	}
	_ = conns[0].Close()
	for begun := time.Now(); ; {
		if _, ok := lives("127.0.0.1"); ok {
			break
		}
		if time.Since(begun) > 10*time.Second {
			t.Fatal("after one is closed, another is not answered")
		}
	}
}

func TestSourceOf(t *testing.T) {
	for remote, want := range map[string]string{
		"10.0.0.7:80": "10.0.0.7", "[::ffff:10.0.0.7]:80": "10.0.0.7", "[fd00:1:2:3:4::5]:80": "fd00:1:2:3::",
		"[fe80::1%eth0]:80": "fe80::", "@": "invalid IP", "": "invalid IP",
	} {
		if got := sourceOf(remote).String(); got != want {
			t.Errorf("%q is of %s, want %s", remote, got, want)
		}
	}
}

// A stream ends after an hour, so that others have its place.
func TestStreamsEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _ := logged(t, Config{Backend: newMemory(), Directory: newShelf(), Remote: true})
		begun := time.Now()
		w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/kv/ringlet/?watch=true", nil)
		if took := time.Since(begun); w.Code != 200 || took < maxStreamTime || took > maxStreamTime+heartbeat || len(s.streams) != 0 {
			t.Errorf("got %d after %v, %d places are taken", w.Code, took, len(s.streams))
		}
	})
}
