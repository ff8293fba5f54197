package ipam

import (
	"github.com/ringlet/ringlet/ipam/pool"
)

// serve finds the pool of a network that can be served, and makes the pool if
// there is none: the pool ID says all that is needed, should this peer have
// lost it. What follows from the network is kept.
func (m *Machine) serve(n *Network) (*pool.Served, error) {
	p, err := m.joinPool(n.Pool, poolSpec{reserved: &PoolRequest{Gateway: n.Gateway, GatewayAddr: n.GatewayAddr}})
	if err != nil {
		return nil, err
	}
	m.keepGateway(p, n)
	return m.pools.Serve(p, n), nil
}
