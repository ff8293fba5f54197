package pool

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// IsIdle reports whether nobody on this host wants the pool any more: no operator made it, it has no name to be joined by,
// no network is on it, no address in it is held, and nothing in it is kept back by an operator.
func (p *Pool) IsIdle() bool {
	return p.Origin != chronicle.FromOperator && p.Name == "" && !p.Here.Has() && !p.IsBusy() && !p.Operated()
}

// MayBeUsed reports whether a network or a container of this host is on the pool, or may be.
func (p *Pool) MayBeUsed() bool {
	return p.Here.Has() || p.HasContainers() || !p.of.Engine.KnowsNetworks() || p.of.Engine.Awaits(p.Here)
}

// UseText says what uses the pool on this host.
func (p *Pool) UseText() string {
	var uses []string
	if n := int(p.Space.Held()); n > 0 {
		uses = append(uses, sentence.Plural(n, "address", "addresses"))
	}
	if n := p.Here.Networks(); n > 0 {
		uses = append(uses, sentence.Plural(n, "network", "networks"))
	}
	return string(p.of.Name) + " has " + strings.Join(uses, " and ") + " of it"
}

// Deletion returns the commands that remove an idle pool. If it stays, as another host has made a network on it meanwhile,
// they give the host its own addresses back in the slot that takes them.
func (p *Pool) Deletion() []chronicle.Action {
	var actions []chronicle.Action
	for _, r := range p.Mine {
		actions = append(actions, chronicle.Close{Pool: p.Key, Range: r})
	}
	if p.UsedBy(p.of.Me.ID()) {
		actions = append(actions, chronicle.Unuse{Pool: p.Key})
	}
	actions = append(actions, chronicle.DeletePool{Pool: p.Key, Kept: p.KeptBack()})
	for _, a := range p.of.Engine.Host() {
		if o, ok := addr.OffsetOf(p.CIDR, a.Addr()); ok && p.Space.Mine(o) {
			actions = append(actions, chronicle.Open{Pool: p.Key, Range: addr.One(o), Size: 1})
		}
	}
	return actions
}

// FreeAll frees whatever is held, before the pool is removed.
func (p *Pool) FreeAll() {
	for o := range p.Space.Kinds() {
		p.Free(o)
	}
}

// FreeHost frees what the host itself, strangers and those whom it waits for hold in the ranges, and in space of other
// peers.
func (p *Pool) FreeHost(ranges []addr.Range) {
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
}

// KeptEnough returns the commands that give back what has waited for its name for that long, or all that does: the
// next container of that name may start on another host.
func (p *Pool) KeptEnough(rest time.Duration, all bool) (actions []chronicle.Action) {
	if !p.Facts().KeepsNames {
		return nil
	}
	for _, r := range p.Reserved {
		o := r.Range.Start
		rec := p.Space.Lookup(o)
		waits := r.Kind == chronicle.KindKeptForName && rec.State == space.Held && rec.Kind == space.Kept && p.Space.Usable(o)
		if waits && (all || rec.Rested(p.of.Out.Now(), rest)) {
			actions = append(actions, chronicle.Close{Pool: p.Key, Range: r.Range})
		}
	}
	return actions
}

// HeldFrom says who holds an address that another peer asks for, in words; empty if it may be given away. reserved says that
// it is to be reserved for a network: what answered here, or this host itself, may be the router that the network names.
func (p *Pool) HeldFrom(to peer.ID, o addr.Offset, reserved bool) string {
	if a := addr.Nth(p.CIDR, o); p.of.IsInUse(a) {
		if by, _ := p.of.Warnings.By(a); by != to {
			return p.of.warnedText(a)
		}
		if p.Space.Usable(o) {
			p.DismissStranger(o) // who warns of it has a user for it
		}
	}
	rec := p.Space.Lookup(o)
	named := reserved && (rec.Kind == space.Stranger || rec.Kind == space.Host)
	if rec.State != space.Held || rec.Kind == space.Kept || named {
		return ""
	}
	return p.of.HolderText(rec.Holder, rec.Since)
}

