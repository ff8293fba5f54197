package boltfile

import (
	"encoding/binary"
	"fmt"
	"io"
)

// The form of a list of free pages, see the package comment.
const (
	freeListKind = 0x10
	manyFree     = 0xffff
	noFreeList   = ^uint64(0) // of a file without one
)

// freeList is the list of free pages, and the pages that it is in itself.
type freeList struct{ free, own []uint64 }

// readFreeList reads the list of free pages, which begins at that page. It finds what bbolt believes without a look: free
// pages that are none of the file's, and an end that is not where the list ends. What else may be wrong with it, that a
// page is in it and in use, or neither, the check of the trees finds.
func readFreeList(f io.ReaderAt, list, pageSize, pages uint64) (freeList, error) {
	if list == noFreeList {
		return freeList{}, nil
	}
	wrong := func(what string) (freeList, error) {
		return freeList{}, damaged("its list of free pages in page %d %s", list, what)
	}
	if list < 2 || list >= pages {
		return wrong("is a meta page, or behind the end of the file")
	}
	head := make([]byte, pageHeader+8)
	if _, err := f.ReadAt(head, int64(list*pageSize)); err != nil {
		return freeList{}, err
	}
	count, more := uint64(binary.NativeEndian.Uint16(head[10:])), uint64(binary.NativeEndian.Uint32(head[12:]))
	if binary.NativeEndian.Uint64(head) != list || binary.NativeEndian.Uint16(head[8:]) != freeListKind {
		return wrong("does not begin as one")
	}
	if more >= pages-list {
		return wrong(fmt.Sprintf("goes on for %d pages, behind the end of the file", more))
	}
	from := uint64(pageHeader)
	if count == manyFree {
		count, from = binary.NativeEndian.Uint64(head[pageHeader:]), pageHeader+8
	}
	if room := ((more+1)*pageSize - from) / 8; count > room {
		return wrong(fmt.Sprintf("has room for %d and should have %d", room, count))
	}
	ids := make([]byte, count*8)
	if _, err := f.ReadAt(ids, int64(list*pageSize+from)); err != nil {
		return freeList{}, err
	}
	l := freeList{free: make([]uint64, 0, count)}
	last := uint64(1) // the meta pages are never free
	for ; len(ids) > 0; ids = ids[8:] {
		id := binary.NativeEndian.Uint64(ids)
		if id <= last || id >= pages || id >= list && id <= list+more {
			return wrong(fmt.Sprintf("has page %d behind page %d", id, last))
		}
		last = id
		l.free = append(l.free, id)
	}
	for id := list; id <= list+more; id++ {
		l.own = append(l.own, id)
	}
	return l, nil
}
