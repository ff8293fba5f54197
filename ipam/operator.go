package ipam

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
)

// createPool makes a pool for an operator, and reports whether it is new.
func (m *Machine) createPool(q *PoolCreation) (_ PoolStatus, created bool, _ error) {
	if err := m.usable(); err != nil {
		return PoolStatus{}, false, err
	}
	if q.CIDR != q.CIDR.Masked() {
		return PoolStatus{}, false, failf(ErrBadRequest, "%v has bits set behind its length: did you mean %v", q.CIDR, q.CIDR.Masked())
	}
	cidr, err := addr.Checked(q.CIDR)
	if err != nil {
		return PoolStatus{}, false, failf(ErrBadRequest, "%v", err)
	}
	if q.Name != "" && !chronicle.ValidName(q.Name) {
		return PoolStatus{}, false, failf(ErrBadRequest, "%q cannot be the name of a pool: use 1 to 63 letters, digits, dots, dashes and underscores, beginning with a letter or digit", q.Name)
	}
	if other := m.state.PoolNamed(q.Name); other != nil && other.CIDR != cidr {
		return PoolStatus{}, false, failf(ErrBadRequest, "the name %s belongs to the pool %v: use another name", q.Name, other.CIDR)
	}
	created = m.poolOf(cidr) == nil
	p, err := m.joinPool(cidr, poolSpec{origin: chronicle.FromOperator})
	if err == nil {
		err = m.namePool(p, q.Name)
	}
	if err != nil {
		return PoolStatus{}, false, err
	}
	return m.poolStatus(p, m.now, true), created, nil
}

// removePool removes a pool for an operator.
func (m *Machine) removePool(q *PoolRemoval) error {
	if err := m.usable(); err != nil {
		return err
	}
	p := m.poolRef(q.Pool)
	if p == nil {
		return errNoPool(q.Pool)
	}
	if held := p.space.Held(); p.busy() {
		return failf(ErrPoolInUse, "pool %s holds %s: remove the containers first, ringlet ip ls --pool %v shows them", poolText(p.Pool), plural(int(held), "address", "addresses"), p.CIDR)
	}
	if n := m.networksOf(p); n > 0 {
		return failf(ErrPoolInUse, "pool %s has %s of this host on it: remove them first with docker network rm", poolText(p.Pool), plural(n, "network", "networks"))
	}
	out := m.decide(m.deletion(p)...)
	if last := out[len(out)-1]; last.Refused != "" {
		return failf(ErrPoolInUse, "pool %s cannot be removed: %s", poolText(p.Pool), last.Refused)
	}
	return nil
}

// poolRef returns the pool that a user names, by subnet or name, or nil.
func (m *Machine) poolRef(ref string) *pool {
	if cp := m.state.PoolNamed(ref); cp != nil {
		return m.pools[cp.Key]
	}
	if cidr, err := netip.ParsePrefix(ref); err == nil {
		return m.poolOf(cidr.Masked())
	}
	return nil
}
