package persist

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"math/bits"
	"os"
	"slices"
)

// walRecord is a record that was found in a log.
type walRecord struct {
	number uint64
	batch  []byte
	next   int // where the record behind it would begin
}

// walImage is a log as it is read back.
type walImage struct {
	sum      uint32
	segments [2][]byte
}

// readWAL returns what the database with this header needs of its log, and how many batches that is. Errors:
// [ErrDamaged], or what the system said.
func readWAL(database string, h header) ([]entry, int, error) {
	f, err := os.Open(walPath(database))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, fmt.Errorf("%w: the last of it is in its log %s, which is not there: "+
			"if you moved or copied the database, bring the log, too", ErrDamaged, walPath(database))
	}
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	return readEntries(nil, f, h.wal, h.applied)
}

// readEntries appends to list what the batches of the log with this id say that come after the one with the number
// applied, in order, and returns how many they are. None of them may be missing but the last, and that only if a power
// cut can be the cause. The log may have lost its name.
func readEntries(list []entry, f *os.File, id walID, applied uint64) ([]entry, int, error) {
	image, err := readWALImage(f, id)
	if err != nil {
		return nil, 0, err
	}
	records, err := image.unapplied(applied)
	if err != nil {
		return nil, 0, err
	}
	list, err = entriesOf(list, records)
	return list, len(records), err
}

// readWALImage reads an open log.
func readWALImage(f *os.File, id walID) (walImage, error) {
	path := f.Name()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, math.MaxInt64))
	if err != nil {
		return walImage{}, err
	}
	if len(b) < walPage || !bytes.Equal(b[:len(walMagic)], []byte(walMagic)) ||
		crcOf(0, b[:walHeader-crcSize]) != binary.BigEndian.Uint32(b[walHeader-crcSize:]) {
		return walImage{}, fmt.Errorf("%w: its log %s does not begin as one", ErrDamaged, path)
	}
	if got := walID(b[len(walMagic):]); got != id {
		return walImage{}, fmt.Errorf("%w: its log %s is %x and belongs to another database or an earlier time of this one, which needs %x",
			ErrDamaged, path, got, id)
	}
	segment := binary.BigEndian.Uint64(b[len(walMagic)+walIDSize:])
	if rest := uint64(len(b) - walPage); rest%2 != 0 || segment != rest/2 {
		return walImage{}, fmt.Errorf("%w: its log %s has %d bytes behind its first page, not two segments of %d",
			ErrDamaged, path, rest, segment)
	}
	return walImage{
		sum:      crcOf(0, id[:]),
		segments: [2][]byte{b[walPage : walPage+segment], b[walPage+segment:]},
	}, nil
}

// unapplied returns the records after the one with the number applied.
func (w walImage) unapplied(applied uint64) ([]walRecord, error) {
	var all []walRecord
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
	slices.SortFunc(all, func(a, b walRecord) int { return cmp.Compare(a.number, b.number) })
	next := applied + 1
	for _, r := range all {
		if r.number != next {
			return nil, fmt.Errorf("%w: batch %d is missing in its log, which has a later one, %d", ErrDamaged, next, r.number)
		}
		next++
	}
	// What follows was never answered, if it was cut off by a power cut. If one bit makes it whole, it was whole.
	current := 0
	if last[1] > last[0] {
		current = 1
	}
	if w.rotten(w.segments[current][ends[current]:], next) || w.rotten(w.segments[1-current], next) {
		return nil, fmt.Errorf("%w: a bit of batch %d, the last of its log, has changed", ErrDamaged, next)
	}
	return all, nil
}

// records yields the records of a segment that are whole, also those of an earlier use of it.
func (w walImage) records(segment []byte) func(yield func(walRecord) bool) {
	return func(yield func(walRecord) bool) {
		for at := 0; at+recordHeader <= len(segment); {
			batch, number := w.record(segment[at:])
			if number == 0 {
				at += recordAlign
				continue
			}
			at += int(recordSize(len(batch)))
			if !yield(walRecord{number: number, batch: batch, next: min(at, len(segment))}) {
				return
			}
		}
	}
}

// record returns the batch of the record that begins here, and its number, which is 0 if there is none.
func (w walImage) record(b []byte) (batch []byte, number uint64) {
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
func (w walImage) rotten(b []byte, number uint64) bool {
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
func (w walImage) repaired(head [recordHeader]byte, b []byte, bit uint64) bool {
	length := uint64(binary.BigEndian.Uint32(head[crcSize:]))
	if length > uint64(len(b)) || recordSize(int(length)) > int64(len(b)) {
		return false
	}
	fixed := slices.Clone(b[:recordSize(int(length))])
	copy(fixed, head[:])
	if bit > 0 {
		fixed[recordHeader+(bit-1)/8] ^= 1 << ((bit - 1) % 8)
	}
	if _, n := w.record(fixed); n == 0 {
		return false
	}
	return bytes.HasSuffix(fixed, appendTrailer(nil, fixed[crcSize+4:recordHeader+length]))
}

// entriesOf appends to list what the records say, in order.
func entriesOf(list []entry, records []walRecord) (_ []entry, err error) {
	for _, r := range records {
		if list, err = decode(list, r.batch); err != nil {
			return nil, fmt.Errorf("%w: batch %d of its log: %w", ErrDamaged, r.number, err)
		}
	}
	return list, nil
}
