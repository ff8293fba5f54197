package admin

import (
	"cmp"
	"context"
	"iter"
	"net/http"
	"net/netip"

	"github.com/ringlet/ringlet/ipam"
)

// listed answers with a list that may be long, as it comes in portions: each is
// encoded when its turn has come, and written before the next one is asked for. The
// list is a JSON array, as if it had been encoded at once.
//
// What a list promises: each element is as it was at some moment while the request
// was answered. What was there all that time is in it once. What began or ended
// meanwhile may be in it or not.
func listed[T any](ctx context.Context, s *Server, portions iter.Seq2[[]T, error]) answer {
	return answer{list: func(yield func([]byte, error) bool) {
		first := true
		for some, err := range portions {
			if err != nil {
				yield(nil, err)
				return
			}
			var text []byte
			if len(some) > 0 {
				err = s.crowd.do(ctx, func() { text = encode(some) })
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if len(text) > 0 {
				text = text[1 : len(text)-len("]\n")]
				if !first {
					text = append([]byte{','}, text...)
				}
				first = false
			}
			if !yield(text, nil) {
				return
			}
		}
	}}
}

// own lists the addresses of a pool on this peer, in all pools if it is empty, or
// what somebody holds, with where each portion ends: the zero address for the last.
func (s *Server) own(r *request, pool, holder string) iter.Seq2[ipam.Portion, error] {
	return func(yield func(ipam.Portion, error) bool) {
		for q := (ipam.Listing{Pool: pool, Holder: holder}); ; {
			p, err := s.portion(r, q)
			if !yield(p, err) || err != nil || !p.Next.IsValid() {
				return
			}
			q.After = p.Next
		}
	}
}

// portion asks for a portion, for which the Backend has as long as for any
// request.
func (s *Server) portion(r *request, q ipam.Listing) (ipam.Portion, error) {
	ctx, cancel := context.WithTimeout(r.whole, s.cfg.Timeout)
	defer cancel()
	var p ipam.Portion
	var failed error
	err := s.views.do(ctx, func() { p, failed = s.cfg.Backend.List(ctx, q) })
	return p, cmp.Or(err, failed)
}

// addresses lists what there is in one pool or all, or what somebody holds.
func (s *Server) addresses(ctx context.Context, r *request) (answer, error) {
	pool, err := s.poolNamed(ctx, r.http.PathValue("pool"))
	if err != nil {
		return answer{}, err
	}
	all, err := flag(r, "all")
	if err != nil {
		return answer{}, err
	}
	holder := r.query.Get("for")
	if err := s.takeList(ctx, r, all); err != nil {
		return answer{}, err
	}
	mine := s.own(r, pool, holder)
	if !all || s.cfg.Directory == nil {
		return listed(r.whole, s, func(yield func([]ipam.AddressStatus, error) bool) {
			for p, err := range mine {
				if !yield(p.Addresses, err) {
					return
				}
			}
		}), nil
	}
	places, err := s.addressesOfOthers(ctx, pool)
	if err != nil {
		return answer{}, err
	}
	return listed(r.whole, s, s.merged(r.whole, mine, places, holder)), nil
}

// takeList takes the slots of a list of any length, until it is written.
func (s *Server) takeList(ctx context.Context, r *request, everywhere bool) error {
	if !s.lists.take(ctx, r.holds) || everywhere && s.cfg.Directory != nil && !s.readers.take(ctx, r.holds) {
		return problem(http.StatusServiceUnavailable, CodeBusy, "addresses were being listed for other clients for %v: try again", s.cfg.Timeout)
	}
	return nil
}

// notLater returns how many of some places come up to an address, all if it is the
// zero one.
func notLater(places []place, end netip.Addr) int {
	if !end.IsValid() {
		return len(places)
	}
	n := 0
	for n < len(places) && places[n].IP.Compare(end) <= 0 {
		n++
	}
	return n
}
