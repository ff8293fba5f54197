package boltfile

// pageSet is a set of pages of a file that has so many.
type pageSet struct {
	pages uint64
	bits  []uint64
}

func newPageSet(pages uint64) pageSet { return pageSet{pages, make([]uint64, pages/64+1)} }

// add reports whether the page was not in the set.
func (s pageSet) add(id uint64) bool {
	word, bit := &s.bits[id/64], uint64(1)<<(id%64)
	isNew := *word&bit == 0
	*word |= bit
	return isNew
}

// missing returns the first page that is not in the set, and whether there is any.
func (s pageSet) missing() (id uint64, is bool) {
	for id := range s.pages {
		if s.bits[id/64]&(1<<(id%64)) == 0 {
			return id, true
		}
	}
	return 0, false
}
