package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/plugin/directory"
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

// Of what all journals say the one counts that knows most. Another one that names a holder is shown, too. A peer whose answer
// makes no sense counts as one that has not answered, and so does one that could not be asked.
func TestPastOfAll(t *testing.T) {
	d := readDocument(t)
	const path = "/v1/journal/10.50.0.8?at=2026-11-21T10:00:00Z&all=true"
	at := someTime.Add(time.Hour)
	held := func(name string, since time.Time) journal.Past {
		return journal.Past{
			Address: netip.MustParseAddr("10.50.0.8"), At: at, State: "held", Since: since, Begins: someTime,
			Holder: &events.Holder{Kind: "container", Name: name, Since: since},
		}
	}
	text := func(p journal.Past, change func(*journal.Past)) []byte {
		if change != nil {
			change(&p)
		}
		b, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	web := held("web", someTime)
	for name, c := range map[string]struct {
		told   [][]byte // host-b, then a peer that this one does not know
		silent []string
		want   string
	}{
		"nobody else knows":   {told: [][]byte{text(web, func(p *journal.Past) { p.State, p.Holder = "elsewhere", nil })}, want: "host-a free [] []"},
		"another knows":       {told: [][]byte{text(web, nil)}, want: "host-b held [] []"},
		"another knew":        {told: [][]byte{text(web, func(p *journal.Past) { p.State = "free" })}, want: "host-b free [] []"},
		"two know":            {told: [][]byte{text(web, nil), text(held("db", someTime.Add(time.Minute)), nil)}, want: "cc03 held [host-b] []"},
		"it has not answered": {silent: []string{hostB}, want: "host-a free [] [host-b]"},
		"it was not asked":    {want: "host-a free [] [host-b]"},
		"no JSON":             {told: [][]byte{[]byte("held")}, want: "host-a free [] [host-b]"},
		"another address":     {told: [][]byte{text(web, func(p *journal.Past) { p.Address = p.Address.Next() })}, want: "host-a free [] [host-b]"},
		"another time":        {told: [][]byte{text(web, func(p *journal.Past) { p.At = p.At.Add(1) })}, want: "host-a free [] [host-b]"},
		"another zone":        {told: [][]byte{text(web, func(p *journal.Past) { p.At = p.At.In(time.FixedZone("", 3600)) })}, want: "host-b held [] []"},
		"no holder":           {told: [][]byte{text(web, func(p *journal.Past) { p.Holder = nil })}, want: "host-a free [] [host-b]"},
		"unknown state":       {told: [][]byte{text(web, func(p *journal.Past) { p.State = "loved" })}, want: "host-a free [] [host-b]"},
		"no year":             {told: [][]byte{[]byte(strings.Replace(string(text(web, nil)), `"since":"2026-11-21T09:00:00Z","begins"`, `"since":"9999-12-31T23:59:59-10:00","begins"`, 1))}, want: "host-a free [] [host-b]"},
		"no year of a holder": {told: [][]byte{[]byte(strings.Replace(string(text(web, nil)), `"since":"2026-11-21T09:00:00Z"}`, `"since":"0000-01-01T00:00:00+10:00"}`, 1))}, want: "host-a free [] [host-b]"},
	} {
		dir := newShelf()
		dir.silent = c.silent
		for i, one := range c.told {
			dir.told = append(dir.told, directory.Testimony{Owner: []string{hostB, "cc03"}[i], Text: one})
		}
		s, _ := logged(t, Config{Backend: newMemory(), Journal: past{}, Directory: dir})
		w, _ := ask(t.Context(), s.Handler(), "GET", path, nil)
		var p Past
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 200 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
			continue
		}
		d.checkExchange(t, "GET", path, "", w.Code, w.Header(), w.Body.String())
		also := []string{}
		for _, other := range p.Also {
			also = append(also, other.Peer)
		}
		if got := fmt.Sprint(p.Peer, " ", p.State, " ", also, " ", p.Silent); got != c.want {
			t.Errorf("%s: got %s, want %s: %s", name, got, c.want, w.Body)
		}
	}
	s, _ := logged(t, Config{Backend: newMemory(), Journal: past{}})
	if w, _ := ask(t.Context(), s.Handler(), "GET", "/v1/journal/10.50.0.8?all=perhaps", nil); w.Code != 400 {
		t.Errorf("all=perhaps: %d", w.Code)
	}
}
