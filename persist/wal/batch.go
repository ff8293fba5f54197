package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// Entry is what one put says. A nil value deletes the record.
type Entry struct {
	Bucket, Key, Value []byte
}

// Batch takes puts down in the form that the log has them in, see the package comment. The zero value is empty.
type Batch struct {
	encoded []byte
	bucket  string // of the last one
}

// Reuse returns an empty batch that has the memory of one that nobody needs.
func (b *Batch) Reuse() Batch { return Batch{encoded: b.encoded[:0]} }

// Put adds an entry, of which it takes copies. The bucket's name and the key have one byte or more.
func (b *Batch) Put(bucket string, key, value []byte) {
	to := b.encoded
	if bucket == b.bucket {
		to = append(to, 0)
	} else {
		to = binary.AppendUvarint(to, uint64(len(bucket)))
		to = append(to, bucket...)
		b.bucket = bucket
	}
	to = binary.AppendUvarint(to, uint64(len(key)))
	to = append(to, key...)
	if value == nil {
		b.encoded = append(to, 0)
		return
	}
	to = binary.AppendUvarint(to, uint64(len(value))+1)
	b.encoded = append(to, value...)
}

// Bytes returns the entries as [Log.Append] takes them, and [Decode]. They are valid until the next Put.
func (b *Batch) Bytes() []byte { return b.encoded }

// errBadEntries is returned for bytes that Put did not write.
var errBadEntries = errors.New("its records cannot be told apart")

// Decode appends the entries in encoded to list. They share its memory. It fails for bytes that are no batch.
func Decode(list []Entry, encoded []byte) ([]Entry, error) {
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
		e := Entry{Bucket: bucket, Key: next(length())}
		if n := length(); n > 0 {
			e.Value = next(n - 1)
		}
		ok = ok && len(e.Bucket) > 0 && len(e.Key) > 0
		list = append(list, e)
	}
	if !ok {
		return nil, errBadEntries
	}
	return list, nil
}

// Settle sorts entries by bucket and key, as the database wants them, and keeps of those with the same key the last.
func Settle(list []Entry) []Entry {
	slices.SortStableFunc(list, func(a, b Entry) int {
		if c := bytes.Compare(a.Bucket, b.Bucket); c != 0 {
			return c
		}
		return bytes.Compare(a.Key, b.Key)
	})
	kept := list[:0]
	for i, e := range list {
		if i+1 < len(list) && bytes.Equal(e.Key, list[i+1].Key) && bytes.Equal(e.Bucket, list[i+1].Bucket) {
			continue
		}
		kept = append(kept, e)
	}
	return kept
}
