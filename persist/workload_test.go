package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"go.etcd.io/bbolt"
)

// The workload is a fixed sequence of batches, numbered from 1. Batch n depends on n alone, so what a database must
// hold after n of them can be computed without it.

type content map[string]string // bucket, 0, key to value

func recordName(bucket string, key []byte) string { return bucket + "\x00" + string(key) }

// step puts batch n: its own number, and up to 24 records, mostly neighbours, some deleted, a few long ones.
func step(n uint64, put func(bucket string, key, value []byte) error) error {
	rnd := rand.New(rand.NewPCG(n, 1))
	if err := put("step", []byte("last"), binary.BigEndian.AppendUint64(nil, n)); err != nil {
		return err
	}
	first := rnd.IntN(600)
	for i := range 1 + rnd.IntN(24) {
		key := binary.BigEndian.AppendUint32([]byte("10.0"), uint32(first+i))
		value := make([]byte, rnd.IntN(200))
		switch rnd.IntN(40) {
		case 0:
			value = make([]byte, 5000+rnd.IntN(9000))
		case 1, 2, 3, 4, 5, 6, 7, 8:
			value = nil
		}
		for j := range value {
			value[j] = byte(rnd.Uint32())
		}
		if err := put("held", key, value); err != nil {
			return err
		}
	}
	return nil
}

func commitStep(s *Store, n uint64) error {
	return s.Commit(func(put func(string, []byte, []byte) error) error { return step(n, put) })
}

// apply does to c what a commit of step n does to a database.
func (c content) apply(n uint64) {
	_ = step(n, func(bucket string, key, value []byte) error {
		if value == nil {
			delete(c, recordName(bucket, key))
		} else {
			c[recordName(bucket, key)] = string(value)
		}
		return nil
	})
}

func loadContent(s *Store) (content, error) {
	c := content{}
	err := s.Load(func(bucket string, key, value []byte) error {
		c[recordName(bucket, key)] = string(value)
		return nil
	})
	return c, err
}

func (c content) last() uint64 {
	if v := c[recordName("step", []byte("last"))]; v != "" {
		return binary.BigEndian.Uint64([]byte(v))
	}
	return 0
}

func lastStep(s *Store) (uint64, error) {
	c, err := loadContent(s)
	return c.last(), err
}

// history computes contents in rising order of their number.
type history struct {
	n uint64
	c content
}

func newHistory() *history { return &history{c: content{}} }

func (h *history) at(n uint64) content {
	if n < h.n {
		*h = *newHistory()
	}
	for h.n < n {
		h.n++
		h.c.apply(h.n)
	}
	return h.c
}

// check compares a loaded content with the step that it says it is of, which must be one of from to to.
func (h *history) check(got content, from, to uint64) error {
	n := got.last()
	if n < from || n > to {
		return fmt.Errorf("database is at step %d, want %d to %d", n, from, to)
	}
	if !maps.Equal(got, h.at(n)) {
		return fmt.Errorf("database is at step %d, but its %d records are not those of that step", n, len(got))
	}
	return nil
}

// checkDatabase checks the file, opens it, and compares what it holds, by bbolt, too.
func (h *history) checkDatabase(path string, from, to uint64) error {
	if err := CheckFile(path); err != nil {
		return err
	}
	s, err := Open(hastyConfig(path))
	if err != nil {
		return err
	}
	defer s.Close()
	byBBolt := content{}
	if err := s.db.View(byBBolt.read); err != nil {
		return err
	}
	got, err := loadContent(s)
	if err != nil {
		return err
	}
	if !maps.Equal(got, byBBolt) {
		return fmt.Errorf("it has %d records, and by bbolt %d", len(got), len(byBBolt))
	}
	return h.check(got, from, to)
}

// read reads by bbolt what it has checked.
func (c content) read(tx *bbolt.Tx) error {
	var found error
	for err := range tx.Check() { // to the end, or its goroutine would hang
		found = errors.Join(found, err)
	}
	if found != nil {
		return fmt.Errorf("bbolt's own check: %w", found)
	}
	return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		if string(name) == metaBucket {
			return nil
		}
		return b.ForEach(func(key, stored []byte) error {
			c[recordName(string(name), key)] = string(stored[:len(stored)-crcSize])
			return nil
		})
	})
}

// madeDatabase returns the path of a closed database at step n.
func madeDatabase(t *testing.T, n uint64) string {
	t.Helper()
	path := dbPath(t)
	s, err := Open(hastyConfig(path))
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := commitStep(s, i+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}
