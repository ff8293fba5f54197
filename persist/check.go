package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
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
	c, err := check(f, nil)
	if err == nil && c.header.logged {
		_, _, err = readWAL(path, c.header)
	}
	return err
}

// checked is a database that has been checked, without its log. It holds as long as nothing is written to the file.
type checked struct {
	pages   *pageReader
	meta    metaPage // of the last commit
	header  header
	buckets []checkedBucket // of the caller
	preview Preview         // was shown the records; nil if nobody was
}

type checkedBucket struct {
	name string
	leaves
}

// leaves are those of a bucket, in order: pages, or one that is inline.
type leaves struct {
	pages  []leafPages
	inline page
}

// leafPages are the pages of a leaf.
type leafPages struct{ first, count uint64 }

// check reads all that is in use of a file that [openLocked] has opened, and shows its records meanwhile to the preview that
// show names, if it does, of a file with that header; show may be nil. Errors: as [CheckFile].
func check(f *os.File, show func(header) Preview) (*checked, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	meta, list, err := readMeta(f, info.Size())
	if err != nil {
		return nil, err
	}
	t := newTrees(f, meta, list)
	// Most of it lies in the order in which it is read, but not all. It is advice: if it is not taken the file is read all
	// the same.
	_ = unix.Fadvise(int(f.Fd()), 0, int64(t.pages.end*t.pages.size), unix.FADV_WILLNEED)
	c := &checked{pages: t.pages, meta: meta}
	return c, c.check(t, show)
}

// visit calls visit for each record, in order of bucket and key. Key and value are valid during the call.
func (c *checked) visit(visit func(bucket string, key, value []byte) error) error {
	for _, b := range c.buckets {
		each := func(leaf page) error {
			for l := leaf.entries(); l.more(); {
				_, both, key := l.next()
				k, v := unsealed(both, key)
				if err := visit(b.name, k, v); err != nil {
					return err
				}
			}
			return nil
		}
		for _, l := range b.pages {
			leaf, err := c.pages.read(l.first, l.count)
			if err != nil {
				return err
			}
			if err := each(leaf); err != nil {
				return err
			}
		}
		if b.inline != nil {
			if err := each(b.inline); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *checked) check(t trees, show func(header) Preview) error {
	buckets, err := t.buckets()
	if err != nil {
		return err
	}
	if c.header, err = t.header(buckets); err != nil { // of a newer version, too, whatever else is strange here
		return err
	}
	if show != nil {
		c.preview = show(c.header)
	}
	if c.preview != nil {
		c.preview.Begin()
	}
	if err := c.checkRecords(t, buckets); err != nil {
		return err
	}
	return t.checkLeft()
}

// checkRecords checks the records of the caller, and compares them with the guard.
func (c *checked) checkRecords(t trees, buckets []bucket) error {
	want := c.header.guard
	got := guard{txid: want.txid}
	for _, b := range buckets {
		name := string(b.name)
		if name == metaBucket {
			continue
		}
		s := newSealer(name)
		leaves, err := t.records(b, func(leaf page) error {
			for l := leaf.entries(); l.more(); {
				isBucket, both, key := l.next()
				if isBucket {
					return bucketAmongRecords(b, both[:key])
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

// bucket is an entry of the root, which should be a bucket.
type bucket struct {
	name, value []byte
	isBucket    bool
}

// buckets reads the tree of the root.
func (t trees) buckets() (list []bucket, err error) {
	err = t.read(t.meta.u64(offRoot), func(leaf page) error {
		for i := range leaf.count() {
			isBucket, name, value := leaf.entry(i)
			list = append(list, bucket{bytes.Clone(name), bytes.Clone(value), isBucket})
		}
		return nil
	})
	return list, err
}

// header reads the bucket that belongs to this package.
func (t trees) header(buckets []bucket) (header, error) {
	i := slices.IndexFunc(buckets, func(b bucket) bool { return string(b.name) == metaBucket })
	if i < 0 {
		return header{}, damagedBy(errNoHeader)
	}
	all := make(map[string][]byte)
	_, err := t.records(buckets[i], func(leaf page) error {
		for l := leaf.entries(); l.more(); {
			isBucket, both, key := l.next()
			if isBucket {
				return bucketAmongRecords(buckets[i], both[:key])
			}
			all[string(both[:key])] = bytes.Clone(both[key:])
		}
		return nil
	})
	if err != nil {
		return header{}, err
	}
	return readHeader(all, t.meta.txid())
}

// bucketAmongRecords is the error for a bucket that has one under that key.
func bucketAmongRecords(b bucket, key []byte) error {
	return damagedBy(fmt.Errorf("its bucket %q has a bucket, %x, among records", b.name, key))
}

// records reads the tree of a bucket, in which there should be nothing but records, calls visit for each of its leaves, and
// returns them. Their bytes are valid during the call.
func (t trees) records(b bucket, visit func(leaf page) error) (list leaves, err error) {
	if !b.isBucket {
		return list, damagedBy(fmt.Errorf("its entry %x is a record among buckets", b.name))
	}
	if len(b.value) < bucketValue {
		return list, damagedBy(fmt.Errorf("its bucket %q has %d bytes", b.name, len(b.value)))
	}
	if root := binary.NativeEndian.Uint64(b.value); root != 0 {
		err := t.read(root, func(leaf page) error {
			list.pages = append(list.pages, leafPages{leaf.id(), 1 + uint64(leaf.following())})
			return visit(leaf)
		})
		return list, err
	}
	list.inline = b.value[bucketValue:]
	if err := list.inline.checkInline(); err != nil {
		return list, damagedBy(fmt.Errorf("the inline leaf of its bucket %q %w", b.name, err))
	}
	return list, visit(list.inline)
}

// exists reports whether there is anything at path.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
