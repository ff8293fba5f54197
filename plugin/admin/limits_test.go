package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
)

// ask sends a request to a handler and returns the answer, and the problem if
// it is one.
func ask(ctx context.Context, h http.Handler, method, path string, body io.Reader, header ...string) (*httptest.ResponseRecorder, Problem) {
	r := httptest.NewRequestWithContext(ctx, method, path, body)
	r.Host = "127.0.0.1:7951"
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var p Problem
	if w.Header().Get("Content-Type") == "application/problem+json" {
		_ = json.Unmarshal(w.Body.Bytes(), &p)
	}
	return w, p
}

// logged returns a server whose log is written to the buffer, for tests that
// call its handler directly.
func logged(t *testing.T, cfg Config) (*Server, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s, &log
}

// everyError are the errors of package ipam, with the status that each has.
var everyError = []struct {
	err    error
	status int
}{
	{ipam.ErrBadRequest, 400},
	{ipam.ErrPoolNotFound, 404},
	{ipam.ErrPoolOverlap, 409},
	{ipam.ErrLocked, 409},
	{ipam.ErrPoolInUse, 409},
	{ipam.ErrNoSubnet, 409},
	{ipam.ErrAddressInUse, 409},
	{ipam.ErrAddressReserved, 409},
	{ipam.ErrAddressOutOfRange, 400},
	{ipam.ErrAddressNotHeld, 404},
	{ipam.ErrNoAddress, 409},
	{ipam.ErrPeerNotFound, 404},
	{ipam.ErrNotReady, 503},
	{ipam.ErrUnreachable, 503},
	{ipam.ErrSuspended, 503},
	{ipam.ErrStopped, 503},
}

func TestEveryErrorHasItsStatus(t *testing.T) {
	calls := []struct{ method, path, body string }{
		{"GET", "/v1/status", ""},
		{"GET", "/v1/peers", ""},
		{"GET", "/v1/ring", ""},
		{"GET", "/v1/ring/table", ""},
		{"POST", "/v1/check", ""},
		{"GET", "/readyz", ""},
		{"GET", "/sd/prometheus?port=7951", ""},
		{"GET", "/v1/pools", ""},
		{"POST", "/v1/pools", `{"cidr":"10.9.0.0/24"}`},
		{"GET", "/v1/pools/lab", ""},
		{"DELETE", "/v1/pools/lab", ""},
		{"GET", "/v1/pools/lab/addresses", ""},
		{"GET", "/v1/pools/lab/addresses?for=a", ""},
		{"POST", "/v1/pools/lab/addresses", `{"for":"a"}`},
		{"DELETE", "/v1/pools/lab/addresses?for=a", ""},
		{"DELETE", "/v1/pools/lab/addresses/10.50.0.1", ""},
		{"GET", "/v1/addresses", ""},
		{"GET", "/v1/addresses/10.50.0.1", ""},
		{"DELETE", "/v1/addresses/10.50.0.1", ""},
		{"DELETE", "/v1/addresses?for=a", ""},
		{"POST", "/v1/self/drain", `{}`},
		{"POST", "/v1/self/leave", `{}`},
		{"POST", "/v1/peers", `{"address":"host-b"}`},
		{"POST", "/v1/peers/host-b/evict", ""},
		{"DELETE", "/v1/peers/host-b", ""},
		{"POST", "/v1/recover", `{"the_others_are_gone":true}`},
		{"POST", "/v1/self/rejoin", `{"set_the_database_aside":true}`},
		{"POST", "/v1/self/trust", `{"no_other_copy_runs":true}`},
	}
	for _, tt := range everyError {
		t.Run(tt.err.Error(), func(t *testing.T) {
			text := "no, because: " + tt.err.Error()
			s, log := logged(t, Config{Backend: fail(fmt.Errorf("layer: %w", &ipam.Error{Kind: tt.err, Text: text}))})
			for _, c := range calls {
				w, p := ask(t.Context(), s.Handler(), c.method, c.path, strings.NewReader(c.body))
				want := Problem{
					Type: "about:blank", Title: http.StatusText(tt.status), Status: tt.status, Detail: text, Code: tt.err.Error(),
					Instance: w.Header().Get("X-Request-Id"),
				}
				if diff := cmp.Diff(want, p); diff != "" || w.Code != tt.status || p.Instance == "" {
					t.Errorf("%s %s: status %d, problem (-want +got):\n%s", c.method, c.path, w.Code, diff)
				}
			}
			if strings.Contains(log.String(), text) {
				t.Errorf("what the caller was told was logged too:\n%s", log)
			}
		})
	}
}

