package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/ringlet/ringlet/internal/golden"

	"github.com/ringlet/ringlet/ipam"
)

// serveOn answers on a unix socket until the test ends and returns a client
// that connects to it whatever the URL says.
func serveOn(t *testing.T, cfg Config) *http.Client {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve returned %v, want nil", err)
		}
	})
	return &http.Client{Transport: transport}
}

// do sends a request and returns the answer's status, header and body.
func do(t *testing.T, c *http.Client, method, path, body string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://ringlet"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

var requestID = regexp.MustCompile(`[0-9a-f]{6}-[0-9a-f]+`)

// TestConversation holds the whole API against a file: requests in order, one
// backend, each with its answer.
func TestConversation(t *testing.T) {
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "up 1") })
	c := serveOn(t, Config{Backend: newMemory(), Metrics: metrics, Process: &around{}, Journal: past{}, Directory: newShelf(), Locks: &cabinet{}, DefaultPool: "lab"})
	const lab = "/v1/pools/10.50.0.0%2F29"
	requests := []string{
		"# health, and what there is",
		"GET /livez", "GET /readyz", "GET /metrics", "GET /v1/status", "GET /v1/peers", "GET /sd/prometheus?port=7951", "GET /v1/pools", "GET " + lab, "GET /v1/pools/lab",
		"GET /v1/ring", "GET /v1/ring?pool=lab", "GET /v1/ring?pool=10.50.0.0%2F29", "GET /v1/ring/table", "GET /v1/ring/table?pool=lab", "POST /v1/check",
		"# allocate: new, again, another, claimed, claimed again",
		"POST " + lab + `/addresses {"for":"printer-3"}`,
		"POST " + lab + `/addresses {"for":"printer-3"}`,
		`POST /v1/pools/lab/addresses {"for":"camera"}`,
		`POST /v1/pools/lab/addresses {"for":"camera","address":"10.50.0.5"}`,
		`POST /v1/pools/lab/addresses {"for":"camera","address":"::ffff:10.50.0.5"}`,
		`POST /v1/pools/fd00:50::%2F64/addresses {"for":"camera"}`,
		`POST /v1/addresses {"for":"camera"}`, `POST /v1/addresses {"for":"door"}`,
		"# lists are sorted",
		"GET /v1/addresses", "GET " + lab + "/addresses", "GET " + lab + "/addresses?for=camera", "GET /v1/addresses?for=camera", "GET /v1/addresses?for=nobody",
		"GET /v1/addresses/10.50.0.5", "GET /v1/addresses/10.50.0.5/explain", "GET /v1/addresses/fd00:50::1",
		"# what the peers say of themselves",
		"GET /v1/kv/ringlet/state/pools/v1/ringlet/names/lab", "GET /v1/kv/ringlet/state/ip/?recursive=true&limit=2", "GET /v1/kv/ringlet/state/ip/?recursive=true&limit=2&after=ringlet/state/ip/v1/ringlet/10.50.0.4",
		"GET /v1/kv/nothing", "GET /v1/kv/nothing?recursive=true", "GET /v1/kv/?recursive=yes", "GET /v1/kv/?recursive=true&limit=0", "GET /v1/kv/?watch=true&since=now", "DELETE /v1/kv/ringlet/state/ip/?recursive=true", "DELETE /v1/kv/ringlet/state/ip/v1/ringlet/10.50.0.2", "DELETE /v1/kv/", "DELETE /v1/kv/nothing?recursive=maybe", "PUT /v1/kv/ringlet/.heartbeat",
		"GET /v1/addresses?all=true", "GET /v1/addresses?all=true&for=db", "GET " + lab + "/addresses?all=true&for=db", "GET /v1/addresses?all=maybe", "GET /v1/addresses/10.50.0.6", "GET /sd/prometheus?containers=true&port=9100", "GET /sd/prometheus?containers=true",
		"# the past",
		"GET /v1/journal/10.50.0.5?at=2026-11-20T09:00:00Z", "GET /v1/journal/10.50.0.5?at=yesterday", "GET /v1/journal/ten",
		"# free, and free again",
		"DELETE " + lab + "/addresses/10.50.0.5?for=printer-3", "DELETE " + lab + "/addresses/10.50.0.5?for=camera",
		"DELETE /v1/addresses/10.50.0.1", "DELETE /v1/addresses/10.50.0.1", "DELETE /v1/addresses?for=camera", "DELETE " + lab + "/addresses?for=camera", "GET /v1/addresses", "GET /v1/addresses/10.50.0.1/explain", "GET /v1/addresses/x/explain",
		"# leaks",
		"POST /v1/check", `POST /v1/gc {"findings":[{"code":"no-endpoint","address":"10.50.0.1","pool":"10.50.0.0/29","container":"","name":"web","since":"2026-11-21T09:00:00Z","missing":null,"text":"","next":""}],"dry_run":true}`,
		`POST /v1/gc {"findings":[]}`, `POST /v1/gc {"dryrun":true}`, "POST /v1/gc",
		"# pools",
		`POST /v1/pools {"cidr":"10.60.0.0/24","name":"office"}`, `POST /v1/pools {"cidr":"10.60.0.0/24","name":"office"}`, "DELETE /v1/pools/office", "DELETE /v1/pools/10.60.0.0%2F24",
		"# what is kept back",
		`POST /v1/reservations {"addresses":"10.50.0.3-10.50.0.4","note":"printers"}`, "GET /v1/reservations", "GET /v1/reservations?pool=none",
		"DELETE /v1/reservations?addresses=10.50.0.3&kind=excluded", "DELETE /v1/reservations?addresses=10.50.0.3",
		"# locks: taken, asked for again and by somebody else, renewed, ended, lost",
		"GET /v1/locks", `POST /v1/locks/backup {"holder":"restic backup /srv","token":"a"}`, `POST /v1/locks/backup {"holder":"restic backup /srv","token":"a"}`,
		`POST /v1/locks/backup {"holder":"another"}`, "GET /v1/locks", `PUT /v1/locks/backup {"fence":7}`, "DELETE /v1/locks/backup?fence=6", "DELETE /v1/locks/backup?fence=7", "DELETE /v1/locks/backup?fence=7",
		`PUT /v1/locks/backup {"fence":7}`, `POST /v1/locks/a%2Fb {"holder":"x"}`, `POST /v1/locks/backup {}`, `POST /v1/locks/backup {"holder":"x","token":"` + strings.Repeat("x", 65) + `"}`, "DELETE /v1/locks/backup", "DELETE /v1/locks/backup?fence=last", "PUT /v1/locks/backup {}",
		"# the process",
		"GET /v1/about", "GET /v1/log", "GET /v1/crash", "GET /v1/keys", `POST /v1/keys {"step":"add","key":"x"}`, `POST /v1/keys {"add":"x"}`,
		"# drain, and not",
		`POST /v1/self/drain {}`, `POST /v1/self/drain {}`, `POST /v1/self/drain {"undo":true}`, `POST /v1/self/drain {"undo":true}`, `POST /v1/self/drain {"also":true}`, `POST /v1/self/drain {"undo":true}`, `POST /v1/self/drain {"undo":true,"also":true}`,
		"# meet another peer, and again",
		`POST /v1/peers {"address":"host-b"}`, `POST /v1/peers {"address":"host-b:7950"}`, `POST /v1/peers {"address":"host-z"}`,
		"# a peer that is lost: forgotten only after it is evicted, both again",
		"DELETE /v1/peers/host-b", "POST /v1/peers/host-c/evict", "POST /v1/peers/host-b/evict", "POST /v1/peers/" + hostB + "/evict", "POST /v1/peers/host-b/evict", "GET /v1/peers",
		"DELETE /v1/peers/host-b?dry_run=true", "DELETE /v1/peers/host-b?dry_run=false", "DELETE /v1/peers/" + hostB, "POST /v1/peers/host-b/evict", "GET /v1/peers",
		"# recover, and again",
		`POST /v1/recover {"the_others_are_gone":true}`, `POST /v1/recover {"the_others_are_gone":true}`, "GET /v1/status",
		"# what is refused",
		"POST /v1/recover", `POST /v1/recover {}`, `POST /v1/recover {"the_others_are_gone":false}`, `POST /v1/recover {"force":true}`, "GET /v1/recover",
		"POST /v1/peers", `POST /v1/peers {}`, `POST /v1/peers {"peer":"host-b"}`, `POST /v1/peers {"address":["host-b"]}`,
		"DELETE /v1/peers", "GET /v1/peers/host-b", "DELETE /v1/peers/host-b?dry_run=yes", "DELETE /v1/peers/host-b?dry_run=", "DELETE /v1/peers/host-b?dry-run=true", "DELETE /v1/peers/host-c", "POST /v1/peers/host-b", "DELETE /v1/peers/host-b/evict",
		"GET /", "GET /v1/nothing", "GET /v1/pools/10.50.0.0/29", "PUT /v1/status", "DELETE /v1/pools", "POST /livez",
		"GET /v1/status?verbose=1", "GET /v1/addresses?fro=camera", "DELETE /v1/addresses?for=", "DELETE /v1/addresses?for=a&for=b", "DELETE /v1/addresses", "GET /v1/ring?pool=%zz",
		"GET /v1/pools/10.50.0.1%2F29", "GET /v1/pools/10.50.0.0%2F33", "GET /v1/ring?pool=none", "GET /v1/ring/table?pool=none", "GET /v1/ring/table?pool=10.50.0.1%2F29", "GET /v1/ring/table?zone=a", "GET /v1/addresses/10.50.0.0%2F29", "GET /v1/addresses/fe80::1%25eth0",
		"POST " + lab + "/addresses", "POST " + lab + "/addresses []", "POST " + lab + `/addresses {"for":3}`, "POST " + lab + `/addresses {"for":"a"`, "POST " + lab + `/addresses {"for":"a"} {}`,
		"POST " + lab + `/addresses {"for":"a","addr":"10.50.0.5"}`, "POST " + lab + `/addresses {"for":""}`, "POST " + lab + `/addresses {"for":"a","address":"ten"}`,
		"POST " + lab + `/addresses {"for":"` + strings.Repeat("x", 256) + `"}`,
		"POST /v1/self/drain", `POST /v1/self/drain {"undo":"yes"}`, `POST /v1/self/leave {"forced":true}`, "GET /v1/self/leave", "POST /v1/self",
		`POST /v1/pools {}`, `POST /v1/pools {"cidr":"10.50.0.1/24"}`, `POST /v1/pools {"cidr":"10.50.0.0"}`, `POST /v1/pools {"cidr":"10.0.0.0/8"}`,
		"# leave: refused, under way, left, left before",
		"POST " + lab + `/addresses {"for":"camera"}`, `POST /v1/self/leave {}`, `POST /v1/self/leave {"force":true}`, `POST /v1/self/leave {"force":true}`, `POST /v1/self/leave {}`,
		"# start over, and trust: what is not stated, and what is",
		`POST /v1/self/rejoin {}`, `POST /v1/self/rejoin {"dry_run":true}`, `POST /v1/self/rejoin {"set_the_database_aside":true}`, `POST /v1/self/rejoin {"set_the_database_aside":true}`,
		`POST /v1/self/trust {}`, `POST /v1/self/trust {"no_other_copy_runs":true}`, "GET /v1/self/trust",
	}
	var out bytes.Buffer
	doc := readDocument(t)
	for _, line := range requests {
		if strings.HasPrefix(line, "#") {
			fmt.Fprintf(&out, "%s\n\n", line)
			continue
		}
		method, rest, _ := strings.Cut(line, " ")
		path, body, _ := strings.Cut(rest, " ")
		status, header, text := do(t, c, method, path, body)
		doc.checkExchange(t, method, path, body, status, header, text)
		fmt.Fprintf(&out, "> %s\n< %d %s\n", line, status, header.Get("Content-Type"))
		for _, h := range []string{"Location", "Allow"} {
			if v := header.Get(h); v != "" {
				fmt.Fprintf(&out, "< %s: %s\n", h, v)
			}
		}
		fmt.Fprintf(&out, "%s\n", requestID.ReplaceAllString(text, "REQUEST"))
	}
	doc.checkComplete(t, "events", "openapi") // which are asked for elsewhere
	golden.Check(t, "conversation.txt", out.Bytes())
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	c := serveOn(t, Config{Backend: newMemory()})
	status, header, body := do(t, c, http.MethodHead, "/v1/status", "")
	if length := header.Get("Content-Length"); status != http.StatusOK || body != "" || length == "" || length == "0" {
		t.Errorf("got status %d, length %q and body %q", status, length, body)
	}
}

