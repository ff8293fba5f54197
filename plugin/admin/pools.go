package admin

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam"
)

func (s *Server) pools(ctx context.Context, _ *request) (answer, error) {
	st, err := s.seen(ctx)
	if err != nil {
		return answer{}, err
	}
	list := append([]ipam.PoolStatus{}, st.Pools...)
	for i := range list {
		list[i].Holders = nil // as many as containers, in the worst case
	}
	return answer{body: list}, nil
}

func (s *Server) pool(ctx context.Context, r *request) (answer, error) {
	name, err := s.poolNamed(ctx, r.http.PathValue("pool"))
	if err != nil {
		return answer{}, err
	}
	st, err := s.seen(ctx)
	if err != nil {
		return answer{}, err
	}
	pool, err := findPool(st, name)
	return answer{body: pool}, err
}

func (s *Server) createPool(ctx context.Context, r *request) (answer, error) {
	var body NewPool
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if body.CIDR == "" {
		return answer{}, badRequest(`the pool needs a subnet: {"cidr": "10.50.0.0/24"}`)
	}
	cidr, err := subnet(body.CIDR)
	if err != nil {
		return answer{}, err
	}
	pool, created, err := s.cfg.Backend.CreatePool(ctx, cidr, body.Name)
	if err != nil {
		return answer{}, err
	}
	a := answer{body: MadePool{pool, created}}
	if created {
		a.status, a.location = http.StatusCreated, "/v1/pools/"+url.PathEscape(pool.Pool.String())
	}
	return a, nil
}

func (s *Server) removePool(ctx context.Context, r *request) (answer, error) {
	pool, err := s.poolNamed(ctx, r.http.PathValue("pool"))
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, s.cfg.Backend.RemovePool(ctx, pool)
}

func (s *Server) ring(ctx context.Context, r *request) (answer, error) {
	name := r.query.Get("pool")
	if name != "" {
		var err error
		if name, err = s.poolNamed(ctx, name); err != nil {
			return answer{}, err
		}
	}
	st, err := s.seen(ctx)
	if err != nil {
		return answer{}, err
	}
	if name != "" {
		pool, err := findPool(st, name)
		if err != nil {
			return answer{}, err
		}
		st.Pools = []ipam.PoolStatus{pool}
	}
	ranges := []ipam.RangeStatus{}
	for _, p := range st.Pools {
		ranges = append(ranges, p.Holders...)
	}
	slices.SortStableFunc(ranges, func(a, b ipam.RangeStatus) int { return a.Start.Compare(b.Start) })
	return answer{body: ranges}, nil
}

// table lists who takes free addresses first in each row of the tables of pools. A large pool has 65,536 rows.
func (s *Server) table(ctx context.Context, r *request) (answer, error) {
	pool, err := s.poolNamed(ctx, r.query.Get("pool"))
	if err != nil {
		return answer{}, err
	}
	if err := s.takeList(ctx, r, false); err != nil {
		return answer{}, err
	}
	return listed(r.whole, s, func(yield func([]ipam.TableRow, error) bool) {
		for q := (ipam.TableListing{Pool: pool}); ; {
			p, err := s.rows(r, q)
			if !yield(p.Rows, err) || err != nil || !p.Next.IsValid() {
				return
			}
			q.After = p.Next
		}
	}), nil
}

// rows asks for a portion of the tables, for which the Backend has as long as for any request.
func (s *Server) rows(r *request, q ipam.TableListing) (ipam.TablePortion, error) {
	ctx, cancel := context.WithTimeout(r.whole, s.cfg.Timeout)
	defer cancel()
	var p ipam.TablePortion
	var failed error
	err := s.views.do(ctx, func() { p, failed = s.cfg.Backend.Table(ctx, q) })
	return p, cmp.Or(err, failed)
}

// findPool returns the pool with that CIDR or name, or of the Docker network of this host with that name.
func findPool(st ipam.Status, name string) (ipam.PoolStatus, error) {
	i := slices.IndexFunc(st.Pools, func(p ipam.PoolStatus) bool { return p.Pool.String() == name || p.Name == name })
	if i >= 0 {
		return st.Pools[i], nil
	}
	var on []ipam.PoolStatus
	for _, p := range st.Pools {
		if slices.Contains(p.NetworkNames, name) {
			on = append(on, p)
		}
	}
	switch len(on) {
	case 0:
		return ipam.PoolStatus{}, &ipam.Error{
			Kind: ipam.ErrPoolNotFound,
			Text: "there is no pool " + name + ", and no Docker network of that name on this host: ringlet pool ls shows the pools that there are",
		}
	case 1:
		return on[0], nil
	}
	var pools []string
	for _, p := range on {
		pools = append(pools, p.Pool.String())
	}
	return ipam.PoolStatus{}, badRequest("the network %s has the pools %s: name one of them", name, strings.Join(pools, " and "))
}

// subnetOf returns the subnet that is named, of which there may be no pool any more, or that of the
// pool with that name.
func (s *Server) subnetOf(ctx context.Context, name string) (netip.Prefix, error) {
	if strings.Contains(name, "/") {
		return subnet(name)
	}
	st, err := s.snapshot(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	pool, err := findPool(st, name)
	return pool.Pool, err
}

// poolNamed returns a pool as the Backend wants it, by CIDR or by the pool's own name; empty for an empty name. What has a slash must be
// a CIDR, in the one form that it is printed in; a Docker network of this host stands for its pool.
func (s *Server) poolNamed(ctx context.Context, name string) (string, error) {
	if strings.Contains(name, "/") {
		cidr, err := subnet(name)
		if err != nil {
			return "", err
		}
		return cidr.String(), nil
	}
	if name == "" || s.cfg.Networks == nil || len(s.cfg.Networks(name)) == 0 {
		return name, nil
	}
	st, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	pool, err := findPool(st, name)
	switch {
	case errors.Is(err, ipam.ErrPoolNotFound), err == nil && pool.Name == name:
		return name, nil // the Backend may know of it by now
	case err != nil:
		return "", err
	}
	return pool.Pool.String(), nil
}

// subnet reads a subnet of a request.
func subnet(text string) (netip.Prefix, error) {
	p, err := parse.Subnet(text)
	if err != nil {
		return p, badRequest("%v", err)
	}
	return p, nil
}
