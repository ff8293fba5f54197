package persist

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

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
	c, err := check(f)
	if err != nil {
		return err
	}
	if c.header.logged {
		_, _, err = readWAL(path, c.header)
	}
	return errors.Join(err, c.close())
}

// checked is a database that has been checked, in mapped memory, without its log. It holds as long as nothing is written
// to the file.
type checked struct {
	image   []byte
	meta    metaPage // of the last commit
	header  header
	buckets []checkedBucket // of the caller
}

type checkedBucket struct {
	name   string
	leaves []page
}

// check reads all that is in use of a file that [openLocked] has opened. Errors: as [CheckFile].
func check(f *os.File) (*checked, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	meta, list, err := readMeta(f, info.Size())
	if err != nil {
		return nil, err
	}
	size := meta.u64(offEndPage) * uint64(meta.u32(offPageSize)) // which the file has, behind it may be more
	image, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map it: %w", err)
	}
	c := &checked{image: image, meta: meta}
	stop := mapAhead(image)
	err = c.readMapped(func() error { return c.check(newTrees(image, meta, list)) })
	stop()
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// mapAhead has the kernel map a file ahead of who reads it from the beginning to the end, which it does in a fraction of
// the time that it takes page by page. Older kernels cannot; what cannot be read who reads it meets himself. stop ends that.
func mapAhead(image []byte) (stop func()) {
	const piece = 4 << 20
	var ended atomic.Bool
	var ahead sync.WaitGroup
	ahead.Go(func() {
		for part := range slices.Chunk(image, piece) {
			if ended.Load() || unix.Madvise(part, unix.MADV_POPULATE_READ) != nil {
				return
			}
		}
	})
	return func() {
		ended.Store(true)
		ahead.Wait()
	}
}

// readMapped calls read, in which it is an error that the image cannot be read, as the disk fails or the file gets shorter
// meanwhile. Otherwise that would end the process.
func (c *checked) readMapped(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		begin := uintptr(unsafe.Pointer(unsafe.SliceData(c.image))) // to compare with, nothing else
		fault, is := r.(interface{ Addr() uintptr })
		if !is || fault.Addr() < begin || fault.Addr()-begin >= uintptr(len(c.image)) {
			panic(r)
		}
		err = fmt.Errorf("byte %d of it cannot be read: %w", fault.Addr()-begin, unix.EIO)
	}()
	return read()
}

func (c *checked) close() error { return unix.Munmap(c.image) }

// visit calls visit for each record, in order of bucket and key. Key and value are valid until the end of c.
func (c *checked) visit(visit func(bucket string, key, value []byte) error) error {
	return c.readMapped(func() error { return c.each(visit) })
}

func (c *checked) each(visit func(bucket string, key, value []byte) error) error {
	for _, b := range c.buckets {
		for _, leaf := range b.leaves {
			for l := leaf.entries(); l.more(); {
				_, both, key := l.next()
				n := len(both) - crcSize
				if err := visit(b.name, both[:key:key], both[key:n:n]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (c *checked) check(t trees) error {
	buckets, err := t.buckets()
	if err != nil {
		return err
	}
	if c.header, err = t.header(buckets); err != nil { // of a newer version, too, whatever else is strange here
		return err
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
		leaves, err := t.records(b, func(both []byte, key int) error {
			part, err := s.check(both, key)
			if err != nil {
				return damagedRecord(name, both[:key], err)
			}
			got.count++
			got.sum += part
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
			list = append(list, bucket{name, value, isBucket})
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
	_, err := t.records(buckets[i], func(both []byte, key int) error {
		all[string(both[:key])] = both[key:]
		return nil
	})
	if err != nil {
		return header{}, err
	}
	return readHeader(all, t.meta.txid())
}

// records reads the tree of a bucket, in which there is nothing but records, calls visit for each of them with its key, the
// stored form behind it, and the length of the key, and returns the leaves.
func (t trees) records(b bucket, visit func(both []byte, key int) error) (leaves []page, err error) {
	if !b.isBucket {
		return nil, damagedBy(fmt.Errorf("its entry %x is a record among buckets", b.name))
	}
	if len(b.value) < bucketValue {
		return nil, damagedBy(fmt.Errorf("its bucket %q has %d bytes", b.name, len(b.value)))
	}
	read := func(leaf page) error {
		for l := leaf.entries(); l.more(); {
			isBucket, both, key := l.next()
			if isBucket {
				return damagedBy(fmt.Errorf("its bucket %q has a bucket, %x, among records", b.name, both[:key]))
			}
			if err := visit(both, key); err != nil {
				return err
			}
		}
		leaves = append(leaves, leaf)
		return nil
	}
	if root := binary.NativeEndian.Uint64(b.value); root != 0 {
		err := t.read(root, read)
		return leaves, err
	}
	p := page(b.value[bucketValue:])
	if err := p.checkInline(); err != nil {
		return nil, damagedBy(fmt.Errorf("the inline leaf of its bucket %q %w", b.name, err))
	}
	err = read(p)
	return leaves, err
}

// exists reports whether there is anything at path.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
