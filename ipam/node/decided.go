package node

import (
	"context"

	"github.com/ringlet/ringlet/ipam"
)

// Decided returns what people have decided in the cluster, see [ipam.Machine.Decided]. It returns nothing, and no error, if
// this peer knows no decision later than that slot of that cluster.
func (n *Node) Decided(ctx context.Context, since ipam.Decided) (*ipam.Decided, error) {
	return look(ctx, n, func(m *ipam.Machine) (*ipam.Decided, error) {
		if cluster, slot := m.Stands(); cluster == since.Cluster && slot == since.Slot {
			return nil, nil // as it says
		}
		d := m.Decided()
		return &d, nil
	})
}
