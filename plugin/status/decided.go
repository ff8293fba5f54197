package status

import (
	"context"
	"net/netip"

	"github.com/ringlet/ringlet/ipam"
)

// CreatePool is the node's, and has what was decided in the file before it is answered, as have the three below.
func (s *Status) CreatePool(ctx context.Context, cidr netip.Prefix, name string) (ipam.PoolStatus, bool, error) {
	defer s.cfg.Decided.Save(ctx)
	return s.Node.CreatePool(ctx, cidr, name)
}

// RemovePool removes a pool.
func (s *Status) RemovePool(ctx context.Context, pool string) error {
	defer s.cfg.Decided.Save(ctx)
	return s.Node.RemovePool(ctx, pool)
}

// Reserve keeps addresses back for an operator.
func (s *Status) Reserve(ctx context.Context, r ipam.ReserveRequest) (ipam.Reserving, error) {
	defer s.cfg.Decided.Save(ctx)
	return s.Node.Reserve(ctx, r)
}

// Unreserve ends what Reserve began.
func (s *Status) Unreserve(ctx context.Context, r ipam.UnreserveRequest) (ipam.Reserving, error) {
	defer s.cfg.Decided.Save(ctx)
	return s.Node.Unreserve(ctx, r)
}

// Client allocates an address for a holder outside Docker. Which one on a LAN whose exclusions are lost is for an operator to
// say.
func (s *Status) Client(ctx context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error) {
	if pool, err := netip.ParsePrefix(r.Pool); err == nil && !r.Address.IsValid() {
		if err := s.cfg.Decided.Refuses(pool); err != nil {
			return ipam.AddressGrant{}, err
		}
	}
	return s.Node.Client(ctx, r)
}
