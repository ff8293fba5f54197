package persist

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"testing"

	"go.etcd.io/bbolt"
)

func checkTreesOf(t *testing.T, path string) error {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return checkTrees(f)
}

// Every bit of the keys of branches, of the heads of inline leaves, of how long a page goes on, and of what is a bucket:
// bbolt's own check passes over many of them.
func TestTreeFlips(t *testing.T) {
	const n = 40
	path := madeDatabase(t, n)
	image := readFile(t, path)
	if err := checkTreesOf(t, path); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	keys, leaves := 0, 0
	flip := func(at, from, to int) { // bits from the byte at that place on
		for bit := from; bit < to; bit++ {
			at, old := at+bit/8, image[at+bit/8]
			for _, b := range []byte{old ^ 1<<(bit%8), old} {
				if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
					t.Fatal(err)
				}
				if err := checkTreesOf(t, path); errors.Is(err, ErrDamaged) != (b != old) {
					t.Errorf("bit %d of byte %d: %#x is now %#x: got %v", bit%8, at, old, b, err)
				}
			}
		}
	}
	meta, err := newestMetaPage(f, int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}
	file := trees{image, uint64(meta.u32(offPageSize))}
	offset := func(part []byte) int { return cap(image) - cap(part) }
	var visit func(id uint64)
	visit = func(id uint64) {
		p := file.page(id)
		flip(int(id*file.pageSize)+12, 0, 32) // number of following pages
		for i := range p.count() {
			if p.kind() != branchKind {
				flip(int(id*file.pageSize)+pageHeader+entrySize*i, 0, 1) // that it is a bucket, or is none
			}
			switch {
			case p.kind() == branchKind:
				flip(offset(p.key(i)), 0, 8*len(p.key(i)))
				keys++
				visit(p.child(i))
			case p.isBucket(i):
				value := p.value(i)
				if root := binary.NativeEndian.Uint64(value); root != 0 {
					visit(root)
					continue
				}
				flip(offset(value)+bucketValue, 0, 8*(8+2+2)) // page, kind and number of keys
				leaves++
			}
		}
	}
	visit(meta.u64(offRoot))
	if keys < 10 || leaves < 2 {
		t.Errorf("the database has %d keys in branches and %d inline leaves, too few to prove anything", keys, leaves)
	}
}

// Whatever bbolt makes of records that come and go passes.
func TestTreesOfBBolt(t *testing.T) {
	rnd := testRand(t)
	path := dbPath(t)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	span, grows := 1+rnd.IntN(20000), true
	for n := range 300 {
		if rnd.IntN(20) == 0 {
			grows = !grows
		}
		err := db.Update(func(tx *bbolt.Tx) error {
			for _, name := range []string{"held", "step", metaBucket} {
				b, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				b.FillPercent = fillPercent
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
		if err := checkTreesOf(t, path); err != nil {
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
	// The root is page 0 and has bucket b, with branch 1 of leaves 2 and 3, and bucket s, which is inline.
	whole := func() []byte {
		image := make([]byte, 4*pageSize)
		paged, inline := make([]byte, bucketValue), make([]byte, bucketValue+pageHeader+entrySize+2)
		put64(paged, 1)
		fill(inline[bucketValue:], 0, leafKind, "k", "v")
		fill(image, 0, leafKind, "b", string(paged), "s", string(inline))
		put32(image[pageHeader:], bucketFlag)
		put32(image[pageHeader+entrySize:], bucketFlag)
		branch := image[pageSize:]
		fill(branch, 1, branchKind, "a", "", "d", "")
		put64(branch[pageHeader+8:], 2)
		put64(branch[pageHeader+entrySize+8:], 3)
		fill(image[2*pageSize:], 2, leafKind, "a", "", "c", "value")
		fill(image[3*pageSize:], 3, leafKind, "d", "value")
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
		"another first key":               func(_, _, leaf []byte) { leaf[third]++ },
		"another key of a branch":         func(_, branch, _ []byte) { branch[third]-- },
		"a child without keys":            func(_, _, leaf []byte) { put16(leaf[10:], 0) },
		"more pages than it needs":        func(_, _, leaf []byte) { put32(leaf[12:], 1) },
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
			if err := (trees{image, pageSize}).check(0, true); err != nil {
				t.Fatalf("before: %v", err)
			}
			change(image, image[pageSize:], image[2*pageSize:])
			if err := (trees{image, pageSize}).check(0, true); !errors.Is(err, ErrDamaged) {
				t.Errorf("got %v, want ErrDamaged", err)
			}
		})
	}
}
