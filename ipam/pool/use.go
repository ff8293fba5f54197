package pool

import (
	"slices"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/space"
)

// WasUsed reports whether a former peer of that machine may have had networks on the pool: it was there when that one was
// evicted.
func (p *Pool) WasUsed(machine uint64) bool {
	return slices.ContainsFunc(p.of.State.Former, func(g chronicle.Gone) bool {
		return g.Machine == machine && g.ID != p.of.Me.ID() && p.Key.Slot < g.Evicted
	})
}

// ToldUse reports whether the state says that this host has networks on the pool, or will once the commands that are under
// way are decided.
func (p *Pool) ToldUse(underWay []chronicle.Action) bool {
	told := p.Facts().IsUsed
	for _, a := range underWay {
		switch a := a.(type) {
		case chronicle.Use:
			told = told || a.Pool == p.Key
		case chronicle.Unuse:
			told = told && a.Pool != p.Key
		}
	}
	return told
}

// IsParting reports whether one of the commands that are under way ends what keeps the pool, whatever was proposed after it.
// earlier says that some may be of an earlier start.
func (p *Pool) IsParting(underWay []chronicle.Action, earlier bool) bool {
	if p.of.Lacks(rule.Parting) {
		return false
	}
	if earlier && !p.Here.HasRecord() {
		return true // what it said before it started again is not known; while there is a record, it says nothing that ends this
	}
	ends := false
	for _, a := range underWay {
		switch a := a.(type) {
		case chronicle.Unuse:
			ends = ends || a.Pool == p.Key
		case chronicle.DeletePool:
			ends = ends || a.Pool == p.Key
		}
	}
	return ends
}

// MayGoSoon reports whether the subnet of the pool was chosen, and it goes if the next list tells that no network is on it.
func (p *Pool) MayGoSoon() bool {
	return p.Origin == chronicle.FromChoice && p.Name == "" && p.of.Engine.Awaits(p.Here)
}

// BelieveReleases drops the networks on the pool whose release has come, where no list ever comes: once no container of this
// host has an address of the pool. Where the engine is only silent the next list tells: two networks with one ID may have been
// asked for in one process and another one.
func (p *Pool) BelieveReleases() {
	if !p.of.Engine.Lists() && p.Here.Released() > 0 && !p.holdsAny(space.Kind.OfEndpoint) {
		p.of.Engine.Believe(p.Here)
	}
}
