package boltfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
)

// trees are the trees of a file of which nothing is believed but its last meta page.
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
	return damaged("its page %d %w", id, err)
}
