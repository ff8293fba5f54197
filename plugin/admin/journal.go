package admin

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/journal"
)

// Journal tells of the past. It is safe for concurrent use.
type Journal interface {
	// Who tells who had an address at a time. It reads all that is written, until
	// ctx ends.
	Who(ctx context.Context, a netip.Addr, at time.Time) (journal.Past, error)
}

func (s *Server) journalRoute() route {
	return route{method: http.MethodGet, path: "/v1/journal/{ip}", call: "journal", query: []string{"at", "all"}, handle: s.past}
}

// past tells who had an address at a time, now if none is given: as this peer's journal knows, or those of all peers.
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
	all, err := flag(r, "all")
	if err != nil {
		return answer{}, err
	}
	if !s.pasts.take(ctx, r.holds) {
		return answer{}, problem(http.StatusServiceUnavailable, CodeBusy, "the journal was being read for other clients for %v: try again", s.cfg.Timeout)
	}
	if all {
		p, err := s.pastOfEach(ctx, a, at)
		return answer{body: p}, err
	}
	p, err := s.cfg.Journal.Who(ctx, a, at)
	return answer{body: p}, err
}

// Past is what is known of an address at a time: by the journal of this peer, or by all journals of the cluster.
type Past struct {
	PastOf // of the journal that knows most

	// Also are those of other peers by which somebody had the address at that time, too.
	Also []PastOf `json:"also,omitempty"`
	// Silent are the peers that have not answered, by name in order: their journals may know more. Nil: no others were asked.
	Silent []string `json:"silent,omitzero"`
}

// PastOf is what one journal knows.
type PastOf struct {
	Peer string `json:"peer,omitempty"` // whose journal it is, if all were asked
	journal.Past
}

// pastOfEach asks the journals of all peers.
func (s *Server) pastOfEach(ctx context.Context, a netip.Addr, at time.Time) (out Past, err error) {
	st, err := s.snapshot(ctx)
	if err != nil {
		return out, err
	}
	var told []directory.Testimony
	var silent []string
	var asked sync.WaitGroup
	if s.cfg.Directory != nil {
		bounded, cancel := context.WithTimeout(ctx, s.cfg.Timeout*3/4) // the answer is to name those that are silent
		defer cancel()
		asked.Go(func() { told, silent = s.cfg.Directory.Ask(bounded, a, at) })
	}
	own, err := s.cfg.Journal.Who(ctx, a, at)
	if asked.Wait(); err != nil {
		return out, err
	}
	list := []PastOf{{st.Self.Name, own}}
	heard := map[string]bool{st.Self.ID: true}
	for _, t := range told {
		if p, ok := journal.ReadPast(t.Text, a, at); ok {
			list = append(list, PastOf{nameOf(&st, t.Owner), p})
			heard[t.Owner] = true
		}
	}
	names := map[string]bool{} // a set
	for _, id := range silent {
		names[nameOf(&st, id)] = true
	}
	for _, p := range st.Peers {
		if !heard[p.ID] {
			names[p.Name] = true
		}
	}
	out.Silent = append([]string{}, slices.Sorted(maps.Keys(names))...)
	slices.SortStableFunc(list, func(a, b PastOf) int { return journal.Compare(&b.Past, &a.Past) })
	out.PastOf = list[0]
	for _, p := range list[1:] {
		if p.State == "held" {
			out.Also = append(out.Also, p)
		}
	}
	return out, nil
}