// The pool is one segment, whatever it is called: it comes out as it went in.
func TestPoolIsOneSegment(t *testing.T) {
	m := newMemory()
	s, err := New(Config{Backend: m, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for segment, want := range map[string]string{
		"10.50.0.0%2F29": "10.50.0.0/29", "10.50.0.0%2f29": "10.50.0.0/29", "fd00:50::%2F64": "fd00:50::/64",
		"FD00:50:0::%2F64": "fd00:50::/64", "a%20b": "a b", "%C3%A9": "é", "50%25": "50%", "a+b": "a+b", "%2e%2e": "..",
	} {
		m.seen = nil
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/pools/"+segment+"/addresses", nil))
		if len(m.seen) != 1 || m.seen[0] != any(ipam.Listing{Pool: want}) {
			t.Errorf("segment %s: the backend got %q, want %q (answer %d %s)", segment, m.seen, want, w.Code, w.Body)
		}
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	c := serveOn(t, Config{Backend: newMemory()})
	const clients, holders = 100, 20
	answers := make([]Grant, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			body := fmt.Sprintf(`{"for":"holder-%d"}`, i%holders)
			resp, err := c.Post("http://ringlet/v1/pools/fd00:50::%2F64/addresses", "application/json", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if err := json.NewDecoder(resp.Body).Decode(&answers[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	of := map[string]Grant{}
	addresses := map[string]bool{}
	for _, a := range answers {
		if first, ok := of[a.For]; ok && first != a {
			t.Errorf("%s got %v and %v", a.For, first.Address, a.Address)
		}
		of[a.For] = a
		addresses[a.Address.String()] = true
	}
	if len(of) != holders || len(addresses) != holders {
		t.Errorf("%d holders got %d addresses, want %d each", len(of), len(addresses), holders)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := New(Config{Timeout: -1})
	if err == nil {
		t.Fatal("got no error")
	}
	for _, want := range []string{"backend", "logger", "negative"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

func TestServeSaysThatItsListenerDied(t *testing.T) {
	s, err := New(Config{Backend: newMemory(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if err := s.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "stopped answering") {
		t.Errorf("got %v", err)
	}
}

// full is a listener of a process that has no file left for a first connection.
type full struct {
	net.Listener
	refused atomic.Bool
}

func (f *full) Accept() (net.Conn, error) {
	if f.refused.CompareAndSwap(false, true) {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

// That nobody can connect is worth a warning; what clients do is not.
func TestConnectionsThatAreNotAccepted(t *testing.T) {
	var log strings.Builder
	s, err := New(Config{Backend: newMemory(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, &full{Listener: l}) }()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /livez?a;b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if _, err := io.ReadAll(conn); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "too many open files") || strings.Contains(got, "semicolon") {
		t.Errorf("the log says\n%s", got)
	}
}

// What is being answered when the process is told to end is answered still.
func TestShutdownFinishesRequests(t *testing.T) {
	m := newMemory()
	inside, release := make(chan struct{}), make(chan struct{})
	m.hook = func(context.Context) error { close(inside); <-release; return nil }
	s, err := New(Config{Backend: m, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()

	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n")
	<-inside
	cancel()
	for { // until the listener is gone
		c, err := net.Dial("unix", path)
		if err != nil {
			break
		}
		_ = c.Close()
	}
	close(release)
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Errorf("got %q, %v", answer, err)
	}
	if err := <-done; err != nil {
		t.Errorf("Serve returned %v, want nil", err)
	}
}
