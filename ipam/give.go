package ipam

import (
	"slices"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// takeAsk answers another peer's question.
func (m *Machine) takeAsk(f *wire.Frame, q wire.Ask) {
	if !m.trade.Repeat(f.Header, q) {
		m.trade.Answer(f.Header, q, m.consider(f.From, q))
	}
}

// consider decides on a question, and begins what it grants.
func (m *Machine) consider(from peer.ID, q wire.Ask) wire.Answer {
	if m.ready() != nil || m.state.Member(from) == nil || m.members.View().CutOff() { // what is set aside for what cannot be decided is of use to nobody
		return wire.Answer{Verdict: wire.RefusedNow}
	}
	p := m.pools.Of(q.Pool)
	if m.awaitList() != nil && !isKnown(p, q) {
		return wire.Answer{Verdict: wire.RefusedNow}
	}
	if p == nil || q.Range.Empty() || q.Range.End > addr.Offset(p.Ring.Size()) {
		return wire.Answer{Verdict: wire.RefusedNotMine}
	}
	switch q.Want {
	case wire.WantSpace:
		answer := m.trade.Split(p.Pool, p.Space, q.Range)
		if answer.Verdict == wire.Granted {
			m.give(p, answer.Range, from)
		}
		return answer
	case wire.WantExact, wire.WantReserved:
		return m.giveExactly(p, q, from)
	case wire.WantVacant:
		return m.vacate(p)
	}
	return wire.Answer{Verdict: wire.RefusedNow}
}

// isKnown reports whether a peer can answer a question before it has taken in all
// of the engine's list: about one address, which is held, or nobody's.
func isKnown(p *pool.Pool, q wire.Ask) bool {
	if p == nil || q.Range.Size() != 1 || q.Want != wire.WantExact && q.Want != wire.WantReserved {
		return false
	}
	kind, held := p.Space.Holds(q.Range.Start)
	return held && kind != space.Kept || p.ShowsFree(q.Range)
}

// give has a range of this peer made another's. Nothing in it is held.
func (m *Machine) give(p *pool.Pool, r addr.Range, to peer.ID) {
	m.background(m.trade.Give(p.Pool, r, to))
}

// giveExactly gives one certain address, or has it reserved, or says who holds
// it.
func (m *Machine) giveExactly(p *pool.Pool, q wire.Ask, to peer.ID) wire.Answer {
	o := q.Range.Start
	if q.Range.Size() != 1 || !p.Space.Mine(o) {
		return wire.Answer{Verdict: wire.RefusedNotMine}
	}
	// What answered here, or this host itself, may be the router that another host's network names.
	named := func(k space.Kind) bool {
		return (k == space.Stranger || k == space.Host) && q.Want == wire.WantReserved
	}
	if a := addr.Nth(p.CIDR, o); m.pools.IsInUse(a) {
		if by, _ := m.warnings.By(a); by != to {
			return wire.Answer{Verdict: wire.RefusedHeld, Text: m.pools.WarnedText(a)}
		}
		if p.Space.Usable(o) {
			p.DismissStranger(o) // who warns of it has a user for it
		}
	}
	if rec := p.Space.Lookup(o); rec.State == space.Held && rec.Kind != space.Kept && !named(rec.Kind) {
		return wire.Answer{Verdict: wire.RefusedHeld, Text: m.pools.HolderText(rec.Holder, rec.Since)}
	}
	if !p.Space.Usable(o) {
		return wire.Answer{Verdict: wire.RefusedNow} // a decision about it is under way
	}
	if q.Want == wire.WantExact {
		m.give(p, q.Range, to)
	} else {
		m.background(chronicle.Reserve{Pool: p.Key, Reservation: chronicle.Reservation{Range: q.Range, Kind: q.Kind}})
	}
	return wire.Answer{Verdict: wire.Granted, Range: q.Range}
}

// vacate gives up all that this peer has in a pool, if nothing on this host
// uses it.
func (m *Machine) vacate(p *pool.Pool) wire.Answer {
	switch {
	case p.HasContainers(), p.Here.Has() && !m.engine.Awaits(p.Here):
		return wire.Answer{Verdict: wire.RefusedHeld, Text: m.useText(p)}
	case m.uses(p):
		return wire.Answer{Verdict: wire.RefusedNow}
	}
	p.Vacated = m.now
	m.closeAll(p)
	if m.toldUse(p) {
		m.background(chronicle.Unuse{Pool: p.Key})
	}
	return wire.Answer{Verdict: wire.Granted, Range: addr.Whole(p.CIDR)}
}

// uses reports whether a network or a container of this host is on the pool, or may be.
func (m *Machine) uses(p *pool.Pool) bool {
	return p.Here.Has() || p.HasContainers() || !m.engine.KnowsNetworks() || m.engine.Awaits(p.Here)
}

// givesUp reports whether this peer has just given up the pool, or is about to, and
// nothing on this host uses it: then it takes nothing there, as the pool would never
// go. Who wants a pool to go has the time of a call for that.
func (m *Machine) givesUp(p *pool.Pool) bool {
	return (m.members.IsDraining() || !p.Vacated.IsZero() && !m.members.View().Lasted(p.Vacated, m.cfg.CallTime)) && !m.uses(p)
}

// closeAll gives back all that this peer owns in a pool which nothing on this
// host uses.
func (m *Machine) closeAll(p *pool.Pool) {
	var ranges []addr.Range
	for _, r := range p.Mine {
		if len(ranges) < replog.MaxCommands && !m.closing(p, r) && !p.HasGuestsIn(r) {
			ranges = append(ranges, r)
		}
	}
	m.closeHost(p, ranges)
}

// closeHost gives back ranges in which the host itself, strangers and those whom
// it waits for hold whatever is held. What they have is freed and set aside in
// one step, or not at all: in between it could be handed out. What they have of
// others' space goes as well.
func (m *Machine) closeHost(p *pool.Pool, ranges []addr.Range) {
	actions := make([]chronicle.Action, len(ranges))
	for i, r := range ranges {
		actions[i] = chronicle.Close{Pool: p.Key, Range: r}
	}
	if m.mayPropose(actions) != nil {
		return
	}
	var own []addr.Offset
	for o, kind := range p.Space.Kinds() {
		goes := func(r addr.Range) bool { return r.Contains(o) }
		if kind.OfHost() && (!p.Space.Mine(o) || slices.ContainsFunc(ranges, goes)) {
			own = append(own, o)
		}
	}
	for _, o := range own {
		p.Free(o)
	}
	if _, held := p.Space.Holds(p.Gateway); !held {
		p.HasGateway = false
	}
	if m.lacks(rule.FreedAside) {
		return // what is not needed is given back in a later step anyway
	}
	m.background(actions...)
}

// closing reports whether a command that takes some of the range is under way.
func (m *Machine) closing(p *pool.Pool, r addr.Range) bool { return m.trade.IsLeaving(p.Key, r) }

// useText says what uses a pool on this host.
func (m *Machine) useText(p *pool.Pool) string {
	var uses []string
	if n := int(p.Space.Held()); n > 0 {
		uses = append(uses, sentence.Plural(n, "address", "addresses"))
	}
	if n := p.Here.Networks(); n > 0 {
		uses = append(uses, sentence.Plural(n, "network", "networks"))
	}
	return string(m.cfg.Name) + " has " + strings.Join(uses, " and ") + " of it"
}
