package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"os"
	"strings"
	"testing"
)

// Every bit of the newer meta page, in process: bbolt itself would fall back to the commit before.
func TestMetaPageFlips(t *testing.T) {
	path := madeDatabase(t, 40)
	image := readFile(t, path)
	if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); err != nil {
		t.Fatal(err)
	}
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	at := metaStart
	if pages[1].txid() > pages[0].txid() {
		at += os.Getpagesize()
	}
	for bit := range metaSize * 8 {
		image[at+bit/8] ^= 1 << (bit % 8)
		if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d: got %v, want ErrDamaged", bit, err)
		}
		image[at+bit/8] ^= 1 << (bit % 8)
	}
	clear(image[at : at+sector])
	if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); !errors.Is(err, ErrDamaged) {
		t.Errorf("no page: got %v, want ErrDamaged", err)
	}
}

// Of a meta page that a power cut tore, the list of free pages is one before, one after, or bytes of both.
func TestTornListOfMetaPage(t *testing.T) {
	image := readFile(t, madeDatabase(t, 40))
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	good, torn := pages[0], 1
	if pages[1].txid() > good.txid() {
		good, torn = pages[1], 0
	}
	at := torn*os.Getpagesize() + metaStart
	put := binary.NativeEndian.PutUint64
	put(image[at+offTxid:], good.txid()+1)
	put(image[at+offRoot:], 7)
	for list, whole := range map[uint64]bool{
		5: true, noFreeList: true, ^uint64(0xff) | 5: true, 0xff00 | 5: true, 0xff << 32: true,
		0x0100 | 5: false, 1 << 63: false, 0xfe0000: false,
	} {
		put(image[at+offFreeList:], list)
		_, _, err := readMeta(bytes.NewReader(image), int64(len(image)))
		if whole && err != nil || !whole && !errors.Is(err, ErrDamaged) {
			t.Errorf("list %#x: got %v, want damage: %t", list, err, !whole)
		}
	}
}

// Every bit of the list of free pages, in process: bbolt would hand out pages that are in use, or behind the end.
func TestFreeListFlips(t *testing.T) {
	path := madeDatabase(t, 40)
	image := readFile(t, path)
	at, ids := freePages(t, image)
	if len(ids) < 5 {
		t.Fatalf("the list has %d pages, too few to prove anything", len(ids))
	}
	t.Logf("%d free pages of %d", len(ids), len(image)/os.Getpagesize())
	for bit := range (pageHeader + 8*len(ids)) * 8 {
		image[at+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckFile(path); !errors.Is(err, ErrDamaged) {
			t.Errorf("bit %d of byte %d: got %v, want ErrDamaged", bit%8, bit/8, err)
		}
		image[at+bit/8] ^= 1 << (bit % 8)
	}
}

// A list of free pages that does not fit its file is found before bbolt reads it.
func TestFreeList(t *testing.T) {
	image := readFile(t, madeDatabase(t, 40))
	at, ids := freePages(t, image)
	page := uint64(os.Getpagesize())
	list, pages := uint64(at)/page, uint64(len(image))/page
	put16, put := binary.NativeEndian.PutUint16, binary.NativeEndian.PutUint64
	for name, tt := range map[string]struct {
		list   uint64
		change func(head, ids []byte)
	}{
		"behind the end":       {list: pages},
		"of another page":      {list: list + 1},
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
			if _, err := readFreeList(bytes.NewReader(b), tt.list, page, pages); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
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
	if _, err := readFreeList(bytes.NewReader(image), list, page, pages-1); !errors.Is(err, ErrDamaged) {
		t.Errorf("the last page is behind the end: got %v, want ErrDamaged", err)
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

// Meta pages whose checksums are right and which say what no transaction of bbolt has written.
func TestMetaPages(t *testing.T) {
	const n = 40
	image := readFile(t, madeDatabase(t, n))
	pages, err := readMetaPages(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	if pages[1].txid() > pages[0].txid() {
		last = 1
	}
	pageSize := func(v uint32) func(*[2]metaPage) { // in the one that is found all the same
		return func(m *[2]metaPage) { binary.NativeEndian.PutUint32(m[1][offPageSize:], v) }
	}
	put64 := func(off int, v uint64) func(*[2]metaPage) {
		return func(m *[2]metaPage) { binary.NativeEndian.PutUint64(m[last][off:], v) }
	}
	const broken = "is broken"
	for name, tt := range map[string]struct {
		want   string
		change func(*[2]metaPage)
	}{
		"no page size":           {broken, pageSize(0)},
		"pages of a byte":        {broken, pageSize(1)},
		"pages of no power of 2": {broken, pageSize(3000)},
		"pages of 512 bytes":     {broken, pageSize(512)},
		"too long pages":         {broken, pageSize(1 << 25)},
		"another page size":      {"say that pages have", pageSize(2 * uint32(os.Getpagesize()))},
		"many pages":             {"cut short", put64(offEndPage, 1<<60)},
		"a list in page 0":       {"is a meta page", put64(offFreeList, 0)},
		"a list in page 1":       {"is a meta page", put64(offFreeList, 1)},
		"each other's place":     {"changed places", func(m *[2]metaPage) { m[0], m[1] = m[1], m[0] }},
	} {
		t.Run(name, func(t *testing.T) {
			changed, m := bytes.Clone(image), pages
			tt.change(&m)
			for i := range m {
				h := fnv.New64a()
				h.Write(m[i][:offChecksum])
				binary.NativeEndian.PutUint64(m[i][offChecksum:], h.Sum64())
				copy(changed[i*os.Getpagesize()+metaStart:], m[i][:])
			}
			for at := range 2 { // what begins as a list
				binary.NativeEndian.PutUint64(changed[at*os.Getpagesize():], uint64(at))
				binary.NativeEndian.PutUint32(changed[at*os.Getpagesize()+8:], freeListKind)
			}
			if err := checkImage(changed); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want damage that says %q", err, tt.want)
			}
		})
	}
}
