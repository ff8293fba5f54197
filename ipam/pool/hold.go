package pool

import (
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/holding"
	"github.com/ringlet/ringlet/ipam/rule"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// Standing answers with an address that was held before.
func (p *Pool) Standing(o addr.Offset) call.AddressGrant {
	return call.AddressGrant{Address: netip.PrefixFrom(addr.Nth(p.CIDR, o), p.CIDR.Bits())}
}

// TakeAny hands out a free address in a range, and reports whether there was one: one that was never used, else the one that
// has rested longest.
func (p *Pool) TakeAny(want addr.Range, h *space.Holder, rest time.Duration, a *call.AddressGrant) bool {
	g, ok := p.Space.Take(want, h, p.of.Out.Now(), rest, &a.Ticket.Before)
	if ok {
		p.granted(&g, h, a)
	}
	return ok
}

// Take hands out the address at o, which is free or waits for the holder.
func (p *Pool) Take(o addr.Offset, h *space.Holder, a *call.AddressGrant) error {
	p.wakeKept(o)
	g, outcome := p.Space.Claim(o, h, p.of.Out.Now(), &a.Ticket.Before)
	if outcome != space.Taken {
		return sentence.Errorf(sentence.ErrAddressInUse, "address %v in %s cannot be handed out, it is %v: try again", addr.Nth(p.CIDR, o), sentence.Pool(p.Pool), outcome)
	}
	p.granted(&g, h, a)
	return nil
}

// granted writes down an address that was handed out, and answers with it.
func (p *Pool) granted(g *space.Grant, h *space.Holder, a *call.AddressGrant) {
	at, of := addr.Nth(p.CIDR, g.Offset), p.of
	p.forgetHolder(g.Offset) // what was seen was of an earlier one
	of.Doubts.TakeHolder(at)
	of.Doubts.Grant(at)
	if h.Kind == space.Gateway {
		p.Gateway, p.HasGateway = g.Offset, true
	}
	p.saveHeld(g, h)
	p.noteUse(effect.NoteGranted, at, h, g.Since)
	if g.Pressed {
		*p.of.Out.Note() = effect.Note{Kind: effect.NotePressed, Pool: p.CIDR, Address: at}
	}
	a.Address = netip.PrefixFrom(at, p.CIDR.Bits())
	t := &a.Ticket
	t.Pool, t.Offset, t.Serial = p.Key, g.Offset, g.Seq
}

// hold has something hold the address at o that has it anyway, if it is free.
func (p *Pool) hold(o addr.Offset, h *space.Holder) (g space.Grant, held bool) {
	g, out := p.Space.Claim(o, h, p.of.Out.Now(), nil)
	return g, out == space.Taken
}

// Renew leaves an address to the holder that has it, or to the one that comes after it. A container starts again, so that
// from now on it is as young as any: no inventory lists it yet.
func (p *Pool) Renew(o addr.Offset, h *space.Holder) call.AddressGrant {
	if h.Kind != space.Container || !p.Space.Usable(o) { // what is set aside could not be taken again
		return p.Confirm(o, *h)
	}
	p.of.Doubts.Add(addr.Nth(p.CIDR, o))
	if p.isGone(o) {
		rec := p.Space.Lookup(o)
		p.Note(effect.NoteTakenOver, o, rec.Holder, rec.Since)
	}
	p.forgetHolder(o)
	p.grantAgain(o, h)
	p.NoteAlive(o, p.Space.Lookup(o))
	return p.Standing(o)
}

// grantAgain has the address at o, which is held, be h's from now on.
func (p *Pool) grantAgain(o addr.Offset, h *space.Holder) {
	p.Space.Free(o, p.of.Out.Now(), &space.Freeing{})
	if g, held := p.hold(o, h); held {
		p.saveGrant(&g, h)
	}
}

// Confirm answers with an address that h holds already. A grant of it that is still on its way cannot be withdrawn any more:
// this answer stands.
func (p *Pool) Confirm(o addr.Offset, h space.Holder) call.AddressGrant {
	rec, _ := p.Space.Renew(o, h)
	p.saveRecord(o, &rec)
	return p.Standing(o)
}

// Describe writes down what is known by now of the container that holds the address at o.
func (p *Pool) Describe(o addr.Offset, h space.Holder) {
	rec, _ := p.Space.Describe(o, h)
	p.saveRecord(o, &rec)
	p.noteUse(effect.NoteDescribed, addr.Nth(p.CIDR, o), &rec.Holder, rec.Since)
}

// NoteAlive notes that an address is in use, until an inventory says otherwise.
func (p *Pool) NoteAlive(o addr.Offset, rec space.Record) {
	if p.of.Engine.WillList() && rec.Kind.OfEndpoint() {
		remember(&p.Seen, o, rec.Ref)
		forget(p.Missing, o)
	}
}

// AskedAgain notes that the engine has asked for an address again that a container holds: it does so once. From now on the
// container is as young as any.
func (p *Pool) AskedAgain(o addr.Offset) {
	if rec := p.Space.Lookup(o); rec.State == space.Held && rec.Kind == space.Container && p.Space.Usable(o) {
		p.grantAgain(o, &rec.Holder)
	}
}

// Withdraw takes back a grant that was not delivered, and reports whether it stood.
func (p *Pool) Withdraw(t *call.Ticket) bool {
	o := t.Offset
	held := p.Space.Lookup(o)
	rec, changed := p.Space.Withdraw(o, p.serialOf(t, &held), &t.Before)
	if !changed {
		return false // it was freed since
	}
	p.forgetHolder(o)
	p.of.Conflicts.End(p.Place(o))
	p.saveRecord(o, &rec)
	p.noteWith(effect.NoteWithdrawn, o, p.of.HolderText(held.Holder, held.Since), &held)
	p.SettleAt(addr.One(o)) // of which is told behind that, or it would end with it
	return true
}

// serialOf returns the number that the record of an address has as long as nothing has confirmed the grant of the ticket
// (R52).
func (p *Pool) serialOf(t *call.Ticket, rec *space.Record) uint64 {
	if p.of.Lacks(rule.Confirmed) {
		return rec.Seq
	}
	return t.Serial
}

// Free frees the held address at o, of which no release has come. That of a gateway comes once more if the removal of its
// network was cut short.
func (p *Pool) Free(o addr.Offset) {
	if kind, _ := p.Space.Holds(o); p.HasEndpoint(o) || kind == space.Gateway {
		p.of.Doubts.Add(addr.Nth(p.CIDR, o))
	}
	p.freeReleased(o)
}

// freeAndSettle is Free where the address goes to nobody in the same step.
func (p *Pool) freeAndSettle(o addr.Offset) {
	p.Free(o)
	p.SettleAt(addr.One(o))
}

// freeReleased frees the held address at o. Its record stays, so that its holder finds it again. [Pool.SettleAt] follows,
// but where the address goes to another holder in the same step.
func (p *Pool) freeReleased(o addr.Offset) {
	var f space.Freeing
	if !p.Space.Free(o, p.of.Out.Now(), &f) {
		return
	}
	if f.Kind != space.Kept {
		p.noteUse(effect.NoteFreed, addr.Nth(p.CIDR, o), &f.Holder, f.HeldSince)
	}
	p.forgetHolder(o)
	p.of.Conflicts.End(p.Place(o))
	p.saveRecord(o, &f.Record)
}

// forgetHolder forgets that the holder of the address is this host's gateway, and what inventories, the host's interfaces and
// the wire said of it.
func (p *Pool) forgetHolder(o addr.Offset) {
	if p.Gateway == o {
		p.HasGateway = false
	}
	forget(p.Missing, o)
	forget(p.OffHost, o)
	forget(p.Seen, o)
	forget(p.Strangers, o)
}

// forget is delete for a map that is empty most of the time, of which delete would learn in a call.
func forget[M ~map[K]V, K comparable, V any](m M, k K) {
	if len(m) > 0 {
		delete(m, k)
	}
}

// remember notes something in a map that is empty most of the time.
func remember[M ~map[K]V, K comparable, V any](m *M, k K, v V) {
	if *m == nil {
		*m = M{}
	}
	(*m)[k] = v
}

// saveGrant writes the record of an address that was granted to a holder, and notes it.
func (p *Pool) saveGrant(g *space.Grant, h *space.Holder) {
	p.saveHeld(g, h)
	p.noteUse(effect.NoteGranted, addr.Nth(p.CIDR, g.Offset), h, g.Since)
}

func (p *Pool) saveHeld(g *space.Grant, h *space.Holder) {
	holding.Save(p.of.Out, p.Key, g.Offset, h, space.Held, g.Seq, g.Since)
}

// saveRecord writes what is known of an address, or forgets it if nothing is.
func (p *Pool) saveRecord(o addr.Offset, rec *space.Record) {
	if rec.State == space.Unused {
		p.forgetRecord(o)
		return
	}
	holding.Save(p.of.Out, p.Key, o, &rec.Holder, rec.State, rec.Seq, rec.Since)
}

// forgetRecord deletes the record of an address.
func (p *Pool) forgetRecord(o addr.Offset) { holding.Delete(p.of.Out, p.Key, o) }

// Note notes what became of the address at o, with the holder that it has, or had since then.
func (p *Pool) Note(kind effect.NoteKind, o addr.Offset, h space.Holder, since int64) {
	*p.of.Out.Note() = effect.Note{Kind: kind, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: p.of.HolderText(h, since)}
}

// noteWith notes what became of the address at o, whose record that is, with a word about the holder.
func (p *Pool) noteWith(kind effect.NoteKind, o addr.Offset, holder string, rec *space.Record) {
	n := p.of.Out.Note()
	*n = effect.Note{Kind: kind, Pool: p.CIDR, Address: addr.Nth(p.CIDR, o), Holder: holder}
	tellUse(&n.Use, &rec.Holder, rec.Since)
}

// noteUse notes what became of an address that h holds, or held, since then.
func (p *Pool) noteUse(kind effect.NoteKind, a netip.Addr, h *space.Holder, since int64) {
	n := p.of.Out.Note()
	n.Kind, n.Pool, n.Address = kind, p.CIDR, a
	n.Last, n.Holder, n.From, n.To = netip.Addr{}, "", "", ""
	tellUse(&n.Use, h, since)
}

// tellUse sets what is known of a holder.
func tellUse(u *effect.Use, h *space.Holder, since int64) {
	u.Kind, u.Container, u.Name, u.MAC = h.Kind.String(), h.Ref, h.Name, h.MAC
	u.Since = time.Unix(0, since).UTC()
}

// NameAuxiliary notes that the engine names the address at o as an auxiliary one of a network that it makes.
func (p *Pool) NameAuxiliary(o addr.Offset) { remember(&p.Named, o, p.of.Engine.Stamp()) }
