package ipam

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/replog"
	"github.com/ringlet/ringlet/ipam/rule"
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
	// What is set aside for what cannot be decided is of use to nobody.
	if m.members.Ready() != nil || m.state.Member(from) == nil || m.members.View().CutOff() {
		return wire.Answer{Verdict: wire.RefusedNow}
	}
	p := m.pools.Of(q.Pool)
	one := q.Want == wire.WantExact || q.Want == wire.WantReserved
	if m.awaitList() != nil && (!one || p == nil || !p.CanTell(q.Range)) {
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
	if who := p.HeldFrom(to, o, q.Want == wire.WantReserved); who != "" {
		return wire.Answer{Verdict: wire.RefusedHeld, Text: who}
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
		return wire.Answer{Verdict: wire.RefusedHeld, Text: p.UseText()}
	case p.MayBeUsed():
		return wire.Answer{Verdict: wire.RefusedNow}
	}
	p.Vacated = m.now
	m.closeAll(p)
	if p.ToldUse(m.log.UnderWay()) {
		m.background(chronicle.Unuse{Pool: p.Key})
	}
	return wire.Answer{Verdict: wire.Granted, Range: addr.Whole(p.CIDR)}
}

// givesUp reports whether this peer has just given up the pool, or is about to, and
// nothing on this host uses it: then it takes nothing there, as the pool would never
// go. Who wants a pool to go has the time of a call for that.
func (m *Machine) givesUp(p *pool.Pool) bool {
	return (m.members.IsDraining() || !p.Vacated.IsZero() && !m.members.View().Lasted(p.Vacated, m.cfg.CallTime)) && !p.MayBeUsed()
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
	p.FreeHost(ranges)
	if m.lacks(rule.FreedAside) {
		return // what is not needed is given back in a later step anyway
	}
	m.background(actions...)
}

// closing reports whether a command that takes some of the range is under way.
func (m *Machine) closing(p *pool.Pool, r addr.Range) bool { return m.trade.IsLeaving(p.Key, r) }
