package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// bbolt keeps each bucket as a tree of pages. Behind a page header as that of the list of free pages, a page has an entry
// of 16 bytes for each of its keys:
//
//	of a branch:  place of the key 4 | size of the key 4 | page of the child 8
//	of a leaf:    flags 4 | place of the key 4 | size of the key 4 | size of the value 4
//
// The place counts from where the entry begins, and a value follows its key. That of a bucket begins with its root page
// and a number that nothing here uses, 8 bytes each. A small bucket has root page 0, and its one leaf follows inline.
const (
	branchKind  = 0x01
	leafKind    = 0x02
	bucketFlag  = 0x01
	bucketValue = 16
	entrySize   = 16
)

// trees are the trees of a file of which nothing is believed but its last meta page.
//
// bbolt has a check of its own, which this is instead of. That one believes in turn what it has not checked yet, so that a
// damaged file may end the process, and it passes over much that makes bbolt destroy the file, or die of it, when it
// writes: a branch that names a child by another key than the first that the child has; a page that goes on in more pages
// than it needs; a record that says that it is a bucket; an inline leaf that says that it has a page of its own. bbolt
// writes a page in one way only, so whatever deviates from that, and means something, is damage here.
type trees struct {
	pages *pageReader
	meta  metaPage
	met   pageSet // the pages that something has, or that are free
}

// newTrees returns the trees of the file with that meta page and list of free pages.
func newTrees(f io.ReaderAt, meta metaPage, list freeList) trees {
	end := meta.u64(offEndPage)
	t := trees{pages: &pageReader{file: f, size: uint64(meta.u32(offPageSize)), end: end}, meta: meta, met: newPageSet(end)}
	for _, ids := range [][]uint64{{0, 1}, list.own, list.free} {
		for _, id := range ids {
			t.met.add(id)
		}
	}
	return t
}

// checkLeft finds a page that is neither in use nor free when all trees have been read.
func (t trees) checkLeft() error {
	if t.meta.u64(offFreeList) == noFreeList {
		return nil
	}
	if id, is := t.met.missing(); is {
		return damagedPage(id, errors.New("is neither in use nor free"))
	}
	return nil
}

// page is one with those that it goes on in, or the inline leaf of a bucket.
type page []byte

// tree is one that is being read, from its first key to its last.
type tree struct {
	trees
	leaf  func(page) error // is called with each leaf
	last  []byte           // the last key of the last leaf, empty if there was none
	depth int              // of all leaves, in pages; 0 until one is met
}

// maxDepth is more pages than any tree of bbolt has from its root to a leaf, as each branch has two children at least.
const maxDepth = 64

// read reads the tree below a page, and calls leaf with each of its leaves, in order, as soon as that is known to be sound.
func (t trees) read(root uint64, leaf func(page) error) error {
	_, err := (&tree{trees: t, leaf: leaf}).read(root, 1)
	return err
}

// read reads a page and all that is below it. The keys of branches follow one another if those of leaves do, as each is
// the first key of a leaf. depth is that of the page, which is valid until the next one is read.
func (t *tree) read(id uint64, depth int) (page, error) {
	p, err := t.take(id)
	if err != nil {
		return nil, err
	}
	switch p.kind() {
	case branchKind:
		p = slices.Clone(p) // others are read before all of it is
		return p, t.readBranch(p, depth)
	case leafKind:
		return p, t.readLeaf(p, depth)
	}
	return nil, damagedPage(id, fmt.Errorf("is of kind %#x", p.kind()))
}

func (t *tree) readBranch(p page, depth int) error {
	if p.count() < 2 || depth == maxDepth {
		return damagedPage(p.id(), fmt.Errorf("is a branch with %d children, %d pages deep", p.count(), depth))
	}
	for i := range p.count() {
		child, err := t.read(p.child(i), depth+1)
		if err != nil {
			return err
		}
		if child.count() == 0 || !bytes.Equal(child.key(0), p.key(i)) {
			return damagedPage(p.id(), fmt.Errorf("has page %d under key %x, with which that does not begin", child.id(), p.key(i)))
		}
	}
	return nil
}

func (t *tree) readLeaf(p page, depth int) error {
	if t.depth == 0 {
		t.depth = depth
	}
	if t.depth != depth {
		return damagedPage(p.id(), fmt.Errorf("is a leaf that is %d pages deep, where others are %d", depth, t.depth))
	}
	if n := p.count(); n > 0 {
		if key := p.key(0); len(t.last) > 0 && bytes.Compare(t.last, key) >= 0 {
			return damagedPage(p.id(), fmt.Errorf("begins with key %x behind key %x", key, t.last))
		}
		t.last = append(t.last[:0], p.key(n-1)...)
	}
	return t.leaf(p)
}

