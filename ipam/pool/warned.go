package pool

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// An address of which a peer warns is held in this peer's ranges as that of a device that answered a probe. It is taken from
// no holder that has it: that is a conflict, and reported.

// Warn takes note that an address is in use on the host of that peer.
func (s *Pools) Warn(a netip.Addr, by peer.ID) {
	heeds, news := s.Warnings.Take(a, by, s.Me.ID())
	if news {
		s.Changed()
	}
	if p := s.At(a); p != nil && heeds {
		o, _ := addr.OffsetOf(p.CIDR, a)
		p.HoldWarned(addr.One(o))
	}
}

// EndOwnWarning ends the warning of this peer itself, if there is one, and reports whether there was: the engine has
// released the address, or an operator frees it, so what used it before this peer rejoined has ended.
func (s *Pools) EndOwnWarning(a netip.Addr) bool {
	by, _ := s.Warnings.By(a)
	if by == s.Me.ID() {
		s.EndWarning(a)
	}
	return by == s.Me.ID()
}

// EndWarning ends a warning, and frees what is held because of it.
func (s *Pools) EndWarning(a netip.Addr) {
	if !s.Warnings.End(a) {
		return
	}
	s.Changed()
	if p := s.At(a); p != nil {
		o, _ := addr.OffsetOf(p.CIDR, a)
		if IsWarned(p.Space.Lookup(o)) {
			p.freeAndSettle(o)
		}
		s.Conflicts.EndWarned(p.Place(o))
	}
}

// DismissWarned ends the warning of an address that its user has again.
func (p *Pool) DismissWarned(o addr.Offset) {
	p.of.EndWarning(addr.Nth(p.CIDR, o))
}

// IsWarned reports whether an address is held because of a warning: a device has a MAC.
func IsWarned(rec space.Record) bool {
	return rec.State == space.Held && rec.Kind == space.Stranger && rec.MAC == [6]byte{}
}

// HoldWarned holds what others were warned of in a range of this peer, unless it is held.
func (p *Pool) HoldWarned(r addr.Range) {
	if p.of.Warnings.IsEmpty() || !p.of.Me.HasBegun() { // the first step holds what a database has
		return
	}
	for _, a := range p.warnedIn(r) {
		o, _ := addr.OffsetOf(p.CIDR, a)
		if !IsHoldable(p.ReservationAt(o)) {
			continue
		}
		p.wakeKept(o)
		h := space.Holder{Kind: space.Stranger}
		if g, held := p.hold(o, &h); held {
			p.saveHeld(&g, &h)
			rec := p.Space.Lookup(o)
			p.noteWith(effect.NoteStranger, o, p.of.warnedText(a), &rec)
		}
	}
}

// warnedIn returns the addresses of a range that others were warned of, in order.
func (p *Pool) warnedIn(r addr.Range) (out []netip.Addr) {
	if r.Size() == 1 {
		if a := addr.Nth(p.CIDR, r.Start); p.of.IsInUse(a) {
			out = append(out, a)
		}
		return out
	}
	return p.of.Warnings.Which(func(a netip.Addr) bool {
		o, ok := addr.OffsetOf(p.CIDR, a)
		return ok && r.Contains(o)
	})
}

// IsInUse reports whether a peer warns of the address.
func (s *Pools) IsInUse(a netip.Addr) bool {
	_, warned := s.Warnings.By(a)
	return warned
}

// IsInUseElsewhere reports whether another peer warns of the address.
func (s *Pools) IsInUseElsewhere(a netip.Addr) bool {
	by, warned := s.Warnings.By(a)
	return warned && by != s.Me.ID()
}

// warnedText says who uses an address of which a peer warns: one that was given up, or one with a new database.
func (s *Pools) warnedText(a netip.Addr) string {
	by, _ := s.Warnings.By(a)
	switch {
	case by == s.Me.ID():
		return "a container or client of " + string(s.Name) + " from before its database was made"
	case s.isForgotten(by):
		return "a container or client on " + s.NameOf(by) + ", whose addresses were released with ringlet forget"
	}
	return "a container, client or network on " + s.NameOf(by) + " from before its database was made"
}

// isForgotten reports whether a peer was given up. One that was only evicted may be back.
func (s *Pools) isForgotten(by peer.ID) bool {
	g := s.State.Gone(by)
	return g != nil && g.Forgotten
}

// ErrWarned refuses an address of which a peer warns.
func (p *Pool) ErrWarned(a netip.Addr) error {
	by, _ := p.of.Warnings.By(a)
	next := "choose another address, or try again in ten minutes"
	switch {
	case p.of.isForgotten(by):
		next = "choose another address; if that host stays, run ringlet rejoin on it"
	case by == p.of.Me.ID() && !p.of.Engine.KnowsStart():
		next = fmt.Sprintf("choose another address; if nothing uses it, run ringlet release %v on this host", a)
	}
	return sentence.Errorf(sentence.ErrAddressInUse, "address %v in %s is in use by %s: %s", a, sentence.Pool(p.Pool), p.of.warnedText(a), next)
}

