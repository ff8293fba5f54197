package trade

import (
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// NoteMove notes the range that a command has moved from one owner to another.
func (t *Trade) NoteMove(p *chronicle.Pool, o chronicle.Outcome) {
	author := o.Command.Author
	switch a := o.Command.Action.(type) {
	case chronicle.Open:
		t.note(p, o.Range, ring.Free, author)
		t.moves(p, author, o.Range.Size(), 0)
	case chronicle.Close:
		t.note(p, a.Range, author, ring.Free)
		t.moves(p, author, 0, a.Range.Size())
	case chronicle.Give:
		t.note(p, a.Range, author, a.To)
		t.moves(p, author, 0, a.Range.Size())
		t.moves(p, a.To, a.Range.Size(), 0)
	case chronicle.Borrow:
		t.note(p, addr.One(a.At), ring.Reserved, author)
	case chronicle.Reserve:
		if p.Ring.Owns(ring.Reserved, a.Range) { // an address that is kept for a name may have stayed with its owner
			rest := a.Range
			for _, own := range o.Own {
				t.note(p, addr.Range{Start: rest.Start, End: own.Start}, ring.Free, ring.Reserved)
				t.note(p, own, author, ring.Reserved)
				t.moves(p, author, 0, own.Size())
				rest.Start = own.End
			}
			t.note(p, rest, ring.Free, ring.Reserved)
		}
	case chronicle.Unreserve:
		t.NoteFreed(p, a.Range)
	}
}

// NoteFreed notes a range whose reservation has ended, unless an owner has it still that it was lent to.
func (t *Trade) NoteFreed(p *chronicle.Pool, r addr.Range) {
	if p.Ring.Owns(ring.Free, r) {
		t.note(p, r, ring.Reserved, ring.Free)
	}
}

func (t *Trade) note(p *chronicle.Pool, r addr.Range, from, to peer.ID) {
	if r.Empty() {
		return
	}
	n := effect.Note{
		Kind: effect.NoteMoved, Pool: p.CIDR, Address: addr.Nth(p.CIDR, r.Start), Last: addr.Nth(p.CIDR, r.End-1),
		From: t.ownerName(from), To: t.ownerName(to),
	}
	// What was excluded at once is reserved in the pieces in which others gave it, and ends in them: that is one event.
	if last := t.out.LastNote(); last != nil && last.Kind == n.Kind && last.Pool == n.Pool && last.From == n.From &&
		last.To == n.To && last.Last.Next() == n.Address {
		last.Last = n.Last
		return
	}
	*t.out.Note() = n
}

// ownerName names the owner of a range.
func (t *Trade) ownerName(id peer.ID) string {
	switch id {
	case ring.Free:
		return "free"
	case ring.Reserved:
		return "reserved"
	}
	return t.peers.NameOf(id)
}
