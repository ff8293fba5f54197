package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/bits"
	"slices"
)

// A bbolt file begins with two meta pages. Each transaction overwrites the one that the previous one left alone, so
// their numbers differ by one. Behind the 16 bytes of a page header lies, in the byte order of the machine:
//
//	magic 4 | version 4 | page size 4 | flags 4 | root page 8 | sequence 8 | free list 8 | end page 8 | txid 8 | checksum 8
//
// The checksum is FNV-1a over what is before it. The file has "end page" pages. The list of free pages is in the page
// "free list" and those that follow it, in ascending order, with their number first if that is 65,535 or more:
//
//	page 8 | kind 2 | number of free pages 2 | number of following pages 4 | number of each free page 8
const (
	metaStart   = 16
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2

	minPageSize = 1 << 10 // of those that bbolt looks for
	maxPageSize = 1 << 24

	pageHeader   = 16
	freeListKind = 0x10
	manyFree     = 0xffff
	noFreeList   = ^uint64(0) // of a file that an earlier version of this package wrote

	offPageSize = 8
	offRoot     = 16
	offSequence = 24
	offFreeList = 32
	offEndPage  = 40
	offTxid     = 48
	offChecksum = 56
)

// metaPage is the content of a meta page, without the page header.
type metaPage [metaSize]byte

func (m *metaPage) u32(off int) uint32 { return binary.NativeEndian.Uint32(m[off:]) }
func (m *metaPage) u64(off int) uint64 { return binary.NativeEndian.Uint64(m[off:]) }
func (m *metaPage) txid() uint64       { return m.u64(offTxid) }

// place is where in the file it belongs.
func (m *metaPage) place() int64 {
	return int64(m.txid()%2)*int64(m.u32(offPageSize)) + metaStart
}

func (m *metaPage) valid() bool {
	h := fnv.New64a()
	h.Write(m[:offChecksum])
	size := m.u32(offPageSize)
	return m.u32(0) == metaMagic && m.u32(4) == metaVersion && m.u64(offChecksum) == h.Sum64() &&
		minPageSize <= size && size <= maxPageSize && bits.OnesCount32(size) == 1
}

// readMeta returns the meta page of the last commit and the list of free pages. It finds in the two meta pages what bbolt
// passes over in silence, so that it cannot fall back to an older state than the last commit, and what would kill it: a
// file that is shorter than its pages.
func readMeta(f io.ReaderAt, size int64) (metaPage, freeList, error) {
	page, err := readMetaPages(f, size)
	if err != nil {
		return metaPage{}, freeList{}, err
	}
	ok0, ok1 := page[0].valid(), page[1].valid()
	switch {
	case ok0 && page[0].txid()%2 != 0 || ok1 && page[1].txid()%2 != 1:
		err = fmt.Errorf("%w: its meta pages, of transactions %d and %d, have changed places", ErrDamaged, page[0].txid(), page[1].txid())
	case ok0 && ok1:
		if page[0].u32(offPageSize) != page[1].u32(offPageSize) {
			err = fmt.Errorf("%w: its meta pages say that pages have %d and %d bytes",
				ErrDamaged, page[0].u32(offPageSize), page[1].u32(offPageSize))
		} else if d := page[1].txid() - page[0].txid(); d != 1 && d != ^uint64(0) {
			err = fmt.Errorf("%w: its meta pages are of transactions %d and %d, which do not follow each other",
				ErrDamaged, page[0].txid(), page[1].txid())
		}
	case ok0:
		err = checkTorn(page[1], page[0], size)
	case ok1:
		err = checkTorn(page[0], page[1], size)
	default:
		err = fmt.Errorf("%w: it has no valid meta page, so it is no database or its beginning is lost", ErrDamaged)
	}
	if err != nil {
		return metaPage{}, freeList{}, err
	}
	last := newest(page)
	pageSize, pages := uint64(last.u32(offPageSize)), last.u64(offEndPage)
	if hi, need := bits.Mul64(pages, pageSize); hi != 0 || need > uint64(size) {
		return metaPage{}, freeList{}, fmt.Errorf("%w: it was cut short: it has %d bytes and needs %d pages of %d bytes",
			ErrDamaged, size, pages, pageSize)
	}
	list, err := readFreeList(f, last.u64(offFreeList), pageSize, pages)
	return last, list, err
}

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
		return freeList{}, fmt.Errorf("%w: its list of free pages in page %d %s", ErrDamaged, list, what)
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

// newest returns the later one of two meta pages, of which one is valid at least.
func newest(page [2]metaPage) metaPage {
	if !page[0].valid() || page[1].valid() && page[1].txid() > page[0].txid() {
		return page[1]
	}
	return page[0]
}

// readMetaPages reads both meta pages. The place of the second depends on the page size, which either may tell.
func readMetaPages(f io.ReaderAt, size int64) (page [2]metaPage, err error) {
	if page[0], err = readMetaPage(f, 0); err != nil {
		return page, err
	}
	if page[0].valid() {
		page[1], err = readMetaPage(f, int64(page[0].u32(offPageSize)))
		return page, err
	}
	for at := int64(minPageSize); at <= maxPageSize && at < size; at <<= 1 {
		m, err := readMetaPage(f, at)
		if err != nil {
			return page, err
		}
		if m.valid() && int64(m.u32(offPageSize)) == at {
			page[1] = m
			return page, nil
		}
	}
	return page, nil
}

// readMetaPage reads the meta page at an offset. Behind the end of the file it finds zeros, which are not valid.
func readMetaPage(f io.ReaderAt, at int64) (m metaPage, err error) {
	if _, err := f.ReadAt(m[:], at+metaStart); err != nil && !errors.Is(err, io.EOF) {
		return metaPage{}, err
	}
	return m, nil
}

// checkTorn decides whether the invalid page broken is what a power cut left of a write: bytes of the meta page of
// the transaction after good, then bytes of the one before good. Then good is the last commit. Everything else is
// damage, as broken may have been the last commit. Disks write sectors whole, so even the torn page is rare.
func checkTorn(broken, good metaPage, size int64) error {
	lost := fmt.Errorf("%w: the meta page beside transaction %d is broken, which may have been the last commit",
		ErrDamaged, good.txid())
	var older, newer [8]byte
	binary.NativeEndian.PutUint64(older[:], good.txid()-1)
	binary.NativeEndian.PutUint64(newer[:], good.txid()+1)
	for i := range 8 {
		if b := broken[offTxid+i]; b != older[i] && b != newer[i] {
			return lost
		}
	}
	// These never change.
	if !slices.Equal(broken[:offRoot], good[:offRoot]) ||
		!slices.Equal(broken[offSequence:offFreeList], good[offSequence:offFreeList]) {
		return lost
	}
	// The free list is a page of the file, or there is none, or some bytes are of one and some of the other.
	list, pages := broken.u64(offFreeList), uint64(size)/uint64(good.u32(offPageSize))
	for shift := (bits.Len64(pages) + 7) / 8 * 8; shift < 64; shift += 8 {
		if b := byte(list >> shift); b != 0 && b != 0xff {
			return lost
		}
	}
	// A page that one bit turns into the next transaction was that transaction.
	for bit := range metaSize * 8 {
		fixed := broken
		fixed[bit/8] ^= 1 << (bit % 8)
		if fixed.valid() && fixed.txid() == good.txid()+1 {
			return lost
		}
	}
	return nil
}
