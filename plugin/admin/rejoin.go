package admin

import (
	"context"
	"net/http"
)

// rejoin has the host start over as a new peer.
func (s *Server) rejoin(ctx context.Context, r *request) (answer, error) {
	var body Rejoin
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if !body.DryRun && !body.SetTheDatabaseAside {
		return answer{}, badRequest(`this sets the database of this host aside, and the host starts over as a new peer; nothing undoes it: state that this is wanted with {"set_the_database_aside": true}, or ask what it would carry over with {"dry_run": true}`)
	}
	out, err := s.cfg.Backend.Rejoin(ctx, body.DryRun)
	if err != nil {
		return answer{}, err
	}
	if !body.DryRun && out.Kept == "" {
		return answer{status: http.StatusAccepted, body: out, location: "/v1/status"}, nil
	}
	return answer{body: out}, nil
}

// trust has the peer go on with a database that was moved.
func (s *Server) trust(ctx context.Context, r *request) (answer, error) {
	var body Trust
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if !body.NoOtherCopyRuns {
		return answer{}, badRequest(`this host goes on with its database where it is now, and is right only if the data was moved here, and no other copy of it runs or is started again: state that with {"no_other_copy_runs": true}`)
	}
	t, err := s.cfg.Backend.Trust(ctx)
	return answer{body: t}, err
}
