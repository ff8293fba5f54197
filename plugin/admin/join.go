package admin

import (
	"context"
)

// join meets another peer.
func (s *Server) join(ctx context.Context, r *request) (answer, error) {
	var body Join
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if body.Address == "" {
		return answer{}, badRequest(`name the host to meet: {"address": "host-b:7950"}`)
	}
	met, err := s.cfg.Backend.Join(ctx, body.Address)
	if err != nil {
		return answer{}, err
	}
	if met == nil {
		met = []Met{}
	}
	return answer{body: Joined{Address: body.Address, Met: met}}, nil
}