// take returns a page, which is in use then. It is valid until the next one is taken.
func (t trees) take(id uint64) (page, error) {
	if id >= t.met.pages {
		return nil, damagedPage(id, errors.New("is behind the end of the file"))
	}
	p, err := t.pages.read(id, 1)
	if err != nil {
		return nil, err
	}
	more := uint64(p.following())
	if more >= t.met.pages-id {
		return nil, damagedPage(id, fmt.Errorf("goes on for %d pages, behind the end of the file", more))
	}
	for i := id; i <= id+more; i++ {
		if !t.met.add(i) {
			return nil, damagedPage(i, errors.New("is in use twice, or free and in use"))
		}
	}
	if more > 0 {
		if p, err = t.pages.read(id, 1+more); err != nil {
			return nil, err
		}
	}
	switch end, err := p.check(); {
	case p.id() != id:
		return nil, damagedPage(id, fmt.Errorf("says that it is page %d", p.id()))
	case err != nil:
		return nil, damagedPage(id, err)
	case more != uint64(end-1)/t.pages.size:
		return nil, damagedPage(id, fmt.Errorf("goes on for %d pages and needs %d", more, uint64(end-1)/t.pages.size))
	}
	return p, nil
}

// damagedPage is the error for a page of which err says what it does.
func damagedPage(id uint64, err error) error {
	return fmt.Errorf("%w: its page %d %w", ErrDamaged, id, err)
}

// checkInline checks an inline leaf. The error says what it does.
func (p page) checkInline() error {
	switch end, err := p.check(); {
	case err != nil:
		return err
	case end != len(p):
		return fmt.Errorf("has %d bytes and needs %d", len(p), end)
	case p.kind() != leafKind:
		return fmt.Errorf("is of kind %#x", p.kind())
	case p.id() != 0:
		return fmt.Errorf("says that it is page %d", p.id())
	}
	return nil
}

// check finds entries that are not where they should be, one behind the other in order of their keys, and returns where
// the last one ends. The error says what the page does.
func (p page) check() (end int, err error) {
	if len(p) < pageHeader {
		return 0, fmt.Errorf("has %d bytes", len(p))
	}
	n := p.count()
	at := pageHeader + entrySize*n
	if at > len(p) {
		return 0, fmt.Errorf("has no room for its %d keys", n)
	}
	var last []byte
	for i := range n {
		place, size, value := p.places(i)
		if place != at {
			return 0, fmt.Errorf("has key %d of %d at byte %d instead of %d", i+1, n, place, at)
		}
		if at += size + value; at > len(p) {
			return 0, fmt.Errorf("has no room for key %d of %d", i+1, n)
		}
		key := p[place:][:size]
		if size == 0 {
			return 0, errors.New("has a key of no bytes")
		}
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return 0, fmt.Errorf("has key %x behind key %x", key, last)
		}
		last = key
	}
	return at, nil
}

func (p page) id() uint64        { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16      { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int        { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) following() uint32 { return binary.NativeEndian.Uint32(p[12:]) }

// child returns the page below a branch under its key with that number.
func (p page) child(i int) uint64 {
	return binary.NativeEndian.Uint64(p[pageHeader+entrySize*i+8:])
}

// places returns where in the page a key is, and how many bytes the key has and the value behind it.
func (p page) places(i int) (place, key, value int) {
	place = pageHeader + entrySize*i
	e := p[place:][:entrySize]
	first, second := int(binary.NativeEndian.Uint32(e)), int(binary.NativeEndian.Uint32(e[4:]))
	if p.kind() == branchKind {
		return place + first, second, 0
	}
	return place + second, int(binary.NativeEndian.Uint32(e[8:])), int(binary.NativeEndian.Uint32(e[12:]))
}

func (p page) key(i int) []byte {
	place, key, _ := p.places(i)
	return p[place:][:key]
}

// entry returns what a leaf has under its key with that number, and whether that is a bucket.
func (p page) entry(i int) (isBucket bool, key, value []byte) {
	place, size, more := p.places(i)
	both := slices.Clip(p[place:][:size+more])
	flags := binary.NativeEndian.Uint32(p[pageHeader+entrySize*i:])
	return flags&bucketFlag != 0, both[:size:size], both[size:]
}

// entries returns what a sound leaf has under its keys, to be gone through from the first to the last.
func (p page) entries() leafEntries {
	at := pageHeader + entrySize*p.count()
	return leafEntries{heads: p[pageHeader:at], rest: p[at:]}
}

// leafEntries are entries of a leaf, of which it is known that they lie one behind the other: there may be very many, and
// where each is need not be worked out anew.
type leafEntries struct {
	heads, rest []byte // of those that are left
}

// more reports whether there are any.
func (l *leafEntries) more() bool { return len(l.heads) >= entrySize }

// next returns the next one: the key with the value behind it, and the length of the key.
func (l *leafEntries) next() (isBucket bool, both []byte, key int) {
	e := (*[entrySize]byte)(l.heads)
	key = int(binary.NativeEndian.Uint32(e[8:]))
	n := key + int(binary.NativeEndian.Uint32(e[12:]))
	both = l.rest[:n:n]
	l.heads, l.rest = l.heads[entrySize:], l.rest[n:]
	return binary.NativeEndian.Uint32(e[:])&bucketFlag != 0, both, key
}

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
