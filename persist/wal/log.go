package wal

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

	"github.com/ringlet/ringlet/internal/durable"
)

// The form of a log, see the package comment.
const (
	magic      = "ringwal1"
	headPage   = 4096
	headerSize = 8 + len(ID{}) + 8 + crcSize
	crcSize    = 4

	recordHeader  = crcSize + 4 + 8
	recordTrailer = crcSize + len(endMark)
	recordAlign   = 512
	endMark       = "end\n"
)

// maxKept bounds the memory that a log keeps from record to record, in bytes: one huge batch must not pin its size.
const maxKept = 1 << 20

// fileMode is that of a new log.
const fileMode fs.FileMode = 0o600

// ID tells logs apart. It is drawn for each one.
type ID [16]byte

// Log is a write-ahead log that is open to be written. It is not safe for concurrent use, but a [Segment] can be read while
// the log is written.
type Log struct {
	f       *os.File
	path    string // of f
	id      ID
	sum     uint32 // checksum of the id, which those of records begin with
	segment int64  // size of one
	sync    bool   // false in tests that do not lose power

	current int    // the segment that is written, 0 or 1
	end     int64  // of what is written in it
	number  uint64 // of the last record
	buf     []byte // kept from record to record
}

// Create makes a log with nothing in it, in the place of what is at path. Each of its two segments has that many bytes. With
// sync false, for tests, nothing is brought to the disk.
//
// Every byte is written once, and on disk when it returns, because to write where nothing ever was would have the file system
// write, too, that there is something now.
func Create(path string, segment int64, sync bool) (_ *Log, err error) {
	w := &Log{path: path, segment: segment, sync: sync}
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
			err = errors.Join(err, w.Remove())
		}
	}()
	page := make([]byte, headPage)
	head := append(append(page[:0], magic...), w.id[:]...)
	head = binary.BigEndian.AppendUint64(head, uint64(segment))
	binary.BigEndian.AppendUint32(head, crcOf(0, head))
	if _, err := w.f.WriteAt(page, 0); err != nil {
		return nil, err
	}
	zeros := make([]byte, 64<<10)
	for at, size := int64(headPage), headPage+2*segment; at < size; at += int64(len(zeros)) {
		if _, err := w.f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at); err != nil {
			return nil, err
		}
	}
	if sync {
		err = w.f.Sync()
	}
	return w, err
}

// Rename gives the log another name, on disk when it returns. A file that has this name already stays, and is an error.
func (w *Log) Rename(path string) error {
	taken, err := durable.Exists(path)
	if err != nil {
		return err
	}
	same, err := durable.IsAt(w.f, w.path)
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
	return durable.SyncDir(filepath.Dir(path))
}

// ID returns what tells the log from others.
func (w *Log) ID() ID { return w.id }

// Last returns the number of the last batch, 0 if there was none.
func (w *Log) Last() uint64 { return w.number }

// crcOf continues a CRC-32C, which is 0 at first, over b.
func crcOf(sum uint32, b []byte) uint32 {
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), b)
}

// start is where a segment begins in the file.
func (w *Log) start(segment int) int64 { return headPage + int64(segment)*w.segment }

// recordSize is what a batch takes in the log, in bytes.
func recordSize(batch int) int64 {
	return (recordHeader + int64(batch) + int64(recordTrailer) + recordAlign - 1) / recordAlign * recordAlign
}

// Fits reports whether there is room for a batch in the segment that is written.
func (w *Log) Fits(batch []byte) bool { return w.end+recordSize(len(batch)) <= w.segment }

// TooLong reports whether a batch has no room in an empty segment either.
func (w *Log) TooLong(batch []byte) bool { return recordSize(len(batch)) > w.segment }

// Switch goes on in the other segment, of which nothing may be needed any more, and returns the one that was written. That uses
// the memory of spare, a segment that nobody needs.
func (w *Log) Switch(spare Segment) (Segment, error) {
	full := Segment{sum: w.sum, last: w.number, bytes: append(spare.bytes[:0], make([]byte, w.end)...)}
	if _, err := w.f.ReadAt(full.bytes, w.start(w.current)); err != nil {
		return Segment{}, err
	}
	w.current, w.end = 1-w.current, 0
	return full, nil
}

// Append makes a batch durable, which fits. After an error the outcome is unknown.
func (w *Log) Append(batch []byte) error {
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
	if w.sync {
		if err := durable.SyncData(w.f); err != nil {
			return err
		}
	}
	w.number++
	w.end += int64(size)
	return nil
}

// appendTrailer appends what ends the record of a batch, of which it takes the number and the batch.
func appendTrailer(dst, numbered []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, crc32.ChecksumIEEE(numbered))
	return append(dst, endMark...)
}

// Close closes the log and leaves it where it is.
func (w *Log) Close() error { return w.f.Close() }

// Remove closes the log and takes it away. Nothing of it may be needed any more.
func (w *Log) Remove() error {
	same, err := durable.IsAt(w.f, w.path)
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
