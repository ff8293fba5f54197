package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam"
)

func (s *Server) allocate(ctx context.Context, r *request) (answer, error) {
	var body NewAddress
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	if len(body.For) == 0 || len(body.For) > ipam.MaxHolder {
		return answer{}, badRequest(`the address needs a holder, in 1 to %d bytes and not %d: {"for": "printer-3"}`, ipam.MaxHolder, len(body.For))
	}
	pool, err := s.poolOr(ctx, r.http.PathValue("pool"))
	if err != nil {
		return answer{}, err
	}
	want := ipam.ClientRequest{Pool: pool, ID: body.For}
	if body.Address != "" {
		if want.Address, err = parseAddr(body.Address); err != nil {
			return answer{}, err
		}
	}
	grant, err := s.cfg.Backend.Client(ctx, want)
	if err != nil {
		return answer{}, err
	}
	a := answer{body: Grant{Address: grant.Address.Addr(), Pool: grant.Address.Masked(), For: body.For}}
	if !grant.Ticket.IsZero() {
		a.status, a.location = http.StatusCreated, "/v1/addresses/"+grant.Address.Addr().String()
	}
	return a, nil
}

// poolOr returns a pool as [Server.poolNamed]; for an empty name the default pool,
// else the only one.
func (s *Server) poolOr(ctx context.Context, name string) (string, error) {
	if name = cmp.Or(name, s.cfg.DefaultPool); name != "" {
		return s.poolNamed(ctx, name)
	}
	st, err := s.snapshot(ctx)
	if err != nil {
		return "", err
	}
	var all []string
	for i := range st.Pools {
		all = append(all, cmp.Or(st.Pools[i].Name, st.Pools[i].Pool.String()))
	}
	switch len(all) {
	case 0:
		return "", &ipam.Error{Kind: ipam.ErrPoolNotFound, Text: "there is no pool: make one with ringlet pool create 10.50.0.0/24"}
	case 1:
		return st.Pools[0].Pool.String(), nil
	}
	return "", badRequest("name the pool, or set RINGLET_DEFAULT_POOL on this host; there are %s", strings.Join(all, ", "))
}

func (s *Server) who(ctx context.Context, r *request) (answer, error) {
	a, err := parseAddr(r.http.PathValue("ip"))
	if err != nil {
		return answer{}, err
	}
	status, err := s.cfg.Backend.Who(ctx, a)
	use := s.usage(ctx, status)
	use.Identity = s.identityOf(use.AddressStatus)
	return answer{body: use}, err
}

func (s *Server) explain(ctx context.Context, r *request) (answer, error) {
	a, err := parseAddr(r.http.PathValue("ip"))
	if err != nil {
		return answer{}, err
	}
	story, err := s.cfg.Backend.Explain(ctx, a)
	if err != nil {
		return answer{}, err
	}
	use := s.usage(ctx, story.AddressStatus)
	if !use.ConfirmedAt.IsZero() {
		speaker := "it"
		if use.Peer != story.Peer {
			speaker = use.Peer
		}
		story.Verdict += fmt.Sprintf("; %s reported at %s that the address is held by %s", speaker, use.ConfirmedAt.UTC().Format("2006-01-02 15:04 MST"), holderOf(use))
	}
	return answer{body: Story{story, s.identityOf(use.AddressStatus)}}, nil
}

// free frees one address, or all of a holder, in one pool or all.
func (s *Server) free(ctx context.Context, r *request) (answer, error) {
	pool, err := s.poolNamed(ctx, r.http.PathValue("pool"))
	if err != nil {
		return answer{}, err
	}
	free := ipam.FreeRequest{Pool: pool, ID: r.query.Get("for")}
	switch ip := r.http.PathValue("ip"); {
	case ip != "":
		if free.Address, err = parseAddr(ip); err != nil {
			return answer{}, err
		}
	case free.ID == "":
		return answer{}, badRequest("name the holder to free the addresses of (?for=), or the address: …/addresses/10.50.0.5")
	}
	return addressList(s.cfg.Backend.Free(ctx, free))
}

// addressList answers with a sorted copy.
func addressList(list []ipam.AddressStatus, err error) (answer, error) {
	sorted := append([]ipam.AddressStatus{}, list...)
	slices.SortStableFunc(sorted, func(a, b ipam.AddressStatus) int { return a.Address.Compare(b.Address) })
	return answer{body: sorted}, err
}

func parseAddr(s string) (netip.Addr, error) {
	a, ok := parse.Addr(s)
	if !ok {
		return netip.Addr{}, badRequest("%q is not an address: write it like 10.50.0.5 or fd00:50::5, without a mask or a zone", s)
	}
	return a, nil
}
