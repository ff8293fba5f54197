package admin

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/journal"
)

// past is a journal with one address in it, which somebody has since someTime.
type past struct{ broken error }

func (p past) Who(_ context.Context, a netip.Addr, at time.Time) (journal.Past, error) {
	out := journal.Past{Address: a, At: at, State: "free", Begins: someTime}
	if a == netip.MustParseAddr("10.50.0.7") && !at.Before(someTime) {
		out.State, out.Holder, out.Since = "held", &events.Holder{Kind: "client", Name: "printer-3", Since: someTime}, someTime
	}
	return out, p.broken
}

func TestPast(t *testing.T) {
	d := readDocument(t)
	s, _ := logged(t, Config{Backend: newMemory(), Journal: past{}})
	for _, c := range []struct {
		path string
		code int
		want string
	}{
		{"/v1/journal/10.50.0.7?at=2026-11-21T09:00:00Z", 200, `"name":"printer-3"`},
		{"/v1/journal/10.50.0.7?at=2026-11-21T10:00:00%2B02:00", 200, `"state":"free"`},
		{"/v1/journal/10.50.0.8", 200, `"state":"free"`},
		{"/v1/journal/10.50.0.7?at=9999-12-31T23:59:59-10:00", 400, "year 10000"},
		{"/v1/journal/10.50.0.7?at=0000-01-01T00:00:00%2B10:00", 400, "year -1"},
		{"/v1/journal/10.50.0.7?at=9999-12-31T23:59:59Z", 200, `"state":"held"`},
		{"/v1/journal/10.50.0.7?at=yesterday", 400, "is not a time"},
		{"/v1/journal/printer?at=2026-11-21T09:00:00Z", 400, "is not an address"},
		{"/v1/journal/10.50.0.7?when=2026-11-21T09:00:00Z", 400, "unknown parameter"},
	} {
		w, _ := ask(t.Context(), s.Handler(), "GET", c.path, nil)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
		}
		d.checkExchange(t, "GET", c.path, "", w.Code, w.Header(), w.Body.String())
	}
	broken, log := logged(t, Config{Backend: newMemory(), Journal: past{errors.New("input/output error")}})
	if w, p := ask(t.Context(), broken.Handler(), "GET", "/v1/journal/10.50.0.7", nil); w.Code != 500 || p.Code != CodeInternal || !strings.Contains(log.String(), "input/output error") {
		t.Errorf("%d %s, logged %s", w.Code, w.Body, log)
	}
}
