package ipam

import (
	"fmt"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// collect frees what leaks. It trusts the report for nothing but where to look:
// the same holder must have the address still, and two lists, the grace apart,
// must lack it.
func (m *Machine) collect(q *CollectRequest) ([]Collected, error) {
	if err := m.usable(); err != nil {
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
			c.Outcome, c.Why = m.mayCollect(p, o, f)
		}
		if c.Outcome == CollectedFreed && !q.DryRun {
			rec := p.Space.Lookup(o)
			p.Free(o)
			m.note(Note{Kind: NoteLeakMended, Pool: p.CIDR, Address: f.Address, Holder: m.pools.HolderText(rec.Holder, rec.Since)})
			p.SettleAt(addr.One(o))
			m.settleEmptied(p)
		}
		out = append(out, c)
	}
	return out, nil
}

// mayCollect says whether a leak that was found may be freed.
func (m *Machine) mayCollect(p *pool.Pool, o addr.Offset, f Finding) (outcome, why string) {
	rec := p.Space.Lookup(o)
	first, missing := p.Missing[o]
	_, seen := p.Seen[o]
	since := time.Unix(0, rec.Since)
	switch {
	case rec.State != space.Held:
		return CollectedFree, "it is no longer in use"
	case rec.Kind != space.Container && rec.Kind != space.Unmarked:
		return CollectedKept, "it is held by " + m.pools.HolderText(rec.Holder, rec.Since)
	case !since.Equal(f.Since) || rec.Ref != f.Container || rec.Name != f.Name:
		return CollectedKept, "another holder has it since that report: " + m.pools.HolderText(rec.Holder, rec.Since)
	case seen || !missing:
		return CollectedKept, "the engine's last list has it"
	case m.now.Sub(m.pools.HeldSince(&rec)) < m.cfg.Grace:
		return CollectedKept, fmt.Sprintf("it is younger than %v: its container may be starting", m.cfg.Grace)
	case m.engine.Complete().At.Sub(m.engine.SureSince(first)) < m.cfg.Grace:
		return CollectedKept, fmt.Sprintf("the engine's lists have lacked it for less than %v: try again after that", m.cfg.Grace)
	}
	return CollectedFreed, strings.TrimSpace("the engine's lists have lacked it since " + sentence.Date(first.UnixNano()))
}
