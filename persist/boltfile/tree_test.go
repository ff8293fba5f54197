package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// checkTrees checks a file of which the meta page and the list of free pages have been read.
func (t *Trees) checkTrees() error {
	return t.check(func(t *Trees) error { return t.readRecords(ignore) })
}

// Every bit of the head of each page and of all its entries, of the keys of branches, and of the heads of inline leaves.
func TestTreeFlips(t *testing.T) {
	image := madeFile(t)
	want, err := hashOf(image)
	if err != nil {
		t.Fatal(err)
	}
	stride := 1
	if testing.Short() {
		stride = 7 // so that each of the eight has its turn
	}
	flip := func(part []byte, bits int) { // the first ones
		for bit := 0; bit < bits; bit += stride {
			part[bit/8] ^= 1 << (bit % 8)
			// Of the last record of a page the length of the value may change, which its checksum finds.
			if got, err := hashOf(image); err == nil && got == want || err != nil && !isDamage(err) {
				t.Errorf("bit %d of byte %d is changed to %#x: got %v", bit%8, cap(image)-cap(part)+bit/8, part[bit/8], err)
			}
			part[bit/8] ^= 1 << (bit % 8)
		}
	}
	meta, _, err := readMeta(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	size := uint64(meta.u32(offPageSize))
	keys, leaves := 0, 0
	var visit func(p page)
	visit = func(p page) {
		if p.id() == 0 {
			flip(p, 8*(pageHeader-4)) // what an inline leaf goes on in is nothing to anybody
			leaves++
		} else {
			flip(p, 8*pageHeader)
		}
		for i := range p.count() {
			entry := p[pageHeader+entrySize*i:][:entrySize]
			if p.kind() == branchKind {
				flip(entry, 8*entrySize)
				flip(p.key(i), 8*len(p.key(i)))
				keys++
				visit(image[p.child(i)*size:])
				continue
			}
			flip(entry, 1) // nor is what else the flags say
			flip(entry[4:], 8*(entrySize-4))
			isBucket, _, value := p.entry(i)
			if !isBucket {
				continue
			}
			if root := binary.NativeEndian.Uint64(value); root != 0 {
				visit(image[root*size:])
				continue
			}
			visit(page(value[bucketValue:]))
		}
	}
	visit(image[meta.u64(offRoot)*size:])
	if keys < 10 || leaves < 2 {
		t.Errorf("the database has %d keys in branches and %d inline leaves, too few to prove anything", keys, leaves)
	}
}

// Whatever bbolt makes of records that come and go passes.
func TestTreesOfBBolt(t *testing.T) {
	rnd := testRand(t)
	path := filepath.Join(t.TempDir(), "x.db")
	size := []int{1024, 4096, 16384}[rnd.IntN(3)]
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, PageSize: size})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	span, grows := 1+rnd.IntN(20000), true
	transactions := 300
	if testing.Short() {
		transactions = 60
	}
	t.Logf("pages of %d bytes", size)
	for n := range transactions {
		if rnd.IntN(20) == 0 {
			grows = !grows
		}
		err := db.Update(func(tx *bbolt.Tx) error {
			for _, name := range []string{"held", "step", "meta"} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				b.FillPercent = []float64{0.9, 0.1, 1}[rnd.IntN(3)]
				if err := changeAtRandom(rnd, b, span, grows); err != nil {
					return err
				}
			}
			if rnd.IntN(60) == 0 {
				return tx.DeleteBucket([]byte("step"))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := hashOf(readFile(t, path)); err != nil {
			t.Fatalf("after %d transactions: %v", n+1, err)
		}
	}
}

// changeAtRandom puts and deletes neighbours and others, some of them long, and now and then many from one end.
func changeAtRandom(rnd *rand.Rand, b *bbolt.Bucket, span int, grows bool) error {
	first := rnd.IntN(span)
	for i := range rnd.IntN(200) {
		number := first + i
		if rnd.IntN(3) == 0 {
			number = rnd.IntN(span)
		}
		key := binary.BigEndian.AppendUint32(nil, uint32(number))
		if rnd.IntN(30) == 0 {
			key = append(key, make([]byte, rnd.IntN(1500))...)
		}
		var err error
		if deletes := rnd.IntN(10) < 2; deletes == grows {
			err = b.Delete(key)
		} else {
			err = b.Put(key, make([]byte, rnd.IntN(300)*(1+rnd.IntN(2)*rnd.IntN(30))))
		}
		if err != nil {
			return err
		}
	}
	if rnd.IntN(50) > 0 {
		return nil
	}
	c := b.Cursor()
	for range rnd.IntN(2000) {
		key, _ := c.First()
		if key == nil {
			return nil
		}
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// What is not where bbolt would have put it is found before it is read.
func TestTree(t *testing.T) {
	const pageSize = 256
	put16, put32, put64 := binary.NativeEndian.PutUint16, binary.NativeEndian.PutUint32, binary.NativeEndian.PutUint64
	fill := func(p []byte, id uint64, kind uint16, keysAndValues ...string) {
		n := len(keysAndValues) / 2
		put64(p, id)
		put16(p[8:], kind)
		put16(p[10:], uint16(n))
		at := pageHeader + entrySize*n
		for i := range n {
			e, where := pageHeader+entrySize*i, p[pageHeader+entrySize*i:]
			key, value := keysAndValues[2*i], keysAndValues[2*i+1]
			if kind == leafKind {
				where = where[4:]
				put32(where[8:], uint32(len(value)))
			}
			put32(where, uint32(at-e))
			put32(where[4:], uint32(len(key)))
			at += copy(p[at:], key+value)
		}
	}
	// The root is page 0 and has bucket b, with branch 1 of leaves 3 and 4, and bucket s, which is inline. Pages 2 and 5 are free.
	whole := func() []byte {
		image := make([]byte, 6*pageSize)
		paged, inline := make([]byte, bucketValue), make([]byte, bucketValue+pageHeader+entrySize+2)
		put64(paged, 1)
		fill(inline[bucketValue:], 0, leafKind, "k", "v")
		fill(image, 0, leafKind, "b", string(paged), "s", string(inline))
		put32(image[pageHeader:], bucketFlag)
		put32(image[pageHeader+entrySize:], bucketFlag)
		branch := image[pageSize:]
		fill(branch, 1, branchKind, "a", "", "d", "")
		put64(branch[pageHeader+8:], 3)
		put64(branch[pageHeader+entrySize+8:], 4)
		fill(image[3*pageSize:], 3, leafKind, "a", "", "c", "value")
		fill(image[4*pageSize:], 4, leafKind, "d", "value")
		return image
	}
	const (
		first  = pageHeader
		second = first + entrySize
		third  = second + entrySize                        // place of the first key of two
		inline = third + 1 + bucketValue + 1 + bucketValue // in the root
	)
	shorten := func(root []byte, size uint32) { // to a bucket s of so many bytes
		put16(root[10:], 1)
		put32(root[first+4:], entrySize)
		put32(root[first+12:], size)
		clear(root[second:])
		root[second] = 's'
	}
	for name, change := range map[string]func(root, branch, leaf []byte){
		"a key of no bytes": func(_, branch, leaf []byte) {
			put32(leaf[first+8:], 0)
			put32(leaf[first+12:], 1)
			put32(branch[first+4:], 0)
			put32(branch[second:], third-second)
			branch[third] = 'd'
		},
		"a leaf deeper than another": func(root, branch, _ []byte) {
			below := root[2*pageSize:]
			fill(below, 2, branchKind, "d", "", "f", "")
			put64(below[first+8:], 4)
			put64(below[second+8:], 5)
			fill(root[5*pageSize:], 5, leafKind, "f", "value")
			put64(branch[second+8:], 2)
		},
		"a bit of flags more":        func(_, _, leaf []byte) { put16(leaf[8:], leafKind|0x20) },
		"a branch that is a leaf":    func(_, branch, _ []byte) { put16(branch[8:], leafKind) },
		"a page of neither kind":     func(_, _, leaf []byte) { put16(leaf[8:], 0) },
		"a page of another number":   func(_, _, leaf []byte) { put64(leaf, 4) },
		"a child that is its own":    func(_, branch, _ []byte) { put64(branch[first+8:], 1) },
		"a child twice":              func(_, branch, _ []byte) { put64(branch[second+8:], 3) },
		"a child that is free":       func(_, branch, _ []byte) { put64(branch[second+8:], 2) },
		"a child behind the end":     func(_, branch, _ []byte) { put64(branch[second+8:], 6) },
		"a child far behind the end": func(_, branch, _ []byte) { put64(branch[second+8:], 1<<63) },
		"a child too few":            func(_, branch, _ []byte) { put16(branch[10:], 1) },
		"a branch without children":  func(_, branch, _ []byte) { put16(branch[10:], 0) },
		"a bucket that is free":      func(root, _, _ []byte) { put64(root[third+1:], 2) },
		"a key twice":                func(_, _, leaf []byte) { leaf[third+1] = 'a' },
		"keys that turn back":        func(_, _, leaf []byte) { leaf[third+1] = '_' },
		"a key of the leaf behind":   func(_, _, leaf []byte) { leaf[third+1] = 'd' },
		"another first key":          func(_, _, leaf []byte) { leaf[third]++ },
		"another key of a branch":    func(_, branch, _ []byte) { branch[third]-- },
		"a child without keys":       func(_, _, leaf []byte) { put16(leaf[10:], 0) },
		"more pages than it needs":   func(_, branch, _ []byte) { put32(branch[12:], 1) },
		"a page behind the end":      func(_, _, leaf []byte) { put32(leaf[pageSize+12:], 2) },
		"a page that is in use": func(root, branch, _ []byte) {
			longer := root[2*pageSize:]
			copy(longer, root[4*pageSize:])
			put64(longer, 2)
			put32(longer[12:], 1)
			put32(longer[first+12:], pageSize)
			put64(branch[second+8:], 2)
		},
		"pages behind the end":            func(root, _, _ []byte) { put32(root[12:], 1<<32-1) },
		"more keys than there is room":    func(_, _, leaf []byte) { put16(leaf[10:], 100) },
		"a key elsewhere":                 func(_, _, leaf []byte) { put32(leaf[second+4:], entrySize) },
		"a key behind the end":            func(_, _, leaf []byte) { put32(leaf[second+8:], pageSize) },
		"a value behind the end":          func(_, _, leaf []byte) { put32(leaf[second+12:], pageSize) },
		"a key of a branch elsewhere":     func(_, branch, _ []byte) { put32(branch[first:], third+1-first); branch[third+1] = 'a' },
		"a record that is a bucket":       func(_, _, leaf []byte) { put32(leaf[second:], bucketFlag) },
		"a record in the root":            func(root, _, _ []byte) { put32(root[first:], 0) },
		"a bucket of no size":             func(root, _, _ []byte) { shorten(root, bucketValue-8) },
		"a bucket without an inline leaf": func(root, _, _ []byte) { shorten(root, bucketValue+4) },
		"an inline leaf with a page":      func(root, _, _ []byte) { put64(root[inline:], 2) },
		"an inline branch":                func(root, _, _ []byte) { put16(root[inline+8:], branchKind) },
		"an inline leaf with no keys":     func(root, _, _ []byte) { put16(root[inline+10:], 0) },
		"an inline leaf with more keys":   func(root, _, _ []byte) { put16(root[inline+10:], 3) },
		"an inline key behind the end":    func(root, _, _ []byte) { put32(root[inline+first+8:], 3) },
		"an inline record, a bucket":      func(root, _, _ []byte) { put32(root[inline+first:], bucketFlag) },
		"an inline leaf with a head alone": func(root, _, _ []byte) {
			shorten(root, bucketValue+pageHeader)
			put16(root[second+1+bucketValue+10:], 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			image := whole()
			check := func(list bool) error {
				file := &Trees{trees: trees{pages: &pageReader{file: bytes.NewReader(image), size: pageSize, end: 6}, met: newPageSet(6)}}
				if list {
					file.met.add(2)
					file.met.add(5)
				} else {
					put64(file.meta[offFreeList:], noFreeList)
				}
				return file.checkTrees()
			}
			if err := errors.Join(check(true), check(false)); err != nil {
				t.Fatalf("before: %v", err)
			}
			change(image, image[pageSize:], image[3*pageSize:])
			if err := check(true); !isDamage(err) {
				t.Errorf("got %v, want damage", err)
			}
			if err := check(false); !isDamage(err) && !strings.Contains(name, "free") {
				t.Errorf("without a list of free pages: got %v, want damage", err)
			}
		})
	}
}

func TestPageSet(t *testing.T) {
	for _, pages := range []uint64{1, 2, 63, 64, 65, 128} {
		for gap := range pages + 1 { // behind the end, too
			s := newPageSet(pages)
			for id := range pages {
				if id != gap && (!s.add(id) || s.add(id)) {
					t.Errorf("page %d of %d is not added once", id, pages)
				}
			}
			if id, is := s.missing(); is != (gap < pages) || is && id != gap {
				t.Errorf("of %d pages %d is missing: got %d, %t", pages, gap, id, is)
			}
		}
	}
}

// Branches of branches without an end are not followed.
func TestDeepTree(t *testing.T) {
	const pageSize, pages = 64, 2 * maxDepth
	image := make([]byte, pages*pageSize)
	for id := range pages {
		p := image[id*pageSize:]
		binary.NativeEndian.PutUint64(p, uint64(id))
		binary.NativeEndian.PutUint16(p[8:], branchKind)
		binary.NativeEndian.PutUint16(p[10:], 2)
		for i := range 2 {
			e := p[pageHeader+entrySize*i:]
			binary.NativeEndian.PutUint32(e, uint32(entrySize*(2-i)+i))
			binary.NativeEndian.PutUint32(e[4:], 1)
			binary.NativeEndian.PutUint64(e[8:], uint64(id+1))
			p[pageHeader+2*entrySize+i] = byte('a' + i)
		}
	}
	file := &Trees{trees: trees{pages: &pageReader{file: bytes.NewReader(image), size: pageSize, end: pages}, met: newPageSet(pages)}}
	err := file.checkTrees()
	if want := fmt.Sprintf("its page %d is a branch with 2 children, %d pages deep", maxDepth-1, maxDepth); !isDamage(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
