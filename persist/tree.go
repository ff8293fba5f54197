package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
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

// trees is a file in which bbolt's own check found nothing wrong.
type trees struct {
	image    []byte
	pageSize uint64
}

// page is one with those that it goes on in, or the inline leaf of a bucket.
type page []byte

// checkTrees finds what bbolt's own check passes over, and what makes bbolt destroy the file, or die of it, when it writes:
//   - A branch that names a child by another key than the first that the child has. bbolt would look for that first one
//     to replace the child by its successor, not find it, and keep both, one of them on a page that is free.
//   - An inline leaf that says that it has a page of its own, which bbolt would free when the bucket grows, or that is
//     none: bbolt does not look at these at all.
//   - A record that says that it is a bucket.
//   - A page that goes on in more pages than it needs, which are free or behind the end, and which bbolt would free with it.
//   - Entries that are not one behind the other, as bbolt writes them.
func checkTrees(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	meta, err := newestMetaPage(f, info.Size())
	if err != nil {
		return err
	}
	image, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map %s: %w", f.Name(), err)
	}
	t := trees{image, uint64(meta.u32(offPageSize))}
	return errors.Join(t.check(meta.u64(offRoot), true), unix.Munmap(image))
}

// check checks a page and all that is below it: of the root, whose entries are the buckets, or of a bucket, in which there
// are no others.
func (t trees) check(id uint64, root bool) error {
	p := t.page(id)
	end, err := p.check()
	if err != nil {
		return fmt.Errorf("%w: its page %d %w", ErrDamaged, id, err)
	}
	if need := uint64(end-1) / t.pageSize; uint64(p.following()) != need {
		return fmt.Errorf("%w: its page %d goes on for %d pages and needs %d", ErrDamaged, id, p.following(), need)
	}
	for i := range p.count() {
		var err error
		switch {
		case p.kind() == branchKind:
			err = t.checkChild(id, i, root)
		case root && !p.isBucket(i):
			err = fmt.Errorf("%w: its page %d has a record, %x, among buckets", ErrDamaged, id, p.key(i))
		case !root && p.isBucket(i):
			err = fmt.Errorf("%w: its page %d has a bucket, %x, among records", ErrDamaged, id, p.key(i))
		case root:
			err = t.checkBucket(p.key(i), p.value(i))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkChild checks what a branch has under its key with that number.
func (t trees) checkChild(branch uint64, i int, root bool) error {
	id, key := t.page(branch).child(i), t.page(branch).key(i)
	if err := t.check(id, root); err != nil {
		return err
	}
	if p := t.page(id); p.count() == 0 || !bytes.Equal(p.key(0), key) {
		return fmt.Errorf("%w: its page %d has page %d under key %x, with which that does not begin", ErrDamaged, branch, id, key)
	}
	return nil
}

func (t trees) checkBucket(name, value []byte) error {
	if len(value) < bucketValue {
		return fmt.Errorf("%w: its bucket %q has %d bytes", ErrDamaged, name, len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return t.check(root, false)
	}
	if err := page(value[bucketValue:]).checkInline(); err != nil {
		return fmt.Errorf("%w: the inline leaf of its bucket %q %w", ErrDamaged, name, err)
	}
	return nil
}

// checkInline checks an inline leaf. The error says what it does.
func (p page) checkInline() error {
	end, err := p.check()
	switch {
	case err != nil:
		return err
	case end != len(p):
		return fmt.Errorf("has %d bytes and needs %d", len(p), end)
	case p.kind() != leafKind:
		return fmt.Errorf("is of kind %#x", p.kind())
	case p.id() != 0:
		return fmt.Errorf("says that it is page %d", p.id())
	}
	for i := range p.count() {
		if p.isBucket(i) {
			return fmt.Errorf("has a bucket, %x, among records", p.key(i))
		}
	}
	return nil
}

// page returns a page that bbolt's own check has read.
func (t trees) page(id uint64) page {
	p := page(t.image[id*t.pageSize:])
	return p[:min(uint64(len(p)), (1+uint64(p.following()))*t.pageSize)]
}

// check finds entries that are not where they should be, and returns where the last one ends. The error says what the
// page does.
func (p page) check() (end int, err error) {
	if len(p) < pageHeader {
		return 0, fmt.Errorf("has %d bytes", len(p))
	}
	at := pageHeader + entrySize*p.count()
	if at > len(p) {
		return 0, fmt.Errorf("has no room for its %d keys", p.count())
	}
	for i := range p.count() {
		place, key, value := p.places(i)
		if place != at {
			return 0, fmt.Errorf("has key %d of %d at byte %d instead of %d", i+1, p.count(), place, at)
		}
		at += key + value
	}
	return at, nil
}

func (p page) id() uint64        { return binary.NativeEndian.Uint64(p) }
func (p page) kind() uint16      { return binary.NativeEndian.Uint16(p[8:]) }
func (p page) count() int        { return int(binary.NativeEndian.Uint16(p[10:])) }
func (p page) following() uint32 { return binary.NativeEndian.Uint32(p[12:]) }

// u32 returns the number that is so many bytes behind the beginning of an entry.
func (p page) u32(i, off int) int {
	return int(binary.NativeEndian.Uint32(p[pageHeader+entrySize*i+off:]))
}

func (p page) isBucket(i int) bool { return p.u32(i, 0)&bucketFlag != 0 }

func (p page) child(i int) uint64 {
	return binary.NativeEndian.Uint64(p[pageHeader+entrySize*i+8:])
}

// places returns where in the page a key is, and how many bytes the key has and the value behind it.
func (p page) places(i int) (place, key, value int) {
	place = pageHeader + entrySize*i
	if p.kind() == branchKind {
		return place + p.u32(i, 0), p.u32(i, 4), 0
	}
	return place + p.u32(i, 4), p.u32(i, 8), p.u32(i, 12)
}

func (p page) key(i int) []byte {
	place, key, _ := p.places(i)
	return p[place:][:key]
}

func (p page) value(i int) []byte {
	place, key, value := p.places(i)
	return p[place+key:][:value]
}
