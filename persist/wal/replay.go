package wal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/bits"
	"os"
	"slices"
)

// DamageError says what is wrong with a log. Its text speaks of the database that the log belongs to: "its log …".
type DamageError struct{ err error }

// Error implements error.
func (e *DamageError) Error() string { return e.err.Error() }

// Unwrap returns the error below, which has the same text.
func (e *DamageError) Unwrap() error { return e.err }

func damaged(format string, args ...any) error { return &DamageError{fmt.Errorf(format, args...)} }

// record is a record that was found in a log.
type record struct {
	number uint64
	batch  []byte
	next   int // where the record behind it would begin
}

// image is a log as it is read back.
type image struct {
	sum      uint32
	segments [2][]byte
}

// Read appends to list what the batches of the log at path say that come after the one with the number after, in order, and
// returns how many batches they are. The log has to be the one with that ID. None of its batches may be missing but the last,
// and that only if a power cut can be the cause.
//
// Errors: [DamageError], or what the system said, as fs.ErrNotExist.
func Read(path string, id ID, list []Entry, after uint64) ([]Entry, int, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	return read(f, id, list, after)
}

// Read is [Read] for the log itself, which may have lost its name.
func (w *Log) Read(list []Entry, after uint64) ([]Entry, int, error) {
	return read(w.f, w.id, list, after)
}

func read(f *os.File, id ID, list []Entry, after uint64) ([]Entry, int, error) {
	image, err := readImage(f, id)
	if err != nil {
		return nil, 0, err
	}
	records, err := image.after(after)
	if err != nil {
		return nil, 0, err
	}
	list, err = entriesOf(list, records)
	return list, len(records), err
}

// Segment is one that is full, read back.
type Segment struct {
	sum   uint32
	last  uint64 // number of the last batch
	bytes []byte
}

// Last returns the number of the last batch.
func (s Segment) Last() uint64 { return s.last }

// Read appends to list what the batches after the one with the number after say, in order. They share the segment's memory.
// Each of them has to be there, up to the last. Errors: [DamageError].
func (s Segment) Read(list []Entry, after uint64) ([]Entry, error) {
	var records []record
	for r := range (image{sum: s.sum}).records(s.bytes) {
		if r.number == after+uint64(len(records))+1 { // those before are of no use any more
			records = append(records, r)
		}
	}
	if n := after + uint64(len(records)); n != s.last {
		return nil, damaged("batch %d of its log cannot be read back", n+1)
	}
	return entriesOf(list, records)
}

// Identify returns the ID of what is at path, if it is long enough to have one, and whether there is nothing but zeros behind
// the place of a log's header. Errors: what the system said, as fs.ErrNotExist.
func Identify(path string) (id ID, empty bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return id, false, err
	}
	defer f.Close()
	head := make([]byte, headerSize)
	if n, err := f.ReadAt(head, 0); n == len(head) {
		id = ID(head[len(magic):])
	} else if !errors.Is(err, io.EOF) {
		return id, false, err
	}
	if _, err := f.Seek(int64(headerSize), io.SeekStart); err != nil {
		return id, false, err
	}
	for part := make([]byte, 64<<10); ; {
		n, err := f.Read(part)
		if bytes.ContainsFunc(part[:n], func(r rune) bool { return r != 0 }) {
			return id, false, nil
		}
		if errors.Is(err, io.EOF) {
			return id, true, nil
		} else if err != nil {
			return id, false, err
		}
	}
}

// readImage reads an open log.
func readImage(f *os.File, id ID) (image, error) {
	path := f.Name()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return image{}, err
	}
	if len(b) < headPage || !bytes.Equal(b[:len(magic)], []byte(magic)) ||
		crcOf(0, b[:headerSize-crcSize]) != binary.BigEndian.Uint32(b[headerSize-crcSize:]) {
		return image{}, damaged("its log %s does not begin as one", path)
	}
	if got := ID(b[len(magic):]); got != id {
		return image{}, damaged("its log %s is %x and belongs to another database or an earlier time of this one, which needs %x", path, got, id)
	}
	segment := binary.BigEndian.Uint64(b[len(magic)+len(ID{}):])
	if rest := uint64(len(b) - headPage); rest%2 != 0 || segment != rest/2 {
		return image{}, damaged("its log %s has %d bytes behind its first page, not two segments of %d", path, rest, segment)
	}
	return image{
		sum:      crcOf(0, id[:]),
		segments: [2][]byte{b[headPage : headPage+segment], b[headPage+segment:]},
	}, nil
}

