package ipam

import (
	"net/netip"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/subnets"
)

// requestPool answers libnetwork's RequestPool.
//
// Engines before 29 do not survive an error to the replay of a network that has
// endpoints, and no engine waits for long: while the engine may be starting, what this
// host has is granted whatever is wrong, or under way.
func (m serving) requestPool(q *PoolRequest) (PoolGrant, error) {
	if q.Space == Global {
		return PoolGrant{}, sentence.Swarm()
	}
	unready := m.members.Ready()
	g, err := PoolGrant{}, unready
	if err == nil {
		g, err = m.grantPool(q)
	}
	switch {
	case err == nil:
		return g, nil
	case !m.serves(q):
		return m.replayedPool(q, err)
	case !m.mayReplay():
		return g, err
	}
	n, _ := q.On(q.Pool) // which it serves
	if m.pools.On(n.Pool) != nil {
		m.engine.Enter(n, false) // what has a subnet is never too often
	}
	return PoolGrant{Network: n}, nil
}

// grantPool grants a network its pool, where all is well.
func (m serving) grantPool(q *PoolRequest) (PoolGrant, error) {
	if m.members.Wish.IsLeaving() && !m.serves(q) {
		return PoolGrant{}, sentence.Leaving(m.cfg.Name)
	}
	if err := q.Check(); err != nil {
		return PoolGrant{}, err
	}
	p, chosen, err := m.findPool(q)
	if err != nil {
		return PoolGrant{}, err
	}
	n, err := q.On(p.CIDR)
	if err != nil {
		return PoolGrant{}, failf(ErrBadRequest, "%v", err)
	}
	// First, or what is reserved goes with the last network of another host in a slot that this
	// call has decided.
	var gateway AddressGrant
	if o, shares := n.SharedGateway(); shares {
		gateway, err = m.reserveFor(p, o, chronicle.KindGateway)
	} else {
		err = m.keepUnderNetworks(p, false)
	}
	if err != nil {
		return PoolGrant{}, err
	}
	if !m.engine.Enter(n, chosen) {
		return PoolGrant{}, failf(ErrPoolOverlap, "the engine does not accept subnet %v for this network, since a network or route of this host overlaps it: a bridge needs a subnet of its own, so use another pool; on macvlan or ipvlan add --subnet %v to share it", p.CIDR, p.CIDR)
	}
	m.tellUse(p)
	if len(p.Mine) == 0 {
		m.openAhead(p)
	}
	return PoolGrant{Network: n, Gateway: gateway.Address, Chosen: !q.Pool.IsValid()}, nil
}

// serves reports whether the request is for a network that this host has.
func (m *Machine) serves(q *PoolRequest) bool {
	n, err := q.On(q.Pool)
	return err == nil && m.engine.Network(n.ID()) != nil
}

// findPool returns the pool that a request means, and makes it if there is
// none. chosen says that the request left the choice to us.
func (m serving) findPool(q *PoolRequest) (p *pool.Pool, chosen bool, err error) {
	name := q.PoolName
	if name != "" && !chronicle.ValidName(name) {
		return nil, false, failf(ErrBadRequest, "%v", poolid.NameError(name))
	}
	v6 := q.V6
	if q.Pool.IsValid() {
		v6 = q.Pool.Addr().Is6() && !q.Pool.Addr().Is4In6()
	}
	if name != "" && v6 {
		if name = m.name6(name, q.Pool); !chronicle.ValidName(name) {
			return nil, false, failf(ErrBadRequest, "the IPv6 pool of a network is named like its IPv4 pool, with %s after it, and %s would be too long: use a name of at most %d characters", suffix6, name, chronicle.MaxName-len(suffix6))
		}
	}
	named := m.state.PoolNamed(name)
	if q.Pool.IsValid() {
		// Before a pool is made that could not have the name.
		if cidr, err := addr.Checked(q.Pool); err == nil && named != nil && named.CIDR != cidr {
			return nil, false, m.errNameTaken(name, named)
		}
	}
	switch {
	case q.Pool.IsValid():
		if err := m.awaitNetworks(q.Pool); err != nil {
			return nil, false, err
		}
		p, err = m.joinPool(q.Pool, poolSpec{reserved: q})
		if err == nil {
			err = m.namePool(p, name)
		}
		return p, false, err
	case named != nil && named.CIDR.Addr().Is6() != v6:
		return nil, false, failf(ErrBadRequest, "the name %s belongs to %s, which has no addresses of that family: use another name", name, named.CIDR)
	case named != nil:
		if m.call.pool.made != named.Key {
			// It is as it was: no network of this host goes that would tell that there is none.
			if _, err := q.On(named.CIDR); err != nil {
				return nil, false, failf(ErrBadRequest, "%v", err)
			}
		}
		return m.pools.Of(named.Key), true, nil
	}
	if q.Range.IsValid() || q.Gateway == GatewayAddr {
		return nil, false, failf(ErrBadRequest, "a network with an IP range or a gateway address needs a subnet: name one with --subnet")
	}
	p, err = m.choosePool(v6, q)
	if err == nil {
		err = m.namePool(p, name)
	}
	return p, true, err
}

// suffix6 is what the IPv6 pool of a dual-stack network has behind the name
// that its IPv4 pool has, since one option names both.
const suffix6 = ".v6"

// name6 returns the name of the IPv6 pool that a network means by the option, with that
// subnet if it names one: the option itself where that is the name of an IPv6 pool, as
// an operator may have made.
func (m *Machine) name6(name string, cidr netip.Prefix) string {
	with := name + suffix6
	p := m.state.PoolNamed(name)
	if p != nil && p.CIDR.Addr().Is6() && (p.CIDR == cidr.Masked() || !cidr.IsValid() && m.state.PoolNamed(with) == nil) {
		return name
	}
	return with
}

