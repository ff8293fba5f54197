package boltfile

import (
	"encoding/binary"
	"errors"
	"hash/fnv"
	"io"
	"math/bits"
	"slices"
)

// The form of a meta page, see the package comment.
const (
	metaStart   = 16
	metaSize    = 64
	metaMagic   = 0xED0CDAED
	metaVersion = 2

	minPageSize = 1 << 10 // of those that bbolt looks for
	maxPageSize = 1 << 24

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
		err = damaged("its meta pages, of transactions %d and %d, have changed places", page[0].txid(), page[1].txid())
	case ok0 && ok1:
		if page[0].u32(offPageSize) != page[1].u32(offPageSize) {
			err = damaged("its meta pages say that pages have %d and %d bytes", page[0].u32(offPageSize), page[1].u32(offPageSize))
		} else if d := page[1].txid() - page[0].txid(); d != 1 && d != ^uint64(0) {
			err = damaged("its meta pages are of transactions %d and %d, which do not follow each other", page[0].txid(), page[1].txid())
		}
	case ok0:
		err = checkTorn(page[1], page[0], size)
	case ok1:
		err = checkTorn(page[0], page[1], size)
	default:
		err = damaged("it has no valid meta page, so it is no database or its beginning is lost")
	}
	if err != nil {
		return metaPage{}, freeList{}, err
	}
	last := newest(page)
	pageSize, pages := uint64(last.u32(offPageSize)), last.u64(offEndPage)
	if hi, need := bits.Mul64(pages, pageSize); hi != 0 || need > uint64(size) {
		return metaPage{}, freeList{}, damaged("it was cut short: it has %d bytes and needs %d pages of %d bytes", size, pages, pageSize)
	}
	list, err := readFreeList(f, last.u64(offFreeList), pageSize, pages)
	return last, list, err
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
	lost := damaged("the meta page beside transaction %d is broken, which may have been the last commit", good.txid())
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
