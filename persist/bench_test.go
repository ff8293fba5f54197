package persist

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"go.etcd.io/bbolt"
)

// What does a durable commit cost beyond bbolt's own? Accepted, to bare=true in the same run: 1.05 with one key, and
// 1.15 with 64, each of which is looked up for the guard and gets a checksum.
func BenchmarkCommit(b *testing.B) {
	for _, keys := range []int{1, 64} {
		for _, bare := range []bool{false, true} {
			b.Run(fmt.Sprintf("keys=%d/bare=%t", keys, bare), func(b *testing.B) {
				s := mustOpen(b, testConfig(dbPath(b)))
				value := make([]byte, 16)
				key := make([]byte, 8)
				next := uint64(0)
				b.ReportAllocs()
				for b.Loop() {
					var err error
					if bare {
						err = commitBare(s.db, keys, &next, value)
					} else {
						err = s.Commit(func(put func(string, []byte, []byte) error) error {
							for range keys {
								binary.BigEndian.PutUint64(key, next)
								next++
								if err := put("held", key, value); err != nil {
									return err
								}
							}
							return nil
						})
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func commitBare(db *bbolt.DB, keys int, next *uint64, value []byte) error {
	return db.Update(func(tx *bbolt.Tx) error {
		bucket, err := tx.CreateBucketIfNotExists([]byte("held"))
		if err != nil {
			return err
		}
		bucket.FillPercent = fillPercent
		for range keys {
			if err := bucket.Put(binary.BigEndian.AppendUint64(nil, *next), value); err != nil {
				return err
			}
			*next++
		}
		return nil
	})
}

func filled(b *testing.B, records int) string {
	b.Helper()
	path := dbPath(b)
	s := mustOpen(b, testConfig(path))
	value := make([]byte, 16)
	for next := 0; next < records; {
		err := s.Commit(func(put func(string, []byte, []byte) error) error {
			for range min(1000, records-next) {
				if err := put("held", binary.BigEndian.AppendUint64(nil, uint64(next)), value); err != nil {
					return err
				}
				next++
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// What do 100,000 records cost: to check and read them, by bbolt alone without a check, and at a start, which opens the
// file as well? Accepted: 50 ns a record for each.
func BenchmarkLoad(b *testing.B) {
	const records = 100_000
	path := filled(b, records)
	if info, err := os.Stat(path); err == nil {
		b.Logf("%d records in %d bytes", records, info.Size())
	}
	load := func(b *testing.B, s *Store) {
		b.Helper()
		n := 0
		if err := s.Load(func(string, []byte, []byte) error { n++; return nil }); err != nil || n != records {
			b.Fatalf("got %d records, %v, want %d", n, err, records)
		}
	}
	b.Run("records=100000", func(b *testing.B) {
		s := mustOpen(b, testConfig(path))
		b.ReportAllocs()
		for b.Loop() {
			load(b, s)
		}
		s.Close()
	})
	b.Run("records=100000/bare", func(b *testing.B) {
		s := mustOpen(b, testConfig(path))
		for b.Loop() {
			n := 0
			err := s.db.View(func(tx *bbolt.Tx) error {
				return tx.Bucket([]byte("held")).ForEach(func(_, _ []byte) error { n++; return nil })
			})
			if err != nil || n != records {
				b.Fatal(n, err)
			}
		}
		s.Close()
	})
	b.Run("records=100000/open", func(b *testing.B) {
		for b.Loop() {
			s, err := Open(testConfig(path))
			if err != nil {
				b.Fatal(err)
			}
			load(b, s)
			s.Close()
		}
	})
}