// Meant yields the held addresses that an operator means, who names one, or else a holder.
func (p *Pool) Meant(a netip.Addr, fits func(space.Holder) bool) iter.Seq2[addr.Offset, space.Record] {
	in := addr.Whole(p.CIDR)
	if a.IsValid() {
		o, ok := addr.OffsetOf(p.CIDR, a)
		if in = addr.One(o); !ok {
			in = addr.Range{}
		}
	}
	return func(yield func(addr.Offset, space.Record) bool) {
		for o, rec := range p.Space.HeldIn(in) {
			if rec.Kind != space.Kept && fits(rec.Holder) && !yield(o, rec) {
				return
			}
		}
	}
}

// MayFree reports why an address that is held is not freed by hand, if it is not.
func (p *Pool) MayFree(o addr.Offset, rec space.Record) error {
	var why string
	switch {
	case rec.Kind == space.Host:
		why = "on an interface of this host: it is freed by itself when the host no longer has it"
	case rec.Kind == space.Gateway:
		why = "the gateway of this host's networks: it is freed with the last of them"
	case rec.Kind != space.Client && rec.Kind != space.Stranger && !p.isGone(o):
		why = fmt.Sprintf("in use by %s: %s, and its address is freed by itself", p.of.HolderText(rec.Holder, rec.Since), p.EndOf(o, rec.Holder, rec.Since))
	default:
		return nil
	}
	return sentence.Errorf(sentence.ErrAddressInUse, "address %v in %s is %s", addr.Nth(p.CIDR, o), sentence.Pool(p.Pool), why)
}

// FreeByHand frees an address that [Pool.MayFree] allows.
func (p *Pool) FreeByHand(o addr.Offset) {
	if IsWarned(p.Space.Lookup(o)) {
		p.DismissStranger(o)
	} else {
		p.Free(o)
	}
	p.SettleAt(addr.One(o))
}

// Check tells what contradicts the invariants in the pool, which the state has as cp. lost says that this peer may hold what
// it does not own.
func (p *Pool) Check(cp *chronicle.Pool, lost bool, bad func(format string, args ...any)) {
	if p.Pool != cp {
		bad("pool %v is not the one of the state", p.CIDR)
	}
	if err := p.Space.Check(); err != nil {
		bad("pool %v: %w", p.CIDR, err)
	}
	var mine addr.Count
	self := p.of.Me.ID()
	for r := range p.Ring.OwnedBy(self) {
		mine += r.Size()
	}
	if mine != p.Space.Owned() {
		bad("pool %v: the ring gives this peer %d addresses, its space has %d", p.CIDR, mine, p.Space.Owned())
	}
	for o, rec := range p.Records() {
		if t, _ := p.Ring.At(o); t.Owner != self && (rec.State != space.Held || !lost) {
			bad("I5: %v of pool %v is %v, and the ring does not give it to this peer", addr.Nth(p.CIDR, o), p.CIDR, rec.State)
		}
	}
	if rec := p.Space.Lookup(p.Gateway); p.HasGateway && (rec.State != space.Held || rec.Kind != space.Gateway) {
		bad("pool %v: the gateway %v is not held as one", p.CIDR, addr.Nth(p.CIDR, p.Gateway))
	}
}

// CanTell reports whether a range is one address of which this peer knows enough to answer another one, before it has
// taken in all of the engine's list: it is held, or nobody's.
func (p *Pool) CanTell(r addr.Range) bool {
	if r.Size() != 1 {
		return false
	}
	kind, held := p.Space.Holds(r.Start)
	return held && kind != space.Kept || p.ShowsFree(r)
}

// Collisions gathers what cannot be excluded in a pool, with neighbours of one reason in one.
type Collisions struct {
	pool *Pool
	List []call.Collision
}

// Collisions returns none yet.
func (p *Pool) Collisions() Collisions { return Collisions{pool: p} }

// Add adds a range.
func (c *Collisions) Add(r addr.Range, why string) {
	first, last := addr.Nth(c.pool.CIDR, r.Start), addr.Nth(c.pool.CIDR, r.End-1)
	if n := len(c.List); n > 0 && c.List[n-1].Why == why && c.List[n-1].Last.Next() == first {
		c.List[n-1].Last = last
		return
	}
	c.List = append(c.List, call.Collision{First: first, Last: last, Why: why})
}

