package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/space"
)

// trust has a peer go on with a database that was moved, as an operator states.
func (m *Machine) trust() error {
	err := m.members.Trust()
	if err == nil {
		m.enterCluster()
	}
	return err
}

// standingHolder answers a container that asks for an address with an engine that starts, while this
// peer is suspended: it has just what this peer's own record says that it has, and a list of the
// engine has shown it with that since this process started, so that the others are warned of it.
// What ran before the host was off may be somebody else's by now.
func (m *Machine) standingHolder(q *AddressRequest) (AddressGrant, bool) {
	p := m.pools.On(q.Network.Pool)
	if p == nil || q.Purpose != ForContainer || !m.members.IsSuspended() || !m.mayReplay() {
		return AddressGrant{}, false
	}
	for o, rec := range p.Held() {
		its := rec.Kind == space.Container && (q.Name != "" && rec.Name == q.Name || !q.MAC.IsZero() && MAC(rec.MAC) == q.MAC)
		if its && p.Shows(o) && (!q.Address.IsValid() || q.Address == addr.Nth(p.CIDR, o)) {
			return p.Standing(o), true
		}
	}
	return AddressGrant{}, false
}
