package boltfile

import (
	"fmt"
	"io"
)

// readAhead is how much of a file is read at once, in bytes, where it is read from one end to the other: much, as each time
// costs, and little enough to be in the processor's second cache still when it is looked at.
const readAhead = 128 << 10

// pageReader reads pages of a file. To map the file instead would cost more where memory is mapped slowly, as in many
// virtual machines, and would end the process with a fault where the disk fails.
type pageReader struct {
	file io.ReaderAt
	size uint64 // of a page, in bytes
	end  uint64 // how many pages there are

	buf          []byte
	first, count uint64 // the pages that it has
}

// read returns pages of the file, so many from that one on, which are not behind its end. They are valid until the next call.
func (r *pageReader) read(id, count uint64) (page, error) {
	if id < r.first || id+count > r.first+r.count {
		if err := r.fill(id, count); err != nil {
			return nil, err
		}
	}
	at, n := (id-r.first)*r.size, count*r.size
	return r.buf[at : at+n : at+n], nil
}

// fill reads pages, and more behind them if they are near those that were read last: the more the longer that goes on. Where
// what follows in a tree lies scattered in the file that reads little more than what is asked for.
func (r *pageReader) fill(id, count uint64) error {
	n := count
	if near := r.first + 2*r.count; r.first <= id && id <= near {
		n = max(count, min(2*r.count, readAhead/r.size))
	}
	n = min(n, r.end-id)
	if need := n * r.size; uint64(cap(r.buf)) < need {
		r.buf = make([]byte, max(need, min(readAhead, r.end*r.size)))
	}
	r.buf, r.first, r.count = r.buf[:n*r.size], id, 0
	if _, err := r.file.ReadAt(r.buf, int64(id*r.size)); err != nil {
		return fmt.Errorf("%d pages of it, from page %d on, cannot be read: %w", n, id, err)
	}
	r.count = n
	return nil
}