func TestUnknownErrorsStayInTheLog(t *testing.T) {
	s, log := logged(t, Config{Backend: fail(errDisk)})
	w, p := ask(t.Context(), s.Handler(), "GET", "/v1/status", nil)
	if w.Code != 500 || p.Code != CodeInternal || strings.Contains(w.Body.String(), "/data") || !strings.Contains(p.Detail, p.Instance) {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
	for _, want := range []string{errDisk.Error(), p.Instance, "kind=status", "level=ERROR"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
}

func TestPanicIsAnError(t *testing.T) {
	m := newMemory()
	m.hook = func(context.Context) error { panic("boom") }
	s, log := logged(t, Config{Backend: m})
	for range 2 * MaxRequests { // a panic gives its place back
		w, p := ask(t.Context(), s.Handler(), "GET", "/v1/status", nil)
		if w.Code != 500 || p.Code != CodeInternal || strings.Contains(w.Body.String(), "boom") {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
	}
	if !strings.Contains(log.String(), "boom") || !strings.Contains(log.String(), "limits_test.go") {
		t.Errorf("the log lacks the panic or where it was:\n%.500s", log)
	}
}

func TestBodyLimit(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory()})
	pad := func(n int) io.Reader {
		body := `{"for":"a"}`
		return strings.NewReader(body + strings.Repeat(" ", n-len(body)))
	}
	if w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/pools/lab/addresses", pad(MaxBody)); w.Code != 201 {
		t.Errorf("a body of the largest size was refused: %d %s", w.Code, w.Body)
	}
	if w, p := ask(t.Context(), s.Handler(), "POST", "/v1/pools/lab/addresses", pad(MaxBody+1)); w.Code != 413 || p.Code != CodeTooLarge {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestEachRequestHasADeadline(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newMemory()
		m.hook = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		s, _ := logged(t, Config{Backend: m})
		begun := time.Now()
		w, p := ask(t.Context(), s.Handler(), "GET", "/v1/addresses", nil)
		if w.Code != 504 || p.Code != CodeTimeout || time.Since(begun) != DefaultTimeout {
			t.Errorf("got %d %s after %v", w.Code, w.Body, time.Since(begun))
		}
	})
}

func TestNoMoreThanTheLimitAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		m := newMemory()
		release, inside := make(chan struct{}), make(chan struct{}, 10*MaxRequests)
		m.hook = func(context.Context) error { inside <- struct{}{}; <-release; return nil }
		s, _ := logged(t, Config{Backend: m})
		answers := make(chan int, MaxRequests+2)
		for range MaxRequests {
			go func() { w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/peers", nil); answers <- w.Code }()
		}
		synctest.Wait()
		if len(inside) != MaxRequests {
			t.Fatalf("%d requests are with the backend, want %d", len(inside), MaxRequests)
		}
		if w, p := ask(t.Context(), s.Handler(), "GET", "/v1/peers", nil); w.Code != 503 || p.Code != CodeBusy || w.Header().Get("Retry-After") == "" {
			t.Errorf("one more: got %d %s", w.Code, w.Body)
		}
		if w, _ := ask(t.Context(), s.Handler(), "GET", "/livez", nil); w.Code != 200 {
			t.Errorf("livez: got %d", w.Code)
		}
		go func() { w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/peers", nil); answers <- w.Code }()
		synctest.Wait()
		if len(inside) != MaxRequests {
			t.Errorf("%d requests were let in, want %d", len(inside), MaxRequests)
		}
		close(release)
		for range MaxRequests + 1 { // also the one that waited
			if code := <-answers; code != 200 {
				t.Errorf("got status %d", code)
			}
		}
	})
}

// A client that sends its body byte by byte must not keep others out.
func TestSlowClientsTakeNoPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _ := logged(t, Config{Backend: newMemory()})
		codes := make(chan int, 2*MaxRequests)
		var pipes []*io.PipeWriter
		for range 2 * MaxRequests {
			r, w := io.Pipe()
			pipes = append(pipes, w)
			go func() {
				w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/pools/lab/addresses", r)
				codes <- w.Code
			}()
		}
		synctest.Wait()
		if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/peers", nil); w.Code != 200 {
			t.Errorf("got %d %s", w.Code, w.Body)
		}
		for _, p := range pipes {
			_ = p.CloseWithError(io.ErrUnexpectedEOF)
		}
		for range pipes {
			if code := <-codes; code != 400 {
				t.Errorf("a body that broke off: got status %d, want 400", code)
			}
		}
	})
}

