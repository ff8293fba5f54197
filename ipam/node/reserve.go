package node

import (
	"context"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/lock"
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

// Identify has label sets get numbers, and numbers be collected, see [ipam.IdentityRequest].
func (n *Node) Identify(ctx context.Context, r ipam.IdentityRequest) error {
	_, err := n.call(ctx, &r)
	return err
}

// Identities returns the label sets that have numbers.
func (n *Node) Identities(ctx context.Context) (identity.Registry, error) {
	return look(ctx, n, func(m *ipam.Machine) (identity.Registry, error) { return m.Identities(), nil })
}

// Lock takes a lock of the cluster for this host, and returns its fence, see [ipam.LockRequest].
func (n *Node) Lock(ctx context.Context, w lock.Want) (fence uint64, err error) {
	reply, err := n.call(ctx, &ipam.LockRequest{Want: w})
	return reply.Fence, err
}

// Unlock ends a lock of this host; one that has ended is no error.
func (n *Node) Unlock(ctx context.Context, name string, fence uint64) error {
	_, err := n.call(ctx, &ipam.UnlockRequest{Name: name, Fence: fence})
	return err
}

// Locks returns the locks that are held. The list is not to be changed.
func (n *Node) Locks(ctx context.Context) ([]lock.Lock, error) {
	return look(ctx, n, func(m *ipam.Machine) ([]lock.Lock, error) { return m.Locks(), nil })
}

// LockStands reports whether this host still has a lock with that fence, see [ipam.RenewalRequest].
func (n *Node) LockStands(ctx context.Context, name string, fence uint64) (bool, error) {
	reply, err := n.call(ctx, &ipam.RenewalRequest{Name: name, Fence: fence})
	return reply.Fence == fence && fence > 0, err
}

// Reservations lists what is kept back in a pool, in all if it is empty.
func (n *Node) Reservations(ctx context.Context, pool string) ([]ipam.ReservationStatus, error) {
	return look(ctx, n, func(m *ipam.Machine) ([]ipam.ReservationStatus, error) { return m.Reservations(pool) })
}
