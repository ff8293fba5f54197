package admin

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
)

// sane fails the test for what the API must never hand to a Backend.
func sane(t *testing.T, seen []any) {
	t.Helper()
	address := func(a netip.Addr) {
		if a.Zone() != "" || a.Is4In6() {
			t.Errorf("address %v reached the backend", a)
		}
	}
	pool := func(p string) {
		if strings.Contains(p, "/") {
			if cidr, err := netip.ParsePrefix(p); err != nil || cidr != cidr.Masked() || cidr.String() != p {
				t.Errorf("pool %q reached the backend", p)
			}
		}
	}
	for _, v := range seen {
		switch v := v.(type) {
		case netip.Addr:
			address(v)
		case netip.Prefix:
			if !v.IsValid() || v != v.Masked() {
				t.Errorf("subnet %v reached the backend", v)
			}
		case ipam.ClientRequest:
			pool(v.Pool)
			address(v.Address)
			if v.ID == "" || len(v.ID) > ipam.MaxHolder || v.Pool == "" {
				t.Errorf("request %+v reached the backend", v)
			}
		case ipam.FreeRequest:
			pool(v.Pool)
			address(v.Address)
			if v.ID == "" && !v.Address.IsValid() {
				t.Error("a request to free everything reached the backend")
			}
		}
	}
}

// fuzzed sends a request and fails the test if the API is at a loss.
func fuzzed(t *testing.T, r *http.Request) {
	t.Helper()
	m := newMemory()
	s, err := New(Config{Backend: m, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	if w.Code >= 500 {
		t.Errorf("%s %s: got %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	sane(t, m.seen)
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"for":"a"}`, `{"for":"a","address":"10.50.0.5"}`, `{"cidr":"10.60.0.0/24","name":"x"}`, `{"cidr":"fd00::/64"}`,
		`{"cidr":"::ffff:10.0.0.0/104"}`, `{"for":"a","address":"fe80::1%eth0"}`, `{"for":null}`, `{"undo":true}`, `{"force":true}`, `{"the_others_are_gone":true}`, `[]`, `{`, ``, `{"for":"a"}x`, "\x00", `{"FOR":"\ud800"}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/pools", "/v1/pools/lab/addresses", "/v1/self/drain", "/v1/self/leave", "/v1/recover", "/v1/check"} {
			fuzzed(t, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body)))
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, seed := range [][2]string{
		{"10.50.0.0/29", "10.50.0.1"},
		{"10.50.0.0%2F29", "x"},
		{"lab", "fd00:50::1"},
		{"fd00:50::/64", "::ffff:10.50.0.1"},
		{"..", "."},
		{"", ""},
		{"a/b", "fe80::1%eth0"},
		{"%", "%zz"},
		{"\x00\r\n", "?#&=;"},
		{"é", "１０.0.0.1"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pool, who string) {
		p, w, q := url.PathEscape(pool), url.PathEscape(who), url.QueryEscape(who)
		for _, target := range []string{
			"/v1/pools/" + p, "/v1/pools/" + p + "/addresses", "/v1/pools/" + p + "/addresses?for=" + q,
			"/v1/pools/" + p + "/addresses/" + w, "/v1/pools/" + p + "/addresses/" + w + "?for=" + q,
			"/v1/peers/" + w, "/v1/peers/" + p + "/evict", "/v1/peers/" + p + "?dry_run=" + q,
			"/v1/addresses?for=" + q, "/v1/addresses/" + w, "/v1/ring?pool=" + url.QueryEscape(pool),
			"/v1/addresses?" + strings.Map(printable, who), // whatever the parameters look like
		} {
			for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPost} {
				fuzzed(t, httptest.NewRequestWithContext(t.Context(), method, target, strings.NewReader(`{"for":"a"}`)))
			}
		}
	})
}

// printable drops what httptest refuses in a request line.
func printable(r rune) rune {
	if r <= ' ' || r >= 0x7f {
		return -1
	}
	return r
}
