package admin

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/plugin/journal"
)

// Journal tells of the past. It is safe for concurrent use.
type Journal interface {
	// Who tells who had an address at a time. It reads all that is written, until
	// ctx ends.
	Who(ctx context.Context, a netip.Addr, at time.Time) (journal.Past, error)
}

func (s *Server) journalRoute() route {
	return route{method: http.MethodGet, path: "/v1/journal/{ip}", call: "journal", query: []string{"at"}, handle: s.past}
}

// past tells who had an address at a time, now if none is given.
func (s *Server) past(ctx context.Context, r *request) (answer, error) {
	a, err := parseAddr(r.http.PathValue("ip"))
	if err != nil {
		return answer{}, err
	}
	at := time.Now()
	if text := r.query.Get("at"); text != "" {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return answer{}, badRequest("%q is not a time: write it like 2026-11-20T09:00:00Z", text)
		}
	}
	if year := at.UTC().Year(); year < 0 || year > 9999 {
		return answer{}, badRequest("%q is in the year %d of UTC: name a time in the years 0 to 9999", r.query.Get("at"), year)
	}
	if !s.pasts.take(ctx, r.holds) {
		return answer{}, problem(http.StatusServiceUnavailable, CodeBusy, "the journal was being read for other clients for %v: try again", s.cfg.Timeout)
	}
	p, err := s.cfg.Journal.Who(ctx, a, at)
	return answer{body: p}, err
}
