package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
)

// A server on a TCP address is asked by an address, or by a name that an operator has
// given it. The socket has no name.
func TestNamesOfTheServer(t *testing.T) {
	cfg := Config{Backend: newMemory(), Remote: true, Hosts: []string{"host-a", "Ringlet.Example.com"}}
	remote, _ := logged(t, cfg)
	local, _ := logged(t, Config{Backend: newMemory()})
	for host, want := range map[string]int{
		"127.0.0.1:7951": 200, "127.0.0.1": 200, "192.168.1.10:7951": 200, "[::1]:7951": 200, "[fd00::7]": 200, "[fe80::1%25eth0]:7951": 200,
		"localhost:7951": 200, "LOCALHOST": 200, "localhost.": 200, "host-a:7951": 200, "HOST-A.": 200, "ringlet.example.com:443": 200, "": 200,
		"evil.example:7951": 421, "evil.example": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example": 421, "host-b": 421,
		"sub.ringlet.example.com": 421, "example.com": 421, "2130706433": 421, "0x7f000001": 421, "127.1": 421, "a b": 421,
	} {
		for _, path := range []string{"/v1/status", "/metrics", "/livez", "/", "/nothing"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Host = host
			w := httptest.NewRecorder()
			remote.Handler().ServeHTTP(w, r)
			if refused := w.Code == 421; refused != (want == 421) || refused && (!strings.Contains(w.Body.String(), CodeMisdirected) || !strings.Contains(w.Body.String(), "RINGLET_HTTP_HOSTS")) {
				t.Errorf("%q, %s: got %d %s", host, path, w.Code, w.Body)
			}
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/status", nil)
		r.Host = host
		w := httptest.NewRecorder()
		if local.Handler().ServeHTTP(w, r); w.Code != 200 {
			t.Errorf("%q on the socket: got %d", host, w.Code)
		}
	}
}

// What a page of another site makes a browser send is refused, and what a person or a
// program asks for is not.
func TestOtherSites(t *testing.T) {
	const token = "Bearer 0123456789abcdef"
	s, _ := logged(t, Config{Backend: newMemory(), Remote: true, Token: "0123456789abcdef"})
	for _, tt := range []struct {
		name, method, path string
		header             []string
		refused            bool
	}{
		{"a program", "GET", "/v1/status", nil, false},
		{"the page here", "GET", "/v1/status", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}, false},
		{"a person", "GET", "/v1/status", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}, false},
		{"a link of another site", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, false},
		{"a frame of another site", "GET", "/", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, true},
		{"a script of another site", "GET", "/v1/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, true},
		{"an image of another site", "GET", "/v1/status", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}, true},
		{"a form of another site", "POST", "/v1/pools", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Authorization", token}, true},
		{"a write of another origin", "POST", "/v1/pools", []string{"Origin", "http://evil.example", "Authorization", token}, true},
		{"a write of no origin", "POST", "/v1/pools", []string{"Origin", "null", "Authorization", token}, true},
		{"a write of this origin", "POST", "/v1/pools", []string{"Origin", "http://127.0.0.1:7951", "Authorization", token}, false},
		{"a write of another port", "POST", "/v1/pools", []string{"Origin", "http://127.0.0.1:8080", "Authorization", token}, true},
		{"a write of a program", "POST", "/v1/pools", []string{"Authorization", token}, false},
		{"a read of another origin of this site", "GET", "/v1/status", []string{"Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "same-site"}, false},
	} {
		w, p := ask(t.Context(), s.Handler(), tt.method, tt.path, strings.NewReader(`{"cidr":"10.9.0.0/24"}`), tt.header...)
		if (p.Code == CodeCrossSite && w.Code == 403) != tt.refused || w.Header().Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d %s", tt.name, w.Code, w.Body)
		}
	}
}

// A source that sends wrong tokens has to wait, longer each time, and no other has. A
// request without a token is no guess.
func TestWrongTokens(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, _ := logged(t, Config{Backend: newMemory(), Remote: true, Token: "0123456789abcdef"})
		from := func(source, token string) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/check", nil)
			r.Host, r.RemoteAddr = "127.0.0.1", source
			if token != "" {
				r.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, r)
			if (w.Code == 429) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("%d with Retry-After %q", w.Code, w.Header().Get("Retry-After"))
			}
			return w.Code
		}
		const good, wrong = "0123456789abcdef", "0123456789abcdeg"
		for range 10 {
			if code := from("10.0.0.1:1", ""); code != 401 {
				t.Errorf("no token: %d", code)
			}
		}
		for range freeGuesses {
			if code := from("10.0.0.1:1", wrong); code != 401 {
				t.Errorf("a wrong one: %d", code)
			}
		}
		for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
			for _, token := range []string{wrong, good} {
				if code := from(fmt.Sprintf("10.0.0.1:%d", i), token); code != 429 {
					t.Errorf("wait %d: %d", i, code)
				}
			}
			if code := from("10.0.0.2:1", good); code != 200 {
				t.Errorf("another source: %d", code)
			}
			time.Sleep(wait - 1)
			if code := from("10.0.0.1:1", good); code != 429 {
				t.Errorf("a moment before the end of wait %d: %d", i, code)
			}
			time.Sleep(time.Nanosecond)
			if code := from("10.0.0.1:1", wrong); code != 401 {
				t.Errorf("after wait %d: %d", i, code)
			}
		}
		time.Sleep(time.Minute)
		if code := from("10.0.0.1:1", good); code != 200 {
			t.Errorf("the right one: %d", code)
		}
		if code := from("10.0.0.1:1", wrong); code != 401 {
			t.Errorf("afterwards a wrong one: %d", code)
		}
		// All addresses of one IPv6 network are one source.
		for i := range freeGuesses {
			from(fmt.Sprintf("[fd00::%d]:1", i+1), wrong)
		}
		if code := from("[fd00::77]:1", good); code != 429 {
			t.Errorf("another address of the network: %d", code)
		}
		time.Sleep(time.Minute)
		for i := range 3 * maxSources {
			s.guesses.wrong(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}))
			time.Sleep(time.Nanosecond)
		}
		if n := len(s.guesses.all); n != maxSources {
			t.Errorf("%d sources are remembered", n)
		}
	})
}

