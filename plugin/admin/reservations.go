package admin

import (
	"context"
	"net/netip"
	"strings"

	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// Kinds of reservations that operators make, as a parameter.
const (
	KindExcluded = "excluded"
	KindKept     = "kept" // for a name
)

// NewReservation is the body of a request to keep addresses back.
type NewReservation struct {
	// Addresses is one address, a range 10.50.0.10-10.50.0.19, or a subnet.
	Addresses string `json:"addresses"`
	Pool      string `json:"pool,omitempty"` // by CIDR or name; empty: the pool that has them
	// For is the name or MAC of the container, or the holder, that one address
	// is kept for; empty: the addresses are excluded.
	For  string `json:"for,omitempty"`
	Note string `json:"note,omitempty"` // why they are excluded
}

// reservations lists what is kept back.
func (s *Server) reservations(ctx context.Context, r *request) (answer, error) {
	pool, err := s.poolNamed(ctx, r.query.Get("pool"))
	if err != nil {
		return answer{}, err
	}
	list, err := s.cfg.Backend.Reservations(ctx, pool)
	return answer{body: append([]ipam.ReservationStatus{}, list...)}, err
}

// reserve keeps addresses back.
func (s *Server) reserve(ctx context.Context, r *request) (answer, error) {
	var body NewReservation
	if err := decode(r.body, &body); err != nil {
		return answer{}, err
	}
	first, last, err := ParseStretch(body.Addresses)
	if err != nil {
		return answer{}, err
	}
	want := ipam.ReserveRequest{First: first, Last: last, Kind: chronicle.KindExcluded, Note: body.Note}
	if body.For != "" {
		if body.Note != "" {
			return answer{}, badRequest("an address is either reserved for a name or excluded with a note: give for or note, not both")
		}
		want.Kind, want.Note = chronicle.KindKeptForName, body.For
	}
	if want.Pool, err = s.poolNamed(ctx, body.Pool); err != nil {
		return answer{}, err
	}
	did, err := s.cfg.Backend.Reserve(ctx, want)
	return answer{body: did}, err
}

// unreserve ends what reserve began.
func (s *Server) unreserve(ctx context.Context, r *request) (answer, error) {
	first, last, err := ParseStretch(r.query.Get("addresses"))
	if err != nil {
		return answer{}, err
	}
	want := ipam.UnreserveRequest{First: first, Last: last}
	switch kind := r.query.Get("kind"); kind {
	case KindExcluded:
		want.Kind = chronicle.KindExcluded
	case KindKept:
		want.Kind = chronicle.KindKeptForName
	default:
		return answer{}, badRequest("kind is %s or %s, not %q", KindExcluded, KindKept, kind)
	}
	if want.Pool, err = s.poolNamed(ctx, r.query.Get("pool")); err != nil {
		return answer{}, err
	}
	did, err := s.cfg.Backend.Unreserve(ctx, want)
	return answer{body: did}, err
}

// ParseStretch reads one address, a range of two with a dash between, or a
// subnet. Its error is a sentence.
func ParseStretch(s string) (first, last netip.Addr, err error) {
	bad := func() (netip.Addr, netip.Addr, error) {
		return netip.Addr{}, netip.Addr{}, badRequest("%q is no address or range: write 10.50.0.5, 10.50.0.10-10.50.0.19 or 10.50.0.16/28", s)
	}
	if strings.Contains(s, "/") {
		p, err := subnet(s)
		if err != nil {
			return netip.Addr{}, netip.Addr{}, err
		}
		return p.Addr().Unmap(), lastOf(p), nil
	}
	from, to, isRange := strings.Cut(s, "-")
	if !isRange {
		to = from
	}
	first, isFirst := parse.Addr(strings.TrimSpace(from))
	last, isLast := parse.Addr(strings.TrimSpace(to))
	if !isFirst || !isLast {
		return bad()
	}
	return first, last, nil
}

// lastOf returns the last address of a subnet.
func lastOf(p netip.Prefix) netip.Addr {
	a := p.Addr().As16()
	bits := p.Bits() + 128 - p.Addr().BitLen()
	for i := bits; i < 128; i++ {
		a[i/8] |= 1 << (7 - i%8)
	}
	return netip.AddrFrom16(a).Unmap()
}
