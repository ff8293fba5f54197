package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
)

// collect frees what leaks. It trusts the report for nothing but where to look:
// the same holder must have the address still, and two lists, the grace apart,
// must lack it.
func (m *Machine) collect(q *CollectRequest) ([]Collected, error) {
	if err := m.members.Usable(); err != nil {
		return nil, err
	}
	out := make([]Collected, 0, len(q.Findings))
	for _, f := range q.Findings {
		c := Collected{Address: f.Address, Pool: f.Pool, Outcome: CollectedKept}
		p := m.pools.On(f.Pool)
		var o addr.Offset
		ok := p != nil
		if ok {
			o, ok = addr.OffsetOf(p.CIDR, f.Address)
		}
		switch {
		case f.Code != FoundLeak:
			c.Why = "only addresses without an endpoint are freed, not " + f.Code
		case !ok:
			c.Outcome, c.Why = CollectedFree, "there is no such pool any more"
		default:
			c.Outcome, c.Why = m.survey.MayCollect(p, o, f)
		}
		if c.Outcome == CollectedFreed && !q.DryRun {
			m.survey.FreeGone(p, o, p.Here.Kept)
			m.leaveEmptied(p)
		}
		out = append(out, c)
	}
	return out, nil
}