// To leave by force goes over the socket alone; to leave does not.
func TestLeavingByForce(t *testing.T) {
	s, _ := logged(t, Config{Backend: newMemory(), Remote: true, Token: "0123456789abcdef"})
	for body, want := range map[string]int{`{"force":true}`: 403, `{"force": true, "force":false}`: 400, `{"Force":true}`: 403, `{"force":false}`: 409, `{}`: 409, `{"force":1}`: 400} {
		m := newMemory()
		m.held = []ipam.AddressStatus{{Address: netip.MustParseAddr("10.50.0.1"), Pool: netip.MustParsePrefix("10.50.0.0/29")}}
		s.cfg.Backend = m
		if w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/self/leave", strings.NewReader(body), "Authorization", "Bearer 0123456789abcdef"); w.Code != want {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// Every write leaves a line: who asked, from where, for what, and what became of it.
func TestAuditLines(t *testing.T) {
	var mu sync.Mutex
	var out []string
	line := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		out = append(out, fmt.Sprintf(format, args...))
	}
	logger := slog.New(lineHandler{func(r slog.Record) {
		if r.Message != "write answered" {
			return
		}
		text := r.Level.String() + " " + r.Message
		r.Attrs(func(a slog.Attr) bool {
			if a.Key != "request" {
				text += fmt.Sprintf(" %s=%q", a.Key, a.Value)
			}
			return true
		})
		line("log:   %s", text)
	}})
	written := func(w Write) { line("event: %v", w) }
	m := newMemory()
	m.hostB = "active"
	common := Config{Backend: m, Process: &around{}, Logger: logger, Written: written}
	remote := common
	remote.Remote, remote.Token = true, "0123456789abcdef"

	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "admin.sock"))
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	for l, cfg := range map[net.Listener]Config{socket: common, tcp: remote} {
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		serving.Go(func() { _ = s.Serve(ctx, l) })
	}
	for _, c := range []struct {
		over               net.Listener
		method, path, body string
		token              string
	}{
		{socket, "POST", "/v1/pools", `{"cidr":"10.9.0.0/24","name":"lab-2"}`, ""},
		{socket, "POST", "/v1/pools/lab/addresses", `{"for":"printer 3\n"}`, ""},
		{socket, "POST", "/v1/pools/none/addresses", `{"for":"printer-3","address":"10.50.0.7"}`, ""},
		{socket, "DELETE", "/v1/pools/10.9.0.0%2F24", "", ""},
		{socket, "DELETE", "/v1/addresses?for=printer-3", "", ""},
		{socket, "POST", "/v1/keys", `{"step":"add","key":"c2VjcmV0"}`, ""},
		{socket, "POST", "/v1/self/leave", `{"force":true}`, ""},
		{socket, "POST", "/v1/peers/host-b/evict", "", ""},
		{socket, "DELETE", "/v1/peers/host-b?dry_run=true", "", ""},
		{socket, "POST", "/v1/recover", `{"the_others_are_gone":true}`, ""},
		{socket, "POST", "/v1/self/rejoin", `{"set_the_database_aside":true}`, ""},
		{socket, "POST", "/v1/self/trust", `{"no_other_copy_runs":true}`, ""},
		{socket, "POST", "/v1/pools", `{"cidr":`, ""},
		{socket, "POST", "/v1/gc", `{"findings":[` + strings.Repeat(`{"address":"10.50.0.1"},`, 99) + `{"address":"10.50.0.1"}],"dry_run":true}`, ""},
		{socket, "GET", "/v1/status", "", ""},
		{tcp, "POST", "/v1/pools", `{"cidr":"10.9.0.0/24"}`, "0123456789abcdef"},
		{tcp, "POST", "/v1/recover", `{"the_others_are_gone":true}`, "0123456789abcdef"},
		{tcp, "POST", "/v1/self/rejoin", `{"set_the_database_aside":true}`, "0123456789abcdef"},
		{tcp, "POST", "/v1/self/trust", `{"no_other_copy_runs":true}`, "0123456789abcdef"},
		{tcp, "POST", "/v1/keys", `{"step":"add","key":"c2VjcmV0"}`, "0123456789abcdef"},
		{tcp, "POST", "/v1/pools", `{"cidr":"10.9.0.0/24"}`, ""},
		{tcp, "POST", "/v1/pools", `{"cidr":"10.9.0.0/24"}`, "a-wrong-token-of-somebody"},
		{tcp, "GET", "/v1/addresses", "", "0123456789abcdef"},
	} {
		line("%s %s %s", c.method, c.path, c.body[:min(len(c.body), 60)])
		h := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, c.over.Addr().Network(), c.over.Addr().String())
		}}}
		r, err := http.NewRequestWithContext(ctx, c.method, "http://127.0.0.1"+c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			r.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := h.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		h.CloseIdleConnections()
		line("       %d", resp.StatusCode)
	}
	text := strings.Join(out, "\n") + "\n"
	text = regexp.MustCompile(`uid \d+, pid \d+`).ReplaceAllString(text, "uid UID, pid PID")
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "127.0.0.1:PORT")
	for line := range strings.Lines(text) {
		if strings.Contains(line, "c2VjcmV0") && !strings.HasPrefix(line, "POST") || strings.Contains(line, "0123456789abcdef") {
			t.Errorf("a secret is written down: %s", line)
		}
	}
	golden.Check(t, "audit.txt", []byte(text))
}

