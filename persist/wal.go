package persist

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// walSuffix ends the name of a database's log.
const walSuffix = ".wal"

// The log begins with a page that says whose it is, and has two segments behind it.
//
//	magic 8 | id 16 | size of a segment 8 | CRC-32C over these 4
const (
	walMagic  = "ringwal1"
	walPage   = 4096
	walHeader = 8 + walIDSize + 8 + crcSize
	walIDSize = 16
)

// segmentSize is how much of the log is written, in bytes, before it goes to the database while the other segment is
// written: 500 batches of a few addresses each, or some 2,000 addresses that come together. The longer a segment, the
// longer those wait who come while it goes to the database; the shorter, the more of them do. A start after a crash
// reads both.
const segmentSize = 256 << 10

// A record of the log is one batch. It has sectors of its own, so that no write touches one in which an earlier batch
// is, and a number, from 1 on without a gap.
//
//	CRC-32C 4 | length of the batch 4 | number 8 | batch, see entries | zeros | CRC-32 of number and batch 4 | walEnd 4
//
// The first checksum is over the id of the log and what is between it and the zeros, so that no record of another
// log, or of an earlier use of the segment, passes for one of this place. What ends the last sector is read only of a
// record that is not whole, see walImage.rotten.
const (
	recordHeader  = crcSize + 4 + 8
	recordTrailer = crcSize + len(walEnd)
	recordAlign   = 512
	walEnd        = "end\n"
)

// walID tells logs apart. It is drawn anew for each.
type walID [walIDSize]byte

// wal is the write-ahead log: batches that are durable, and not yet in the database. It is not safe for concurrent use,
// but what was written can be read while more is.
type wal struct {
	f       *os.File
	path    string // of f
	id      walID
	sum     uint32 // checksum of the id, which those of records begin with
	segment int64  // size of one
	sync    bool   // false in tests that do not lose power

	current int    // the segment that is written, 0 or 1
	end     int64  // of what is written in it
	number  uint64 // of the last record
	buf     []byte // kept from record to record
}

// createWAL makes the log of a database, with nothing in it, under a name that the next one takes over: of a process that
// ends before it needed its log nothing stays. Every byte is written once, and on disk when it returns, because to write
// where nothing ever was would have the file system write, too, that there is something now.
func createWAL(database string, segment int64, sync bool) (_ *wal, err error) {
	w := &wal{path: walPath(database) + newSuffix, segment: segment, sync: sync}
	_, _ = rand.Read(w.id[:]) // never fails
	w.sum = crcOf(0, w.id[:])
	if err := os.Remove(w.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if w.f, err = os.OpenFile(w.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.remove())
		}
	}()
	page := make([]byte, walPage)
	head := append(append(page[:0], walMagic...), w.id[:]...)
	head = binary.BigEndian.AppendUint64(head, uint64(segment))
	binary.BigEndian.AppendUint32(head, crcOf(0, head))
	if _, err := w.f.WriteAt(page, 0); err != nil {
		return nil, err
	}
	zeros := make([]byte, 64<<10)
	for at, size := int64(walPage), walPage+2*segment; at < size; at += int64(len(zeros)) {
		if _, err := w.f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return nil, err
		}
	}
	if sync {
		err = w.f.Sync()
	}
	return w, err
}

// name gives the log the name of the database's, on disk when it returns. What bears that already is another's, and stays.
func (w *wal) name(database string) error {
	path := walPath(database)
	taken, err := exists(path)
	if err != nil {
		return err
	}
	same, err := sameFile(w.f, w.path)
	if err != nil {
		return err
	}
	if taken || !same {
		return fmt.Errorf("%s or %s is another's", path, w.path)
	}
	if err := os.Rename(w.path, path); err != nil {
		return err
	}
	w.path = path
	f, err := os.OpenFile(path, os.O_RDWR, 0) // so that errors have this name, too
	if err != nil {
		return err
	}
	w.f, f = f, w.f
	if err := f.Close(); err != nil || !w.sync {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// crcOf continues a CRC-32C, which is 0 at first, over b.
func crcOf(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

// start is where a segment begins in the file.
func (w *wal) start(segment int) int64 { return walPage + int64(segment)*w.segment }

// recordSize is what a batch takes in the log, in bytes.
func recordSize(batch int) int64 {
	return (recordHeader + int64(batch) + int64(recordTrailer) + recordAlign - 1) / recordAlign * recordAlign
}

// fits reports whether there is room for a batch in the segment that is written.
func (w *wal) fits(batch []byte) bool { return w.end+recordSize(len(batch)) <= w.segment }

// tooLong reports whether a batch has no room in an empty segment either.
func (w *wal) tooLong(batch []byte) bool { return recordSize(len(batch)) > w.segment }

// turn goes on in the other segment, of which nothing is needed any more.
func (w *wal) turn() { w.current, w.end = 1-w.current, 0 }

// append makes a batch durable, which fits. After an error the outcome is unknown.
func (w *wal) append(batch []byte) error {
	size := int(recordSize(len(batch)))
	b := slices.Grow(w.buf[:0], size)[:size]
	binary.BigEndian.PutUint32(b[crcSize:], uint32(len(batch)))
	binary.BigEndian.PutUint64(b[crcSize+4:], w.number+1)
	end := recordHeader + copy(b[recordHeader:], batch)
	binary.BigEndian.PutUint32(b, crcOf(w.sum, b[crcSize:end]))
	clear(b[end : size-recordTrailer])
	appendTrailer(b[:size-recordTrailer], b[crcSize+4:end])
	if w.buf = b; cap(b) > maxKept {
		w.buf = nil
	}
	if _, err := w.f.WriteAt(b, w.start(w.current)+w.end); err != nil {
		return err
	}
	if err := w.fdatasync(); err != nil {
		return err
	}
	w.number++
	w.end += int64(size)
	return nil
}

// appendTrailer appends what ends the record of a batch, of which it takes the number and the batch.
func appendTrailer(dst, numbered []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(numbered))
	return append(dst, walEnd...)
}

func (w *wal) fdatasync() error {
	if !w.sync {
		return nil
	}
	return fdatasync(w.f, w.path)
}

// fdatasync makes durable what an open file holds, which has that path.
func fdatasync(f *os.File, path string) error {
	for {
		switch err := unix.Fdatasync(int(f.Fd())); {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EINTR):
			return &os.PathError{Op: "fdatasync", Path: path, Err: err}
		}
	}
}

// remove closes the log and takes it away. Nothing of it may be needed any more.
func (w *wal) remove() error {
	same, err := sameFile(w.f, w.path)
	if err == nil && same { // or its name is another's by now
		err = os.Remove(w.path)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("remove the log: %w", err)
	} else {
		err = nil
	}
	return errors.Join(err, w.f.Close())
}
