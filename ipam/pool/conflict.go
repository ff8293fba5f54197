package pool

import (
	"net/netip"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
)

// Place is where a conflict about an address is.
func (p *Pool) Place(o addr.Offset) conflict.Place { return conflict.Place{Pool: p.Key, At: o} }

// Dispute notes that h uses an address, since then as far as is known, which is not its to have. ends says what ends that
// use, and other what ends the other one; empty if nothing does.
func (p *Pool) Dispute(o addr.Offset, h space.Holder, since int64, why, ends, other string) {
	p.Disagree(o, p.dispute(h, since, why, ends, other))
}

// dispute says of an address what Dispute does.
func (p *Pool) dispute(h space.Holder, since int64, why, ends, other string) conflict.Conflict {
	if other != "" && other != ends {
		ends += ", or " + other
	}
	return conflict.Conflict{
		Text: "is used by " + p.of.HolderText(h, since) + ", but " + why,
		Who:  sentence.Who(h),
		Same: sentence.Who(h) + ", but " + why,
		Next: ends,
		Host: h.Kind == space.Host,
	}
}

// Disagree notes what cannot both be right about an address, whose text is: "is …, but …". It is noted once, as long as it
// stays the same.
func (p *Pool) Disagree(o addr.Offset, c conflict.Conflict) {
	a := addr.Nth(p.CIDR, o)
	c.Text = a.String() + " in " + sentence.Pool(p.Pool) + " " + c.Text
	if p.of.Conflicts.Tell(p.Place(o), c) {
		*p.of.Out.Note() = effect.Note{Kind: effect.NoteConflict, Pool: p.CIDR, Address: a, Holder: c.Text}
	}
}

// EndOf says what ends that something has an address of this peer.
func (p *Pool) EndOf(o addr.Offset, h space.Holder, since int64) string {
	if p.lacksContainer(o, h, since) {
		return sentence.Disconnect(h, p.Stranded[o])
	}
	return sentence.End(h, addr.Nth(p.CIDR, o))
}

// ErrHeld refuses an address that h holds here, since then.
func (p *Pool) ErrHeld(a netip.Addr, h space.Holder, since int64) error {
	if o, _ := addr.OffsetOf(p.CIDR, a); p.lacksContainer(o, h, since) {
		return sentence.AddressLeft(p.of.Name, p.Pool, a, h, since, p.Stranded[o])
	}
	return sentence.AddressHeld(p.of.Name, p.Pool, a, h, since)
}

func (p *Pool) lacksContainer(o addr.Offset, h space.Holder, since int64) bool {
	container, listed := p.Seen[o]
	return sentence.LacksContainer(h, since, container, listed, p.of.Engine.Complete().At)
}

// ForgetHostConflicts forgets the conflicts about addresses that the host itself has no more. No list of an engine may come
// that would.
func (s *Pools) ForgetHostConflicts() {
	for at, c := range s.Conflicts.All() {
		if p := s.all[at.Pool]; c.Host && p != nil && !s.Engine.OnHost(addr.Nth(p.CIDR, at.At)) {
			s.Conflicts.End(at)
		}
	}
}
