package admin

import (
	"context"
	"net/http"
)

// maxScrapes is how many read the metrics at a time.
const maxScrapes = 4

// metricsRoute is that of the metrics, which take no place: they are read when
// nothing else is answered.
func (s *Server) metricsRoute() route {
	return route{method: http.MethodGet, path: "/metrics", call: "metrics", anyQuery: true, instant: true, handle: s.metrics}
}

// metrics answers with what the metrics' own handler says. That writes to memory,
// so that a client that does not read keeps no other from its answer.
func (s *Server) metrics(ctx context.Context, r *request) (answer, error) {
	if !s.scrapes.take(ctx, r.holds) {
		return answer{}, problem(http.StatusServiceUnavailable, CodeBusy, "the metrics are being read by %d others: try again", maxScrapes)
	}
	p := &page{header: http.Header{}}
	if err := s.crowd.do(ctx, func() { s.cfg.Metrics.ServeHTTP(p, r.http.WithContext(ctx)) }); err != nil {
		return answer{}, err
	}
	return answer{page: p}, nil
}
