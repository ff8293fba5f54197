package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// Explain tells the whole story of one address.
func (n *Node) Explain(ctx context.Context, a netip.Addr) (ipam.Explanation, error) {
	var out ipam.Explanation
	var failed error
	if err := n.look(ctx, func(m *ipam.Machine) { out, failed = m.Explain(time.Now(), a) }); err != nil {
		return ipam.Explanation{}, err
	}
	return out, failed
}
