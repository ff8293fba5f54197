package admin

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
)

// lost is a peer of whose cluster another owns a part of each of two pools.
func lost() *memory {
	m := newMemory()
	a := netip.MustParseAddr
	m.pools[0].Holders = []ipam.RangeStatus{
		{Start: a("fd00:50::1"), End: a("fd00:50::ff"), Owner: "aa01"},
		{Start: a("fd00:50::100"), End: a("fd00:50::1ff"), Owner: hostB},
	}
	m.pools[1].Holders = []ipam.RangeStatus{
		{Start: a("10.50.0.0"), End: a("10.50.0.0"), Owner: "reserved"},
		{Start: a("10.50.0.1"), End: a("10.50.0.2"), Owner: hostB},
		{Start: a("10.50.0.3"), End: a("10.50.0.3"), Owner: "cc03"}, // of a peer that nobody knows
		{Start: a("10.50.0.4"), End: a("10.50.0.4"), Owner: hostB},
		{Start: a("10.50.0.5"), End: a("10.50.0.6"), Owner: "free"},
	}
	return m
}

// What is kept back for a peer that is lost is told, by whatever it is named.
func TestEviction(t *testing.T) {
	for _, ref := range []string{"host-b", hostB, hostB[:8], strings.ToUpper(hostB[:12])} {
		s, _ := logged(t, Config{Backend: lost()})
		for range 2 {
			w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/peers/"+ref+"/evict", nil)
			var e Eviction
			if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 200 {
				t.Fatalf("%s: %d %s", ref, w.Code, w.Body)
			}
			if diff := cmp.Diff(Eviction{Peer: "host-b", ID: hostB, KeptBack: 256 + 3}, e); diff != "" {
				t.Errorf("%s (-want +got):\n%s", ref, diff)
			}
		}
	}
}

// A cluster that is founded anew keeps back what the others may be using, once
// for each way to count: neither what is this peer's nor a stranger's.
func TestRecovery(t *testing.T) {
	s, _ := logged(t, Config{Backend: lost()})
	w, _ := ask(t.Context(), s.Handler(), "POST", "/v1/recover", strings.NewReader(`{"the_others_are_gone":true}`))
	var got Recovery
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	want := Recovery{Cluster: "00112233445566778899aabbccddeeff", Evicted: []string{"host-b"}, KeptBack: 256 + 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What is not stated, or not in so many words, changes nothing.
func TestNothingIsGivenUpByAccident(t *testing.T) {
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/v1/recover", ""},
		{"POST", "/v1/recover", "{}"},
		{"POST", "/v1/recover", `{"the_others_are_gone":false}`},
		{"POST", "/v1/recover", `{"the_others_are_gone":"true"}`},
		{"POST", "/v1/recover", `{"the_others_are_gone":true} {}`},
		{"POST", "/v1/self/rejoin", ""},
		{"POST", "/v1/self/rejoin", "{}"},
		{"POST", "/v1/self/rejoin", `{"dry_run":false}`},
		{"POST", "/v1/self/rejoin", `{"set_the_database_aside":false}`},
		{"POST", "/v1/self/trust", ""},
		{"POST", "/v1/self/trust", "{}"},
		{"POST", "/v1/self/trust", `{"no_other_copy_runs":false}`},
		{"DELETE", "/v1/peers/host-b?dry_run=1", ""},
		{"DELETE", "/v1/peers/host-b?dry_run=", ""},
		{"DELETE", "/v1/peers/host-b?dryrun=true", ""},
		{"DELETE", "/v1/peers/", ""},
	} {
		m := lost()
		s, _ := logged(t, Config{Backend: m})
		if w, _ := ask(t.Context(), s.Handler(), r.method, r.path, strings.NewReader(r.body)); w.Code < 400 || len(m.seen) > 0 {
			t.Errorf("%s %s %s: %d, and the peer was asked for %v", r.method, r.path, r.body, w.Code, m.seen)
		}
	}
}
