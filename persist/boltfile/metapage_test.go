package boltfile

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"os"
	"strings"
	"testing"
)

// Every bit of the newer meta page, in process: bbolt itself would fall back to the commit before.
func TestMetaPageFlips(t *testing.T) {
	image := madeFile(t)
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
		if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); !isDamage(err) {
			t.Errorf("bit %d: got %v, want damage", bit, err)
		}
		image[at+bit/8] ^= 1 << (bit % 8)
	}
	clear(image[at : at+512])
	if _, _, err := readMeta(bytes.NewReader(image), int64(len(image))); !isDamage(err) {
		t.Errorf("no page: got %v, want damage", err)
	}
}

// Of a meta page that a power cut tore, the list of free pages is one before, one after, or bytes of both.
func TestTornListOfMetaPage(t *testing.T) {
	image := madeFile(t)
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
		if whole && err != nil || !whole && !isDamage(err) {
			t.Errorf("list %#x: got %v, want damage: %t", list, err, !whole)
		}
	}
}

// Meta pages whose checksums are right and which say what no transaction of bbolt has written.
func TestMetaPages(t *testing.T) {
	image := madeFile(t)
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
			if _, err := hashOf(changed); !isDamage(err) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want damage that says %q", err, tt.want)
			}
		})
	}
}

func FuzzMetaPages(f *testing.F) {
	f.Add(make([]byte, 8192))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, _, err := readMeta(bytes.NewReader(file), int64(len(file))); err == nil && len(file) < 2*1024 {
			t.Error("a file without room for two pages passed")
		}
	})
}
