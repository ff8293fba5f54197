package admin

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

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
	name, err := poolNamed(r.http.PathValue("pool"))
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
	cidr, err := parseCIDR(body.CIDR)
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
	pool, err := poolNamed(r.http.PathValue("pool"))
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, s.cfg.Backend.RemovePool(ctx, pool)
}

func (s *Server) ring(ctx context.Context, r *request) (answer, error) {
	name := r.query.Get("pool")
	if name != "" {
		var err error
		if name, err = poolNamed(name); err != nil {
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

// findPool returns the pool with that CIDR or name.
func findPool(st ipam.Status, name string) (ipam.PoolStatus, error) {
	i := slices.IndexFunc(st.Pools, func(p ipam.PoolStatus) bool { return p.Pool.String() == name || p.Name == name })
	if i < 0 {
		return ipam.PoolStatus{}, &ipam.Error{
			Kind: ipam.ErrPoolNotFound,
			Text: "there is no pool " + name + ": ringlet pool ls shows the pools that there are",
		}
	}
	return st.Pools[i], nil
}

// subnetOf returns the subnet that is named, of which there may be no pool any more, or that of the
// pool with that name.
func (s *Server) subnetOf(ctx context.Context, name string) (netip.Prefix, error) {
	if strings.Contains(name, "/") {
		return parseCIDR(name)
	}
	st, err := s.snapshot(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	pool, err := findPool(st, name)
	return pool.Pool, err
}

// poolNamed returns a pool's CIDR or name as the Backend wants it: what has a
// slash must be a CIDR, in the one form that it is printed in.
func poolNamed(s string) (string, error) {
	if !strings.Contains(s, "/") {
		return s, nil
	}
	cidr, err := parseCIDR(s)
	if err != nil {
		return "", err
	}
	return cidr.String(), nil
}

// parseCIDR reads a subnet. It refuses host bits rather than to drop them:
// more often than not they are a slip.
func parseCIDR(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, badRequest("%q is not a subnet: write it like 10.50.0.0/24 or fd00:50::/64", s)
	}
	if p != p.Masked() {
		return netip.Prefix{}, badRequest("%v has bits set behind its mask: did you mean %v", p, p.Masked())
	}
	return p, nil
}
