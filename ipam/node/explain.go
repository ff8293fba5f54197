package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Explain tells the whole story of one address.
func (n *Node) Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error) {
	return look(ctx, n, func(m *ipam.Machine) (ipam.Explanation, error) { return m.Explain(time.Now(), a) })
}
