package admin

import (
	"encoding/json"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

func TestReservations(t *testing.T) {
	a := netip.MustParseAddr
	doc := readDocument(t)
	for _, tt := range []struct {
		method, path, body string
		asked              any
	}{
		{"GET", "/v1/reservations", "", ""},
		{"GET", "/v1/reservations?pool=10.50.0.0/29", "", "10.50.0.0/29"},
		{
			"POST", "/v1/reservations", `{"addresses":"10.50.0.3-10.50.0.4","note":"printers"}`,
			ipam.ReserveRequest{First: a("10.50.0.3"), Last: a("10.50.0.4"), Kind: chronicle.KindExcluded, Note: "printers"},
		},
		{
			"POST", "/v1/reservations", `{"addresses":"10.50.0.4/31","pool":"lab"}`,
			ipam.ReserveRequest{Pool: "lab", First: a("10.50.0.4"), Last: a("10.50.0.5"), Kind: chronicle.KindExcluded},
		},
		{
			"POST", "/v1/reservations", `{"addresses":"fd00:50::/64"}`,
			ipam.ReserveRequest{First: a("fd00:50::"), Last: a("fd00:50::ffff:ffff:ffff:ffff"), Kind: chronicle.KindExcluded},
		},
		{
			"POST", "/v1/reservations", `{"addresses":"::ffff:10.50.0.3","for":"web"}`,
			ipam.ReserveRequest{First: a("10.50.0.3"), Last: a("10.50.0.3"), Kind: chronicle.KindKeptForName, Note: "web"},
		},
		{
			"DELETE", "/v1/reservations?addresses=10.50.0.3&kind=kept&pool=lab", "",
			ipam.UnreserveRequest{Pool: "lab", First: a("10.50.0.3"), Last: a("10.50.0.3"), Kind: chronicle.KindKeptForName},
		},
		{
			"DELETE", "/v1/reservations?addresses=10.50.0.0/30&kind=excluded", "",
			ipam.UnreserveRequest{First: a("10.50.0.0"), Last: a("10.50.0.3"), Kind: chronicle.KindExcluded},
		},
	} {
		m := newMemory()
		s, _ := logged(t, Config{Backend: m})
		w, _ := ask(t.Context(), s.Handler(), tt.method, tt.path, strings.NewReader(tt.body))
		if w.Code != 200 || len(m.seen) != 1 {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, w.Code, w.Body)
			continue
		}
		doc.checkExchange(t, tt.method, tt.path, tt.body, w.Code, w.Header(), w.Body.String())
		if diff := cmp.Diff(tt.asked, m.seen[0], cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", tt.method, tt.path, diff)
		}
	}
	s, _ := logged(t, Config{Backend: newMemory()})
	if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/reservations?pool=none", nil); strings.TrimSpace(w.Body.String()) != "[]" {
		t.Errorf("nothing is %s", w.Body)
	}
}

// What is not understood keeps nothing back, and frees nothing.
func TestReservationsRefused(t *testing.T) {
	for _, r := range []struct{ method, path, body, text string }{
		{"POST", "/v1/reservations", `{"addresses":"printers"}`, "no address or range"},
		{"POST", "/v1/reservations", `{"addresses":"10.50.0.1-"}`, "no address or range"},
		{"POST", "/v1/reservations", `{"addresses":"10.50.0.1/24"}`, "did you mean 10.50.0.0/24"},
		{"POST", "/v1/reservations", `{"addresses":"fe80::1%eth0"}`, "no address or range"},
		{"POST", "/v1/reservations", `{}`, "no address or range"},
		{"POST", "/v1/reservations", `{"addresses":"10.50.0.1","for":"web","note":"x"}`, "not both"},
		{"POST", "/v1/reservations", `{"addresses":"10.50.0.1","kind":"gateway"}`, "kind"},
		{"DELETE", "/v1/reservations?addresses=10.50.0.1", "", "kind is excluded or kept"},
		{"DELETE", "/v1/reservations?kind=excluded", "", "no address or range"},
		{"DELETE", "/v1/reservations?addresses=10.50.0.1&kind=gateway", "", "kind is excluded or kept"},
		{"GET", "/v1/reservations?kind=kept", "", "kind"},
	} {
		m := newMemory()
		s, _ := logged(t, Config{Backend: m})
		w, _ := ask(t.Context(), s.Handler(), r.method, r.path, strings.NewReader(r.body))
		var p Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 400 || !strings.Contains(p.Detail, r.text) || len(m.seen) > 0 {
			t.Errorf("%s %s %s: %d %s, and the peer was asked for %v", r.method, r.path, r.body, w.Code, p.Detail, m.seen)
		}
	}
}