// AddReserved adds those of a reserved piece that may end while it is to be excluded.
func (c *Collisions) AddReserved(in addr.Range) {
	for _, r := range c.pool.Reserved {
		if part := r.Range.Intersect(in); !part.Empty() && r.Kind != chronicle.KindExcluded && !r.Kind.Fixed() {
			c.Add(part, sentence.Reserved(&r))
		}
	}
}

// Exclude appends what reserves a piece that is free or this peer's, but for what is held there, or kept for a name that has
// it.
func (c *Collisions) Exclude(in addr.Range, note string, actions []chronicle.Action) []chronicle.Action {
	for _, r := range c.pool.Reserved {
		if r.Range.Overlaps(in) {
			actions = c.excludeFree(addr.Range{Start: in.Start, End: r.Range.Start}, note, actions)
			c.AddReserved(r.Range.Intersect(in))
			in.Start = r.Range.End
		}
	}
	return c.excludeFree(in, note, actions)
}

// excludeFree is Exclude where nothing is reserved.
func (c *Collisions) excludeFree(in addr.Range, note string, actions []chronicle.Action) []chronicle.Action {
	p, from := c.pool, in.Start
	upTo := func(end addr.Offset) {
		if r := (addr.Range{Start: from, End: end}); !r.Empty() {
			excluded := chronicle.Reservation{Range: r, Kind: chronicle.KindExcluded, Note: note}
			actions = append(actions, chronicle.Reserve{Pool: p.Key, Reservation: excluded})
		}
		from = end + 1
	}
	for o, rec := range p.Space.HeldIn(in) {
		if Yields(rec, chronicle.KindExcluded) {
			continue
		}
		upTo(o)
		c.Add(addr.One(o), "is held by "+p.of.HolderText(rec.Holder, rec.Since))
	}
	upTo(in.End)
	return actions
}

// Unreserving returns what ends the reservations of that kind in a range, and how many addresses that frees. What they have
// outside of it stays reserved.
func (p *Pool) Unreserving(in addr.Range, kind chronicle.Kind) (actions []chronicle.Action, n uint64) {
	for _, r := range p.Reserved {
		if cut := r.Range.Intersect(in); r.Kind == kind && !cut.Empty() {
			n += uint64(cut.Size())
			actions = append(actions, chronicle.Unreserve{Pool: p.Key, Range: cut, Kind: kind})
		}
	}
	return actions, n
}

// Stretch returns the range from one address to another, or why an operator cannot mean it.
func (p *Pool) Stretch(first, last netip.Addr) (addr.Range, error) {
	start, ok := addr.OffsetOf(p.CIDR, first)
	if !ok {
		return addr.Range{}, sentence.AddressOutside(p.CIDR, first)
	}
	end, ok := addr.EndOf(p.CIDR, last)
	if !ok {
		return addr.Range{}, sentence.AddressOutside(p.CIDR, last)
	}
	if end <= start {
		return addr.Range{}, sentence.Errorf(sentence.ErrBadRequest, "%v is after %v: write the range the other way round", first, last)
	}
	return addr.Range{Start: start, End: end}, nil
}

// ErrFull says why no address is left in a range, which the network calls rng. drains says that this peer takes no more
// space.
func (p *Pool) ErrFull(want addr.Range, rng netip.Prefix, drains bool) error {
	if rec := p.Space.Lookup(want.Start); want.Size() == 1 && rec.State == space.Held {
		return sentence.OnlyAddressHeld(p.of.Name, p.Pool, rng, rec.Holder, rec.Since, p.EndOf(want.Start, rec.Holder, rec.Since))
	}
	var held, reserved, elsewhere, lost addr.Count
	for r, t := range p.Ring.Within(want) {
		switch t.Owner {
		case ring.Reserved:
			reserved += r.Size()
		case p.of.Me.ID():
			here := p.Space.CountHeld(r)
			held += here
			elsewhere += r.Size() - here - p.Space.FreeIn(r) // on its way to others
		case ring.Free:
			if drains {
				return sentence.Draining(p.of.Name, p.Pool)
			}
		default:
			if p.of.State.Member(t.Owner) == nil {
				lost += r.Size()
				break
			}
			elsewhere += r.Size()
		}
	}
	var gateways addr.Count
	if p.HasGateway && want.Contains(p.Gateway) {
		held, gateways = held-1, 1
	}
	return sentence.PoolFull(p.Pool, rng, held, gateways, elsewhere, lost, reserved, want.Size())
}