// namePool gives the pool a name that it does not have yet, if there is one to
// give.
func (m serving) namePool(p *pool.Pool, name string) error {
	switch {
	case name == "" || p.Name == name:
		return nil
	case p.Name != "":
		return failf(ErrBadRequest, "the pool %v has the name %s, not %s: use the name %s, or another subnet", p.CIDR, p.Name, name, strings.TrimSuffix(p.Name, suffix6))
	}
	if other := m.state.PoolNamed(name); other != nil {
		return m.errNameTaken(name, other)
	}
	o, err := m.propose(chronicle.NamePool{Pool: p.Key, Name: name})
	if err != nil {
		return err
	}
	if o[0].Refused != "" {
		return failf(ErrBadRequest, "pool %v cannot be named %s: %s", p.CIDR, name, o[0].Refused)
	}
	return nil
}

// poolSpec says how to make a pool.
type poolSpec struct {
	origin   chronicle.Origin
	reserved *PoolRequest // whose shared gateway is reserved from the start; may be nil
}

// joinPool returns the pool with just that subnet, and makes it if there is
// none.
func (m serving) joinPool(cidr netip.Prefix, spec poolSpec) (*pool.Pool, error) {
	cidr, err := checkedSubnet(cidr)
	if err != nil {
		return nil, err
	}
	if p := m.state.PoolOf(cidr); p != nil {
		return m.pools.Of(p.Key), nil
	}
	p, _, err := m.makePool(cidr, spec)
	return p, err
}

// checkedSubnet returns the subnet as it is written otherwise, or why no pool can have it.
func checkedSubnet(cidr netip.Prefix) (netip.Prefix, error) {
	cidr, err := addr.Checked(cidr)
	if err == nil {
		err = subnets.CheckUse(cidr)
	}
	if err != nil {
		return netip.Prefix{}, failf(ErrBadRequest, "%v", err)
	}
	return cidr, nil
}

// makePool makes the pool with just that subnet. Pools in its way that nobody uses make
// room, also one that is just it; used is the one that does not.
func (m serving) makePool(cidr netip.Prefix, spec poolSpec) (made, used *pool.Pool, err error) {
	inTheWay, used, err := m.clear(cidr)
	if err != nil {
		return nil, used, err
	}
	actions, err := m.removal(inTheWay...)
	if err != nil {
		return nil, nil, err
	}
	create := chronicle.CreatePool{CIDR: cidr, Origin: spec.origin, Deal: m.cfg.Deal, Reserved: subnets.Fixed(cidr), Away: m.dealtAround(cidr)}
	if spec.reserved != nil {
		n, _ := spec.reserved.On(cidr)
		if o, ok := n.SharedGateway(); ok {
			create.Reserved = append(create.Reserved, chronicle.Reservation{Range: addr.One(o), Kind: chronicle.KindGateway})
		}
	}
	outcomes, err := m.propose(append(actions, create)...)
	if err != nil {
		return nil, nil, err
	}
	last := outcomes[len(outcomes)-1]
	if last.Refused != "" {
		return nil, nil, failf(ErrPoolOverlap, "subnet %v cannot be a pool: %s", cidr, last.Refused)
	}
	p := m.pools.Of(last.Pool)
	if p == nil { // it went in the same slot
		return nil, nil, m.waitForMajority()
	}
	m.survey.Host(p)
	return p, nil, nil
}

// dealtAround returns the peers that get no part of a new pool, as they cannot be reached now. While the pool is being made these
// stay the same, whoever comes or goes: otherwise a call that waits would propose another command each time.
func (m *Machine) dealtAround(cidr netip.Prefix) []peer.ID {
	for _, a := range m.log.UnderWay() {
		if c, is := a.(chronicle.CreatePool); is && c.CIDR == cidr {
			return c.Away
		}
	}
	if m.state.Level < chronicle.WithAway {
		return nil
	}
	v := m.members.View()
	return v.Away(v.Others())
}

// clear returns the pools in the way of a subnet once nobody uses any of them, on this
// host or another. Others give up a pool for it, and what they have there themselves:
// so none is asked of any while one is known to be in use. The error is about the pool
// that is not left.
func (m serving) clear(cidr netip.Prefix) (pools []*pool.Pool, of *pool.Pool, err error) {
	var used []*pool.Pool
	for _, cp := range m.state.Overlapping(cidr) {
		p := m.pools.Of(cp.Key)
		if !p.IsIdle() {
			return nil, p, m.unlessGone(p, m.errOverlap(cidr, p))
		}
		if err := m.awaitNetworkList(); err != nil {
			return nil, p, err
		}
		if m.engine.Awaits(p.Here) {
			return nil, p, waitFor(m.errOverlap(cidr, p))
		}
		pools = append(pools, p)
		if len(p.Users) > 0 {
			used = append(used, p)
		}
	}
	for _, p := range append(used, pools...) {
		if err := m.vacated(p); err != nil {
			return nil, p, err
		}
	}
	return pools, nil, nil
}

// removal returns the commands that remove idle pools, to be proposed in this step. What
// interfaces of the host and strangers have there is freed with that, in the step that
// sets it aside, or not at all: in between it could be handed out.
func (m *Machine) removal(pools ...*pool.Pool) ([]chronicle.Action, error) {
	var actions []chronicle.Action
	held := false
	for _, p := range pools {
		actions = append(actions, p.Deletion()...)
		held = held || p.Space.Held() > 0
	}
	if held {
		if err := m.mayPropose(actions); err != nil {
			return nil, err
		}
	}
	for _, p := range pools {
		p.FreeAll()
	}
	return actions, nil
}
