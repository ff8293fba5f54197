package boltfile

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"
)

// Every bit of the list of free pages, in process: bbolt would hand out pages that are in use, or behind the end.
func TestFreeListFlips(t *testing.T) {
	image := madeFile(t)
	at, ids := freePages(t, image)
	if len(ids) < 5 {
		t.Fatalf("the list has %d pages, too few to prove anything", len(ids))
	}
	t.Logf("%d free pages of %d", len(ids), len(image)/os.Getpagesize())
	for bit := range (pageHeader + 8*len(ids)) * 8 {
		image[at+bit/8] ^= 1 << (bit % 8)
		if _, err := hashOf(image); !isDamage(err) {
			t.Errorf("bit %d of byte %d: got %v, want damage", bit%8, bit/8, err)
		}
		image[at+bit/8] ^= 1 << (bit % 8)
	}
}

// A list of free pages that does not fit its file is found before bbolt reads it.
func TestFreeList(t *testing.T) {
	image := madeFile(t)
	at, ids := freePages(t, image)
	meta, _, err := readMeta(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	page := uint64(os.Getpagesize())
	list, pages := uint64(at)/page, uint64(len(image))/page
	put16, put := binary.NativeEndian.PutUint16, binary.NativeEndian.PutUint64
	for name, tt := range map[string]struct {
		list   uint64
		change func(head, ids []byte)
	}{
		"behind the end":       {list: pages},
		"of another page":      {list: meta.u64(offRoot)},
		"longer than its page": {list, func(head, _ []byte) { put16(head[10:], uint16(page/8-1)) }},
		"longer than memory":   {list, func(head, ids []byte) { put16(head[10:], manyFree); put(ids, 1<<61) }},
		"that ends behind the end": {list, func(head, _ []byte) {
			put16(head[10:], 0)
			binary.NativeEndian.PutUint32(head[12:], uint32(pages-list))
		}},
		"with a meta page":  {list, func(_, ids []byte) { put(ids, 1) }},
		"with a page twice": {list, func(_, ids []byte) { copy(ids[8:], ids[:8]) }},
		"with the end page": {list, func(_, b []byte) { put(b[8*len(ids)-8:], pages) }},
		"with itself":       {list, func(head, ids []byte) { put16(head[10:], 1); put(ids, list) }},
	} {
		t.Run(name, func(t *testing.T) {
			b := bytes.Clone(image)
			if tt.change != nil {
				tt.change(b[at:], b[at+pageHeader:])
			}
			if _, err := readFreeList(bytes.NewReader(b), tt.list, page, pages); !isDamage(err) {
				t.Errorf("got %v, want damage", err)
			}
		})
	}
	if _, err := readFreeList(bytes.NewReader(image), list, page, pages); err != nil {
		t.Errorf("the list itself: %v", err)
	}
}

// A list of 65,535 pages or more says their number elsewhere, as bbolt writes it.
func TestLongFreeList(t *testing.T) {
	const list, page, free = 2, 4096, manyFree
	const more = (pageHeader + 8 + 8*free) / page
	image := make([]byte, (list+1+more)*page)
	head := image[list*page:]
	binary.NativeEndian.PutUint64(head, list)
	binary.NativeEndian.PutUint16(head[8:], freeListKind)
	binary.NativeEndian.PutUint16(head[10:], manyFree)
	binary.NativeEndian.PutUint32(head[12:], more)
	binary.NativeEndian.PutUint64(head[pageHeader:], free)
	for i := range free {
		binary.NativeEndian.PutUint64(head[pageHeader+8+8*i:], uint64(list+1+more+i))
	}
	const pages = list + 1 + more + free
	if _, err := readFreeList(bytes.NewReader(image), list, page, pages); err != nil {
		t.Error(err)
	}
	if _, err := readFreeList(bytes.NewReader(image), list, page, pages-1); !isDamage(err) {
		t.Errorf("the last page is behind the end: got %v, want damage", err)
	}
}

// freePages returns where the list of free pages lies in a file, 0 if there is none, and what is in it.
func freePages(t *testing.T, image []byte) (at int, ids []uint64) {
	t.Helper()
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	last := pages[0]
	if pages[1].txid() > last.txid() {
		last = pages[1]
	}
	list := last.u64(offFreeList)
	if list == noFreeList {
		return 0, nil
	}
	at = int(list) * os.Getpagesize()
	for i := range int(binary.NativeEndian.Uint16(image[at+10:])) {
		ids = append(ids, binary.NativeEndian.Uint64(image[at+pageHeader+8*i:]))
	}
	return at, ids
}
