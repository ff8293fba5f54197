package main

import (
	"encoding/binary"
	"os"
	"runtime"

	"go.etcd.io/bbolt"

	"github.com/ringlet/ringlet/internal/heap"
)

// record is the least that can be kept of whoever holds an address.
type record [16]byte

// loaded is what the floors of a start make of what they read: bitmaps of 4,096 addresses and a map of records.
type loaded struct {
	held    map[uint64]*[64]uint64
	records map[uint32]record
}

func newLoaded() *loaded {
	return &loaded{map[uint64]*[64]uint64{}, map[uint32]record{}}
}

func (l *loaded) add(o uint64, r record) {
	page := l.held[o>>12]
	if page == nil {
		page = new([64]uint64)
		l.held[o>>12] = page
	}
	page[o>>6&63] |= 1 << (o & 63)
	l.records[uint32(o)] = r
}

// makePacked makes a database of as many packed records: what is held, with 16 bytes of whoever holds it.
func makePacked(path string, held int) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("held"))
		if err != nil {
			return err
		}
		b.FillPercent = 0.9
		for i := range held {
			if err := b.Put(binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, len(record{}))); err != nil {
				return err
			}
		}
		return nil
	})
}

// loadPacked reads such a database.
func loadPacked(path string) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer db.Close()
	l := newLoaded()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("held")).ForEach(func(k, v []byte) error {
			l.add(binary.BigEndian.Uint64(k), record(v))
			return nil
		})
	})
}

// flatRecord is how many bytes each address has in a flat file: its place and its record.
const flatRecord = 4 + len(record{})

// makeFlat makes a file of as many records.
func makeFlat(path string, held int) error {
	var b []byte
	for i := range held {
		b = append(binary.BigEndian.AppendUint32(b, uint32(i)), make([]byte, len(record{}))...)
	}
	return os.WriteFile(path, b, 0o600)
}

// loadFlat reads such a file.
func loadFlat(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	l := newLoaded()
	for ; len(b) >= flatRecord; b = b[flatRecord:] {
		l.add(uint64(binary.BigEndian.Uint32(b)), record(b[4:flatRecord]))
	}
	return nil
}

// rangeSize is how many addresses a range has whose bits stand together.
const rangeSize = 4096

// packedRange is the least that can be kept in memory of a range of which some addresses are held.
type packedRange struct {
	held    [rangeSize / 64]uint64
	offsets []uint16 // ascending
	records []record // of each of them
}

// heapOfPacked returns the heap of such ranges of which each has so many addresses held, and the last perhaps fewer.
func heapOfPacked(held, each int) float64 {
	before := heap.InUse()
	var list []*packedRange
	for done := 0; done < held; done += each {
		r := &packedRange{}
		for o := range min(each, held-done) {
			r.held[o/64] |= 1 << (o % 64)
			r.offsets = append(r.offsets, uint16(o))
			r.records = append(r.records, record{})
		}
		list = append(list, r)
	}
	after := heap.InUse()
	runtime.KeepAlive(list)
	return float64(after - before)
}