// after returns the records after the one with that number.
func (w image) after(applied uint64) ([]record, error) {
	var all []record
	ends := [2]int{} // behind the last record of each segment
	last := [2]uint64{}
	for i, segment := range w.segments {
		for r := range w.records(segment) {
			if r.number > last[i] {
				last[i], ends[i] = r.number, r.next
			}
			if r.number > applied {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b record) int { return cmp.Compare(a.number, b.number) })
	next := applied + 1
	for _, r := range all {
		if r.number != next {
			return nil, damaged("batch %d is missing in its log, which has a later one, %d", next, r.number)
		}
		next++
	}
	// What follows was never answered, if it was cut off by a power cut. If one bit makes it whole, it was whole.
	current := 0
	if last[1] > last[0] {
		current = 1
	}
	if w.rotten(w.segments[current][ends[current]:], next) || w.rotten(w.segments[1-current], next) {
		return nil, damaged("a bit of batch %d, the last of its log, has changed", next)
	}
	return all, nil
}

// records yields the records of a segment that are whole, also those of an earlier use of it.
func (w image) records(segment []byte) func(yield func(record) bool) {
	return func(yield func(record) bool) {
		for at := 0; at+recordHeader <= len(segment); {
			batch, number := w.recordAt(segment[at:])
			if number == 0 {
				at += recordAlign
				continue
			}
			at += int(recordSize(len(batch)))
			if !yield(record{number: number, batch: batch, next: min(at, len(segment))}) {
				return
			}
		}
	}
}

// recordAt returns the batch of the record that begins here, and its number, which is 0 if there is none.
func (w image) recordAt(b []byte) (batch []byte, number uint64) {
	if len(b) < recordHeader {
		return nil, 0
	}
	n, number := uint64(binary.BigEndian.Uint32(b[crcSize:])), binary.BigEndian.Uint64(b[crcSize+4:])
	if number == 0 || n > uint64(len(b)-recordHeader) {
		return nil, 0
	}
	if crcOf(w.sum, b[crcSize:recordHeader+n]) != binary.BigEndian.Uint32(b) {
		return nil, 0
	}
	return b[recordHeader : recordHeader+n], number
}

// rotten reports whether b begins with the record of that number but for one bit, which has changed since it was written
// whole. A record that a power cut tore may come near that, but what ends it does not agree then.
func (w image) rotten(b []byte, number uint64) bool {
	if len(b) < recordHeader {
		return false
	}
	head := [recordHeader]byte(b)
	length, found := binary.BigEndian.Uint32(head[crcSize:]), binary.BigEndian.Uint64(head[crcSize+4:])
	if found == number {
		for bit := range 32 {
			binary.BigEndian.PutUint32(head[crcSize:], length^1<<bit)
			if w.repaired(head, b, 0) {
				return true
			}
		}
		binary.BigEndian.PutUint32(head[crcSize:], length)
	} else if bits.OnesCount64(found^number) != 1 {
		return false
	}
	binary.BigEndian.PutUint64(head[crcSize+4:], number)
	size := recordHeader + uint64(length)
	if size > uint64(len(b)) {
		return false
	}
	sum := crcOf(crcOf(w.sum, head[crcSize:]), b[recordHeader:size])
	wrong := sum ^ binary.BigEndian.Uint32(head[:])
	if wrong == 0 || bits.OnesCount32(wrong) == 1 {
		binary.BigEndian.PutUint32(head[:], sum)
		return w.repaired(head, b, 0)
	}
	// A checksum differs by the same for a bit in the same place, whatever the rest is.
	differs := uint32(crc32.Castagnoli)
	for bit := (size - recordHeader) * 8; bit > 0; bit-- { // from the last one on
		if differs == wrong {
			return w.repaired(head, b, bit)
		}
		if differs&1 != 0 {
			differs = differs>>1 ^ crc32.Castagnoli
		} else {
			differs >>= 1
		}
	}
	return false
}

// repaired reports whether a record with this head and the batch in b is whole, and was written to its end, if that bit
// of the batch is turned; they count from 1, and 0 is none.
func (w image) repaired(head [recordHeader]byte, b []byte, bit uint64) bool {
	length := uint64(binary.BigEndian.Uint32(head[crcSize:]))
	if length > uint64(len(b)) || recordSize(int(length)) > int64(len(b)) {
		return false
	}
	fixed := slices.Clone(b[:recordSize(int(length))])
	copy(fixed, head[:])
	if bit > 0 {
		fixed[recordHeader+(bit-1)/8] ^= 1 << ((bit - 1) % 8)
	}
	if _, n := w.recordAt(fixed); n == 0 {
		return false
	}
	return bytes.HasSuffix(fixed, appendTrailer(nil, fixed[crcSize+4:recordHeader+length]))
}

// entriesOf appends to list what the records say, in order.
func entriesOf(list []Entry, records []record) (_ []Entry, err error) {
	for _, r := range records {
		if list, err = Decode(list, r.batch); err != nil {
			return nil, damaged("batch %d of its log: %w", r.number, err)
		}
	}
	return list, nil
}
