package persist

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"
)

// errPutLate is returned when put is kept and called after fill has returned.
var errPutLate = errors.New("put was called after its commit had ended")

// entry is what one put says. A nil value deletes the record.
type entry struct {
	bucket, key, value []byte
}

// entries takes down what fill puts, in the form that the log has it in: for each record
//
//	length of the bucket's name, 0 for that of the record before | name
//	length of the key | key
//	length of the value and 1, 0 to delete the record | value
//
// The lengths are unsigned varints.
type entries struct {
	encoded []byte
	bucket  string // of the last one
	over    bool
}

// put adds a record. It refuses what the database would refuse later, when nobody could be told any more.
func (e *entries) put(bucket string, key, value []byte) error {
	switch {
	case e.over:
		return errPutLate
	case bucket == metaBucket:
		return fmt.Errorf("bucket %q is reserved", bucket)
	case bucket == "" || len(bucket) > bbolt.MaxKeySize:
		return fmt.Errorf("the name of a bucket has %d bytes, not 1 to %d", len(bucket), bbolt.MaxKeySize)
	case len(key) == 0 || len(key) > bbolt.MaxKeySize:
		return fmt.Errorf("a key in bucket %q has %d bytes, not 1 to %d", bucket, len(key), bbolt.MaxKeySize)
	case len(value) > maxValue:
		return fmt.Errorf("the value of %x in bucket %q has %d bytes, more than %d", key, bucket, len(value), maxValue)
	}
	b := e.encoded
	if bucket == e.bucket {
		b = append(b, 0)
	} else {
		b = binary.AppendUvarint(b, uint64(len(bucket)))
		b = append(b, bucket...)
		e.bucket = bucket
	}
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	if value == nil {
		e.encoded = append(b, 0)
		return nil
	}
	b = binary.AppendUvarint(b, uint64(len(value))+1)
	e.encoded = append(b, value...)
	return nil
}

// maxValue bounds a value, in bytes, with room for its checksum.
const maxValue = bbolt.MaxValueSize - crcSize

// errBadEntries is returned for bytes that put did not write.
var errBadEntries = errors.New("its records cannot be told apart")

// decode appends the entries in encoded to list. They share its memory.
func decode(list []entry, encoded []byte) ([]entry, error) {
	var bucket []byte
	ok := true
	next := func(n uint64) (part []byte) {
		if ok = ok && n <= uint64(len(encoded)); ok {
			part, encoded = encoded[:n:n], encoded[n:]
		}
		return part
	}
	length := func() uint64 {
		n, used := binary.Uvarint(encoded)
		if ok = ok && used > 0; ok {
			encoded = encoded[used:]
		}
		return n
	}
	for ok && len(encoded) > 0 {
		if n := length(); n > 0 {
			bucket = next(n)
		}
		e := entry{bucket: bucket, key: next(length())}
		if n := length(); n > 0 {
			e.value = next(n - 1)
		}
		ok = ok && len(e.bucket) > 0 && len(e.key) > 0
		list = append(list, e)
	}
	if !ok {
		return nil, errBadEntries
	}
	return list, nil
}

// settle sorts entries by bucket and key, as the database wants them, and keeps of those with the same key the last.
func settle(list []entry) []entry {
	slices.SortStableFunc(list, func(a, b entry) int {
		return cmp.Or(bytes.Compare(a.bucket, b.bucket), bytes.Compare(a.key, b.key))
	})
	kept := list[:0]
	for i, e := range list {
		if i+1 < len(list) && bytes.Equal(e.key, list[i+1].key) && bytes.Equal(e.bucket, list[i+1].bucket) {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