func TestWhoMayWrite(t *testing.T) {
	writes := []struct{ method, path, body string }{
		{"POST", "/v1/gc", `{"findings":[]}`},
		{"POST", "/v1/reservations", `{"addresses":"10.50.0.1"}`},
		{"DELETE", "/v1/reservations?addresses=10.50.0.1&kind=kept", ""},
		{"POST", "/v1/pools", `{"cidr":"10.9.0.0/24"}`},
		{"POST", "/v1/pools/lab/addresses", `{"for":"a"}`},
		{"POST", "/v1/addresses", `{"for":"a"}`},
		{"DELETE", "/v1/pools/lab/addresses?for=a", ""},
		{"DELETE", "/v1/pools/lab/addresses/10.50.0.1", ""},
		{"DELETE", "/v1/addresses?for=a", ""},
		{"DELETE", "/v1/addresses/10.50.0.1", ""},
		{"DELETE", "/v1/pools/lab", ""},
		{"POST", "/v1/check", ""},
		{"POST", "/v1/self/drain", `{}`},
		{"POST", "/v1/self/leave", `{}`},
		{"POST", "/v1/peers", `{"address":"host-b"}`},
		{"POST", "/v1/peers/host-b/evict", ""},
		{"DELETE", "/v1/peers/host-b", ""},
		{"POST", "/v1/recover", `{"the_others_are_gone":true}`},
		{"POST", "/v1/self/rejoin", `{"set_the_database_aside":true}`},
		{"POST", "/v1/self/trust", `{"no_other_copy_runs":true}`},
	}
	// What gives space up for good goes over the socket alone.
	socketAlone := map[string]bool{"DELETE /v1/peers/host-b": true, "POST /v1/recover": true, "POST /v1/self/rejoin": true, "POST /v1/self/trust": true}
	const secret = "0123456789abcdef"
	tests := []struct {
		name     string
		readOnly bool
		token    string
		header   string // Authorization
		code     string // of the problem; empty: allowed
	}{
		{name: "socket"},
		{name: "read-only", readOnly: true, code: CodeReadOnly},
		{name: "token missing", readOnly: true, token: secret, code: CodeUnauthorized},
		{name: "token wrong", readOnly: true, token: secret, header: "Bearer " + secret[:15] + "F", code: CodeUnauthorized},
		{name: "token cut", readOnly: true, token: secret, header: "Bearer " + secret[:15], code: CodeUnauthorized},
		{name: "token empty", readOnly: true, token: secret, header: "Bearer", code: CodeUnauthorized},
		{name: "another scheme", readOnly: true, token: secret, header: "Basic " + secret, code: CodeUnauthorized},
		{name: "token right", readOnly: true, token: secret, header: "Bearer " + secret},
		{name: "token right, odd case", readOnly: true, token: secret, header: "bearer  " + secret},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMemory()
			s, _ := logged(t, Config{Backend: m, Remote: tt.readOnly, Token: tt.token, DefaultPool: "lab"})
			for _, c := range writes {
				m.seen = nil
				s.guesses.all = map[netip.Addr]guess{} // none has to wait
				w, p := ask(t.Context(), s.Handler(), c.method, c.path, strings.NewReader(c.body), "Authorization", tt.header)
				if tt.code == "" && tt.readOnly && socketAlone[c.method+" "+c.path] {
					if p.Code != CodeReadOnly || w.Code != 403 || len(m.seen) > 0 || !strings.Contains(p.Detail, "run the command on the host itself") {
						t.Errorf("%s %s over TCP: got %d %s, backend saw %v", c.method, c.path, w.Code, w.Body, m.seen)
					}
					continue
				}
				if p.Code != tt.code || (len(m.seen) == 0) != (tt.code != "") {
					t.Errorf("%s %s: got %d %s, backend saw %v", c.method, c.path, w.Code, w.Body, m.seen)
				}
				if (w.Header().Get("WWW-Authenticate") != "") != (w.Code == http.StatusUnauthorized) {
					t.Errorf("%s %s: %d with challenge %q", c.method, c.path, w.Code, w.Header().Get("WWW-Authenticate"))
				}
			}
			if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/status", nil, "Authorization", tt.header); w.Code != 200 {
				t.Errorf("reading: got %d %s", w.Code, w.Body)
			}
		})
	}
	// The table of writes above is complete.
	s, _ := logged(t, Config{Backend: newMemory()})
	n := 0
	for _, r := range s.routes() {
		if r.write {
			n++
		} else if r.method != http.MethodGet {
			t.Errorf("%s %s is not marked as a write", r.method, r.path)
		}
	}
	if n != len(writes) {
		t.Errorf("there are %d writes, the test knows %d", n, len(writes))
	}
}

