package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
)

// leaveWait is how long a request to leave waits for the peer to have left. A
// peer without space has left by then; any other takes as long as its
// containers do, and whoever asked wants to be told how far it is.
const leaveWait = 2 * time.Second

// drain has the peer give its space back, or ends that.
func (s *Server) drain(ctx context.Context, r *request) (answer, error) {
	var body Drain
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if body.Undo && body.Also {
		return answer{}, badRequest("a drain that ends needs no also: leave out one of undo and also")
	}
	if err := s.cfg.Backend.Drain(ctx, ipam.DrainRequest{Undo: body.Undo, Also: body.Also}); err != nil {
		return answer{}, err
	}
	st, err := s.fresh(ctx)
	if err != nil {
		return answer{}, err
	}
	d := DepartureOf(st)
	return departing(d, body.Undo || d.Owned == 0), nil
}

// leave has the peer leave its cluster.
func (s *Server) leave(ctx context.Context, r *request) (answer, error) {
	var body Leave
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	wait := min(leaveWait, s.cfg.Timeout/2) // then there is time to ask how far it is
	err := s.leaveFor(ctx, wait, body.Force)
	if err != nil && !errors.Is(err, ipam.ErrNotReady) && !errors.Is(err, context.DeadlineExceeded) {
		return answer{}, err
	}
	st, failed := s.fresh(ctx)
	switch {
	case failed != nil:
		return answer{}, failed
	case err != nil && st.State != ipam.Leaving && st.State != ipam.Left:
		p, _ := problemOf(err, wait) // it has not begun
		return answer{}, p
	}
	return departing(DepartureOf(st), err == nil || st.State == ipam.Left), nil
}

func (s *Server) leaveFor(ctx context.Context, wait time.Duration, force bool) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return s.cfg.Backend.Leave(ctx, force)
}

// departing answers how far the peer is. What is not done goes on, and the
// status shows it.
func departing(d Departure, done bool) answer {
	if done {
		return answer{body: d}
	}
	return answer{status: http.StatusAccepted, body: d, location: "/v1/status"}
}

// DepartureOf returns how far the peer of a status is with giving its space
// back.
func DepartureOf(st ipam.Status) Departure {
	d := Departure{State: st.State}
	for _, p := range st.Pools {
		d.Resting += p.RestingHere
		for _, r := range p.Holders {
			if r.Owner == st.Self.ID {
				d.Owned = sum(d.Owned, RangeSize(p, r))
				d.Held += r.Held
			}
		}
	}
	return d
}

// sum adds numbers of addresses, which several IPv6 pools have more of than can be
// counted.
func sum(a, b uint64) uint64 { return uint64(addr.Count(a).Plus(addr.Count(b))) }

// RangeSize returns the number of addresses of a range, 0 if it is not of the
// pool.
func RangeSize(p ipam.PoolStatus, r ipam.RangeStatus) uint64 {
	first, okFirst := addr.OffsetOf(p.Pool, r.Start)
	last, okLast := addr.OffsetOf(p.Pool, r.End)
	if !okFirst || !okLast || last < first {
		return 0
	}
	return uint64(last-first) + 1
}
