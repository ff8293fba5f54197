package space

import (
	"iter"
	"math/bits"
	"slices"

	"github.com/ringlet/ringlet/ipam/addr"
)

// pageLen is the number of addresses of a page: the bits of a word. A page is
// 284 bytes, 4.4 an address where all are used; a lone address far from all
// others costs a page.
const (
	pageBits = 6
	pageLen  = 1 << pageBits
)

// page leads from addresses to their records. Only pages with a record exist.
type page struct {
	base addr.Offset // first address, a multiple of pageLen
	used uint64      // bit i: there is a record of base+i
	held uint64      // bit i: and base+i is held
	rec  [pageLen]uint32
	self uint32 // index of the page
}

// state returns the state of o, an address of the page. No page at all, nil, is
// one in which nothing is used.
func (p *page) state(o addr.Offset) State {
	switch bit := uint64(1) << (o % pageLen); {
	case p == nil || p.used&bit == 0:
		return Unused
	case p.held&bit == 0:
		return Freed
	}
	return Held
}

// mask returns the bits of the page that stand for addresses in r.
func (p *page) mask(r addr.Range) uint64 {
	m := ^uint64(0)
	if r.Start > p.base {
		if r.Start-p.base >= pageLen {
			return 0
		}
		m <<= r.Start - p.base
	}
	if r.End <= p.base {
		return 0
	}
	if n := r.End - p.base; n < pageLen {
		m &= 1<<n - 1
	}
	return m
}

// pages is the set of all pages.
type pages struct {
	all   []*page                // by index; nil where there is none
	last  *page                  // used last, for use comes in runs; nil if there is none
	dir   map[addr.Offset]uint32 // by base
	spare []uint32               // indexes without a page
	// order holds the bases of all pages, perhaps also of some that are gone,
	// for walks over wide ranges. It ascends if sorted is set.
	order  []addr.Offset
	sorted bool
}

func baseOf(o addr.Offset) addr.Offset { return o &^ (pageLen - 1) }

// find returns the page of o, or nil.
func (ps *pages) find(o addr.Offset) *page {
	base := baseOf(o)
	if p := ps.last; p != nil && p.base == base {
		return p
	}
	i, ok := ps.dir[base]
	if !ok {
		return nil
	}
	ps.last = ps.all[i]
	return ps.last
}

// add returns the page of o, a new one if there is none.
func (ps *pages) add(o addr.Offset) *page {
	if p := ps.find(o); p != nil {
		return p
	}
	p := &page{base: baseOf(o)}
	if n := len(ps.spare); n > 0 {
		p.self = ps.spare[n-1]
		ps.spare = ps.spare[:n-1]
		ps.all[p.self] = p
	} else {
		p.self = uint32(len(ps.all))
		ps.all = append(ps.all, p)
	}
	if ps.dir == nil {
		ps.dir = make(map[addr.Offset]uint32)
		ps.order = make([]addr.Offset, 0, 4)
		ps.all = slices.Grow(ps.all, 3)
	}
	ps.dir[p.base] = p.self
	n := len(ps.order)
	ps.sorted = n == 0 || ps.sorted && ps.order[n-1] < p.base
	ps.order = append(ps.order, p.base)
	if n > 2*len(ps.dir)+pageLen { // mostly bases of pages that are gone
		ps.sort()
	}
	ps.last = p
	return p
}

// drop removes a page in which nothing is used.
func (ps *pages) drop(p *page) {
	delete(ps.dir, p.base)
	ps.all[p.self] = nil
	ps.spare = append(ps.spare, p.self)
	ps.last = nil
}

// sort brings order up to date.
func (ps *pages) sort() {
	ps.order = slices.DeleteFunc(ps.order, func(base addr.Offset) bool {
		_, ok := ps.dir[base]
		return !ok
	})
	slices.Sort(ps.order)
	ps.order = slices.Compact(ps.order) // a page that was dropped and added again
	ps.sorted = true
}

// in yields the pages with addresses in r, in order. The page that was
// yielded may be dropped; otherwise pages must not change meanwhile.
func (ps *pages) in(r addr.Range) iter.Seq[*page] {
	return func(yield func(*page) bool) {
		if r.Empty() || len(ps.dir) == 0 {
			return
		}
		first, last := baseOf(r.Start), baseOf(r.End-1)
		if uint64(last-first)/pageLen < uint64(len(ps.dir)) {
			for n := range uint64(last-first)/pageLen + 1 {
				if i, ok := ps.dir[first+addr.Offset(n*pageLen)]; ok && !yield(ps.all[i]) {
					return
				}
			}
			return
		}
		if !ps.sorted {
			ps.sort()
		}
		from, _ := slices.BinarySearch(ps.order, first)
		for _, base := range ps.order[from:] {
			if base > last {
				return
			}
			if i, ok := ps.dir[base]; ok && !yield(ps.all[i]) {
				return
			}
		}
	}
}

// firstUnused returns the first address in r without a record, or r.End.
func (ps *pages) firstUnused(r addr.Range) addr.Offset {
	for o := r.Start; o < r.End; {
		p := ps.find(o)
		if p == nil {
			return o
		}
		slot := o % pageLen
		if free := ^p.used >> slot; free != 0 {
			return min(o+addr.Offset(bits.TrailingZeros64(free)), r.End)
		}
		if r.End-p.base <= pageLen { // and base+pageLen may not exist
			break
		}
		o = p.base + pageLen
	}
	return r.End
}
