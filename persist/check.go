package persist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/ringlet/ringlet/persist/boltfile"
	"github.com/ringlet/ringlet/persist/wal"
)

// CheckFile reads a whole database and checks everything that can be checked: that each byte can be read, bbolt's
// structure, each record, the guard, and the log of one that was not closed. It changes nothing. It waits up to 5 s
// for a process that has the database open.
//
// Errors: [ErrDamaged], [ErrLocked], [ErrNewerSchema] for a newer layout, or what the system said.
func CheckFile(path string) error {
	if err := checkFile(path, defaultLockTimeout); err != nil {
		return fmt.Errorf("check database %s: %w", path, err)
	}
	return nil
}

func checkFile(path string, timeout time.Duration) error {
	f, err := openLocked(path, false, timeout)
	if err != nil {
		return err
	}
	defer f.Close()
	c, err := checkOpen(f, nil)
	if err == nil && c.header.logged {
		_, _, err = readWAL(path, c.header)
	}
	return err
}

// checked is a database that has been checked, without its log. It holds as long as nothing is written to the file.
type checked struct {
	file    *boltfile.File
	header  header
	buckets []checkedBucket // of the caller
	preview Preview         // was shown the records; nil if nobody was
}

type checkedBucket struct {
	name string
	boltfile.Leaves
}

// checkOpen is check for a file that [openLocked] has opened.
func checkOpen(f *os.File, show func(header) Preview) (*checked, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return check(f, info.Size(), show)
}

// check reads all that is in use of a file of that size, in bytes, and shows its records meanwhile to the preview that show
// names, if it does, of a file with that header; show may be nil. Errors: as [CheckFile].
func check(f io.ReaderAt, size int64, show func(header) Preview) (_ *checked, err error) {
	c := &checked{}
	c.file, err = boltfile.Check(f, size, func(t *boltfile.Trees) error { return c.check(t, show) })
	return c, asDamage(err)
}

// visit calls visit for each record, in order of bucket and key. Key and value are valid during the call.
func (c *checked) visit(visit func(bucket string, key, value []byte) error) error {
	for _, b := range c.buckets {
		err := c.file.Read(b.Leaves, func(l boltfile.Entries) error {
			for l.More() {
				_, both, key := l.Next()
				k, v := unsealed(both, key)
				if err := visit(b.name, k, v); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *checked) check(t *boltfile.Trees, show func(header) Preview) (err error) {
	if c.header, err = readMetaBucket(t); err != nil { // of a newer version, too, whatever else is strange here
		return err
	}
	if show != nil {
		c.preview = show(c.header)
	}
	if c.preview != nil {
		c.preview.Begin()
	}
	return c.checkRecords(t)
}

// checkRecords checks the records of the caller, and compares them with the guard.
func (c *checked) checkRecords(t *boltfile.Trees) error {
	want := c.header.guard
	got := guard{txid: want.txid}
	for _, b := range t.Buckets() {
		name := b.Name
		if name == metaBucket {
			continue
		}
		s := newSealer(name)
		leaves, err := t.Read(b, func(l boltfile.Entries) error {
			for l.More() {
				isBucket, both, key := l.Next()
				if isBucket {
					return bucketAmongRecords(name, both[:key])
				}
				part, err := s.check(both, key)
				if err != nil {
					return damagedRecord(name, both[:key], err)
				}
				got.count++
				got.sum += part
				if c.preview != nil {
					k, v := unsealed(both, key)
					c.preview.Visit(name, k, v)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		c.buckets = append(c.buckets, checkedBucket{name, leaves})
	}
	if got != want {
		return fmt.Errorf("%w: it holds %d records with sum %016x, the last commit left %d with sum %016x",
			ErrDamaged, got.count, got.sum, want.count, want.sum)
	}
	return nil
}

// readMetaBucket reads the bucket that belongs to this package.
func readMetaBucket(t *boltfile.Trees) (header, error) {
	i := slices.IndexFunc(t.Buckets(), func(b boltfile.Bucket) bool { return b.Name == metaBucket })
	if i < 0 {
		return header{}, damagedBy(errNoHeader)
	}
	all := make(map[string][]byte)
	_, err := t.Read(t.Buckets()[i], func(l boltfile.Entries) error {
		for l.More() {
			isBucket, both, key := l.Next()
			if isBucket {
				return bucketAmongRecords(metaBucket, both[:key])
			}
			all[string(both[:key])] = bytes.Clone(both[key:])
		}
		return nil
	})
	if err != nil {
		return header{}, err
	}
	return readHeader(all, t.Txid())
}

// bucketAmongRecords is the error for a bucket that has one under that key.
func bucketAmongRecords(bucket string, key []byte) error {
	return damagedBy(fmt.Errorf("its bucket %q has a bucket, %x, among records", bucket, key))
}

// asDamage marks what the parts of this package have found as damage.
func asDamage(err error) error {
	_, ofFile := errors.AsType[*boltfile.DamageError](err)
	_, ofLog := errors.AsType[*wal.DamageError](err)
	if ofFile || ofLog {
		return damagedBy(err)
	}
	return err
}
