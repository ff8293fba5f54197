package node

import (
	"context"

	"github.com/ringlet/ringlet/ipam"
)

// Reserve keeps addresses back for an operator.
func (n *Node) Reserve(ctx context.Context, r ipam.ReserveRequest) (ipam.Reserving, error) {
	reply, err := n.call(ctx, &r)
	return valueOf(reply.Reserving), err
}

// Unreserve ends what Reserve began.
func (n *Node) Unreserve(ctx context.Context, r ipam.UnreserveRequest) (ipam.Reserving, error) {
	reply, err := n.call(ctx, &r)
	return valueOf(reply.Reserving), err
}

// Reservations lists what is kept back in a pool, in all if it is empty.
func (n *Node) Reservations(ctx context.Context, pool string) ([]ipam.ReservationStatus, error) {
	return look(ctx, n, func(m *ipam.Machine) ([]ipam.ReservationStatus, error) { return m.Reservations(pool) })
}