// lineHandler hands over what is logged.
type lineHandler struct{ line func(slog.Record) }

func (h lineHandler) Enabled(context.Context, slog.Level) bool      { return true }
func (h lineHandler) Handle(_ context.Context, r slog.Record) error { h.line(r); return nil }
func (h lineHandler) WithAttrs([]slog.Attr) slog.Handler            { return h }
func (h lineHandler) WithGroup(string) slog.Handler                 { return h }

// What is written down of a request is bounded, and cannot be taken for more than it is.
func TestWhat(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/v1/pools", nil)
	long := strings.Repeat("ä", 1000)
	for body, want := range map[string]string{
		`{"for":"a result=ok"}`:              `alloc for="a result=ok"`,
		`{"for":""}`:                         `alloc for=""`,
		`{"for":"a\u202eb"}`:                 `alloc for="a\u202eb"`,
		`{"for":["a", {"b": 1}], "n": null}`: `alloc for="[\"a\",{\"b\":1}]" n=`,
		`{"KEY":"x","Key":"y"}`:              `alloc`,
		`nonsense`:                           `alloc`,
		`{"for":"` + long + `"}`:             `alloc for=` + long[:maxArgument] + `…`,
	} {
		got := what(route{call: "alloc"}, r, []byte(body))
		if want = strings.TrimSuffix(want, " n="); got != want && !strings.HasPrefix(got, want) || len(got) > maxWhat+len("…") {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}
