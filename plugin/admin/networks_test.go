package admin

import (
	"net/netip"
	"strings"
	"testing"
)

// The name of a Docker network of this host stands for its pool, unless a pool has that name.
func TestNetworkStandsForItsPool(t *testing.T) {
	m := newMemory()
	four, six := m.pools[1].Pool, m.pools[0].Pool
	m.pools[1].NetworkNames = []string{"dual", "four", "lab"}
	on := map[string][]netip.Prefix{"four": {four}, "six": {six}, "dual": {four, six}, "lab": {four}}
	s, _ := logged(t, Config{Backend: m, Networks: func(name string) []netip.Prefix { return on[name] }})
	for _, tc := range []struct {
		pool string
		code int
		said string
	}{
		{"four", 201, `"pool":"10.50.0.0/29"`},
		{"six", 201, `"pool":"fd00:50::/64"`},
		{"lab", 201, `"pool":"10.50.0.0/29"`},
		{"10.50.0.0%2F29", 201, `"pool":"10.50.0.0/29"`},
		{"dual", 400, "the network dual has the pools 10.50.0.0/29 and fd00:50::/64: name one of them"},
		{"none", 404, "none"},
	} {
		w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/pools/"+tc.pool+"/addresses", strings.NewReader(`{"for":"printer-`+tc.pool[:2]+`"}`))
		if w.Code != tc.code || !strings.Contains(w.Body.String(), tc.said) {
			t.Errorf("%s: %d %s", tc.pool, w.Code, w.Body)
		}
	}
	for pool, want := range map[string]int{"six": 200, "dual": 400, "none": 404} {
		if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/pools/"+pool, nil); w.Code != want {
			t.Errorf("%s: %d %s", pool, w.Code, w.Body)
		}
	}
}
