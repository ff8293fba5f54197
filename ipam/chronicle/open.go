package chronicle

import (
	"iter"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/table"
)

func (s *State) open(author peer.ID, a Open) (got addr.Range, refused string) {
	p, refused := s.poolFor(author, a.Pool)
	switch {
	case refused != "":
		return addr.Range{}, refused
	case a.Size == 0:
		return addr.Range{}, "it asks for nothing"
	}
	block := s.bestFree(p, author, a.Range, a.Size)
	if block.Empty() {
		return addr.Range{}, "nothing in that range is free"
	}
	p.Ring.Assign(block, author, ring.Version(s.Slot))
	return block, ""
}

// bestFree returns, of the free aligned blocks of the size in want, or of the
// largest smaller size that there is, the one that ranks best for the author;
// the first of those that rank alike.
func (s *State) bestFree(p *Pool, author peer.ID, want addr.Range, size addr.Count) addr.Range {
	size = addr.FloorPow2(size)
	var largest addr.Count
	for part, t := range p.Ring.Within(want) {
		if t.Owner == ring.Free {
			largest = max(largest, part.LargestBlock(size).Size())
		}
	}
	if largest == 0 {
		return addr.Range{}
	}
	stay, drain := s.ranked()
	self := table.Peer{ID: author, Zone: s.ZoneOf(author)}
	var best addr.Range
	bestRank := len(s.Roster)
	for part, t := range p.Ring.Within(want) {
		if t.Owner != ring.Free {
			continue
		}
		// All blocks that start in one row rank alike: the first stands for all.
		for b := firstBlock(part, part.Start, largest); !b.Empty(); b = firstBlock(part, max(b.End, p.Table.Row(b.Start).End), largest) {
			var rank int
			if slices.Contains(drain, self) {
				rank = len(stay) + p.Table.Rank(b.Start, self, drain)
			} else {
				rank = p.Table.Rank(b.Start, self, stay)
			}
			if rank < bestRank {
				best, bestRank = b, rank
			}
			if rank == 0 {
				return best
			}
		}
	}
	return best
}

// ranked returns the peers of the roster that the table ranks first, and
// those that drain and rank after all others.
func (s *State) ranked() (stay, drain []table.Peer) {
	for _, m := range s.Roster {
		p := table.Peer{ID: m.ID, Zone: m.Zone}
		if m.Phase == Draining {
			drain = append(drain, p)
		} else {
			stay = append(stay, p)
		}
	}
	return stay, drain
}

// Ranked is a peer that a table ranks.
type Ranked = table.Peer

// Row is a row of a pool's table, with the first two of the peers that it ranks.
type Row struct {
	addr.Range
	Primary, Secondary Ranked // zero where there is none
}

// Rows yields the rows of a pool's table from the one that holds an offset on.
func (s *State) Rows(p *Pool, from addr.Offset) iter.Seq[Row] {
	return func(yield func(Row) bool) {
		stay, drain := s.ranked()
		for end := addr.Offset(p.Ring.Size()); from < end; {
			row := Row{Range: p.Table.Row(from)}
			row.End = min(row.End, end)
			row.Primary, row.Secondary = p.Table.Leaders(from, stay)
			if row.Secondary == (table.Peer{}) { // peers that drain come last
				first, second := p.Table.Leaders(from, drain)
				if row.Primary == (table.Peer{}) {
					row.Primary, first = first, second
				}
				row.Secondary = first
			}
			if from = row.End; !yield(row) {
				return
			}
		}
	}
}

// firstBlock returns the first aligned block of the size, a power of two, in
// part at or after from; an empty range if there is none.
func firstBlock(part addr.Range, from addr.Offset, size addr.Count) addr.Range {
	mask := addr.Offset(size) - 1
	start := (max(from, part.Start) + mask) &^ mask
	if start < from || start >= part.End || addr.Count(part.End-start) < size {
		return addr.Range{}
	}
	return addr.Range{Start: start, End: start + addr.Offset(size)}
}