func TestReadiness(t *testing.T) {
	tests := []struct {
		name   string
		status ipam.Status
		code   int
		detail string
	}{
		{name: "fine", status: ipam.Status{Verdict: ipam.Fine}, code: 200},
		{name: "degraded serves", status: ipam.Status{Verdict: ipam.Degraded, Problems: []ipam.Problem{{Level: "degraded", Text: "x"}}}, code: 200},
		{name: "failed", status: ipam.Status{Verdict: ipam.Failed, Problems: []ipam.Problem{{Level: "degraded", Text: "x"}, {Level: "failed", Text: "y"}}}, code: 503, detail: "y"},
		{name: "failed without reason", status: ipam.Status{Verdict: ipam.Failed}, code: 503, detail: "this host hands out no addresses: ringlet status says why"},
		{name: "a conflict is of two containers alone", status: ipam.Status{Verdict: ipam.Failed, Problems: []ipam.Problem{{Level: "failed", Code: "conflict", Text: "z"}}}, code: 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := logged(t, Config{Backend: fixed{newMemory(), tt.status}})
			w, p := ask(t.Context(), s.Handler(), "GET", "/readyz", nil)
			if w.Code != tt.code || p.Detail != tt.detail {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

// fixed is a Backend with a given status.
type fixed struct {
	*memory
	status ipam.Status
}

func (f fixed) Status(context.Context) (ipam.Status, error)   { return f.status, nil }
func (f fixed) Snapshot(context.Context) (ipam.Status, error) { return f.status, nil }

func TestListsAreSortedCopies(t *testing.T) {
	given := ipam.Status{
		Peers:    []ipam.PeerStatus{{Name: "b", ID: "1"}, {Name: "a", ID: "2"}, {Name: "a", ID: "1"}},
		Voters:   []string{"2", "1"},
		Problems: []ipam.Problem{{Code: "x", Level: "degraded"}, {Code: "y", Level: "failed"}},
	}
	s, _ := logged(t, Config{Backend: fixed{newMemory(), given}})
	w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/status", nil)
	var got ipam.Status
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := ipam.Status{
		Peers:    []ipam.PeerStatus{{Name: "a", ID: "1"}, {Name: "a", ID: "2"}, {Name: "b", ID: "1"}},
		Voters:   []string{"2", "1"},
		Pools:    []ipam.PoolStatus{},
		Networks: []ipam.NetStatus{},
		Problems: []ipam.Problem{{Code: "y", Level: "failed"}, {Code: "x", Level: "degraded"}},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if given.Peers[0].Name != "b" || given.Problems[0].Code != "x" {
		t.Error("the backend's own lists were sorted")
	}
	if strings.Contains(w.Body.String(), "null") {
		t.Errorf("a list is null: %s", w.Body)
	}
}

func TestObserve(t *testing.T) {
	var got []string
	m := newMemory()
	s, _ := logged(t, Config{Backend: m, Observe: func(call, result string, took time.Duration) {
		if took < 0 {
			t.Errorf("%s took %v", call, took)
		}
		got = append(got, call+" "+result)
	}})
	ask(t.Context(), s.Handler(), "GET", "/v1/status", nil)
	ask(t.Context(), s.Handler(), "GET", "/v1/addresses/10.99.0.1", nil)
	ask(t.Context(), s.Handler(), "GET", "/v1/anything/10.99.0.1", nil)
	gone, cancel := context.WithCancel(t.Context())
	m.hook = func(ctx context.Context) error { cancel(); return context.Cause(ctx) }
	ask(gone, s.Handler(), "GET", "/v1/status", nil)
	want := []string{"status ok", "who address-not-held", "unknown not-found", "status gone"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("observed (-want +got):\n%s", diff)
	}
}

// What people ask when nothing answers needs none of the places that those
// hold who wait.
func TestStatusNeedsNoPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _ := logged(t, Config{Backend: &stuck{memory: newMemory()}})
		for range MaxRequests + 1 {
			go ask(t.Context(), s.Handler(), "GET", "/v1/addresses", nil)
		}
		synctest.Wait()
		begun := time.Now()
		for _, path := range []string{"/v1/status", "/readyz", "/livez"} {
			if w, _ := ask(t.Context(), s.Handler(), "GET", path, nil); w.Code != 200 || time.Since(begun) > 0 {
				t.Errorf("%s: %d %s, after %v", path, w.Code, w.Body, time.Since(begun))
			}
		}
	})
}

// stuck is a Backend that has nothing but its last snapshot.
type stuck struct{ *memory }

func (*stuck) Addresses(ctx context.Context, _ string) ([]ipam.AddressStatus, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
