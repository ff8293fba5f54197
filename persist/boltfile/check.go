package boltfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// DamageError says what is wrong with a file. Its text speaks of the file as "it".
type DamageError struct{ err error }

// Error implements error.
func (e *DamageError) Error() string { return e.err.Error() }

// Unwrap returns the error below, which has the same text.
func (e *DamageError) Unwrap() error { return e.err }

func damaged(format string, args ...any) error { return &DamageError{fmt.Errorf(format, args...)} }

// Check reads all that is in use of a bbolt file of that size, in bytes. Once the meta pages, the list of free pages and the
// root are known to be sound it calls visit, which has to read each bucket with [Trees.Read]: pages that nobody has read are
// neither in use nor free, and so are damage.
//
// Errors: [DamageError], an error of visit as it is, or what the system said, which is no damage.
func Check(f io.ReaderAt, size int64, visit func(t *Trees) error) (*File, error) {
	meta, list, err := readMeta(f, size)
	if err != nil {
		return nil, err
	}
	t := &Trees{trees: newTrees(f, meta, list)}
	if file, ok := f.(*os.File); ok {
		// Most of it lies in the order in which it is read, but not all. It is advice: if it is not taken the file is read all
		// the same.
		_ = unix.Fadvise(int(file.Fd()), 0, int64(t.pages.end*t.pages.size), unix.FADV_WILLNEED)
	}
	return &File{t.pages, meta}, t.check(visit)
}

// Trees are the buckets of a file that is being checked.
type Trees struct {
	trees
	buckets []Bucket
}

func (t *Trees) check(visit func(t *Trees) error) error {
	err := t.read(t.meta.u64(offRoot), func(leaf page) error {
		for i := range leaf.count() {
			isBucket, name, value := leaf.entry(i)
			t.buckets = append(t.buckets, Bucket{string(name), bytes.Clone(value), isBucket})
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := visit(t); err != nil {
		return err
	}
	return t.checkLeft()
}

// Bucket is an entry of the root, which should be a bucket.
type Bucket struct {
	Name     string
	value    []byte
	isBucket bool
}

// Leaves are those of a bucket, in order. The zero value has none.
type Leaves struct {
	pages  []leafPages
	inline page // the one leaf of a small bucket
}

// leafPages are the pages of a leaf: so many from the first one on.
type leafPages struct{ first, count uint64 }

// Txid returns the number of the last transaction.
func (t *Trees) Txid() uint64 { return t.meta.txid() }

// Buckets returns what the root has, in order of the names.
func (t *Trees) Buckets() []Bucket { return t.buckets }

// Read reads the tree of a bucket, and calls visit with the entries of each of its leaves, in order of the keys, as soon as
// the leaf is known to be sound. Their bytes are valid during the call. It returns the leaves, for [File.Read].
func (t *Trees) Read(b Bucket, visit func(Entries) error) (list Leaves, err error) {
	if !b.isBucket {
		return list, damaged("its entry %x is a record among buckets", b.Name)
	}
	if len(b.value) < bucketValue {
		return list, damaged("its bucket %q has %d bytes", b.Name, len(b.value))
	}
	if root := binary.NativeEndian.Uint64(b.value); root != 0 {
		err := t.read(root, func(leaf page) error {
			list.pages = append(list.pages, leafPages{leaf.id(), 1 + uint64(leaf.following())})
			return visit(leaf.entries())
		})
		return list, err
	}
	list.inline = b.value[bucketValue:]
	if err := list.inline.checkInline(); err != nil {
		return list, damaged("the inline leaf of its bucket %q %w", b.Name, err)
	}
	return list, visit(list.inline.entries())
}

// File is a file that was checked. It is of use as long as nothing is written to it, but for [File.WriteMeta].
type File struct {
	pages *pageReader
	meta  metaPage // of the last commit
}

// Read calls visit with the entries of leaves that the check has found to be sound, as [Trees.Read] does.
func (f *File) Read(list Leaves, visit func(Entries) error) error {
	for _, l := range list.pages {
		leaf, err := f.pages.read(l.first, l.count)
		if err != nil {
			return err
		}
		if err := visit(leaf.entries()); err != nil {
			return err
		}
	}
	if list.inline == nil {
		return nil
	}
	return visit(list.inline.entries())
}

// WriteMeta writes the meta page of the last commit once more, where it is.
func (f *File) WriteMeta(w io.WriterAt) error {
	_, err := w.WriteAt(f.meta[:], f.meta.place())
	return err
}