// NoteWarned reports what holders here have although a peer warns of it, as long as it does.
func (s *Pools) NoteWarned() {
	if s.Warnings.IsEmpty() {
		return
	}
	for _, p := range s.Sorted() {
		for _, a := range p.warnedIn(addr.Whole(p.CIDR)) {
			o, _ := addr.OffsetOf(p.CIDR, a)
			rec := p.Space.Lookup(o)
			if !s.IsInUseElsewhere(a) || rec.State != space.Held || rec.Kind == space.Stranger || rec.Kind == space.Kept {
				continue
			}
			d := p.dispute(rec.Holder, rec.Since, "also by "+s.warnedText(a), p.EndOf(o, rec.Holder, rec.Since), "the other one")
			d.Warned = true
			p.Disagree(o, d)
		}
	}
}

// Withhold keeps an address of a subnet back that an engine which starts has, and that this peer does not hold: one of its
// containers may use it that runs since before, and no other is to get it (R59). A list of the engine ends that, or the
// engine, as it releases the address.
func (s *Pools) Withhold(a netip.Addr, subnet netip.Prefix) {
	if s.Lacks(rule.Withheld) || s.IsInUse(a) {
		return
	}
	if p := s.On(subnet); p != nil {
		o, _ := addr.OffsetOf(p.CIDR, a)
		if kind, held := p.Space.Holds(o); held && !kind.OfHost() || p.ReservationAt(o) != nil {
			return
		}
	}
	s.Warn(a, s.Me.ID())
	s.Warnings.SendAgain()
}

// Where a network wants it, the plugin asks the wire about an address between its grant and the answer to the engine. If
// another device answers, a stranger holds the address from then on, so that the holder asks again and gets another one.
// The core never waits for the wire: to it, an address that the plugin asks about is one that was granted.

// StrangerTime is how long an address is kept back for a stranger. Devices come and go, and no address may be lost for ever:
// then it is free again, rests, comes last in its turn, and is asked about once more.
const StrangerTime = time.Hour

// TakeStranger keeps an address back for whatever answers for it, if it still is as it was granted, and reports whether it
// was. One that was confirmed since, or that the engine has listed, is in use by a container.
func (p *Pool) TakeStranger(t *call.Ticket, mac addr.MAC) bool {
	o := t.Offset
	rec := p.Space.Lookup(o)
	if rec.State != space.Held || rec.Seq != p.serialOf(t, &rec) || rec.Kind == space.Container && rec.Ref != "" {
		return false
	}
	p.forgetHolder(o)
	rec, _ = p.Space.Renew(o, space.Holder{Kind: space.Stranger, MAC: mac})
	p.saveRecord(o, &rec)
	p.watchStranger(o, time.Unix(0, rec.Since))
	p.noteWith(effect.NoteStranger, o, p.of.HolderText(rec.Holder, rec.Since), &rec)
	return true
}

// watchStranger remembers that an address is kept back for a stranger since then.
func (p *Pool) watchStranger(o addr.Offset, since time.Time) {
	remember(&p.Strangers, o, since)
	if until := since.Add(StrangerTime); p.of.strangersUntil.IsZero() || until.Before(p.of.strangersUntil) {
		p.of.strangersUntil = until
	}
}

// StrangersUntil returns when [Pools.FreeStrangers] has something to do; zero if never.
func (s *Pools) StrangersUntil() time.Time { return s.strangersUntil }

// FreeStrangers frees the addresses that have been kept back for long enough. One that seems to be kept back since far in
// the future has a time from a clock that was ahead, and nobody knows since when.
func (s *Pools) FreeStrangers() {
	if s.strangersUntil.IsZero() {
		return
	}
	now := s.Out.Now()
	if wait := s.strangersUntil.Sub(now); wait > 0 && wait <= 2*StrangerTime {
		return
	}
	s.strangersUntil = time.Time{}
	for _, p := range s.Sorted() {
		for _, o := range slices.Sorted(maps.Keys(p.Strangers)) {
			since := p.Strangers[o]
			if age := now.Sub(since); age < StrangerTime && age > -StrangerTime {
				p.watchStranger(o, since)
				continue
			}
			rec := p.Space.Lookup(o)
			p.Free(o)
			p.Note(effect.NoteStrangerEnd, o, rec.Holder, rec.Since)
			p.SettleAt(addr.One(o))
			s.Changed()
		}
	}
}

// DismissStranger frees an address that is kept back for a stranger, since it is known now who that was. Any other holder
// stays.
func (p *Pool) DismissStranger(o addr.Offset) {
	p.DismissWarned(o)
	if rec := p.Space.Lookup(o); rec.State == space.Held && rec.Kind == space.Stranger {
		p.Free(o)
	}
}
