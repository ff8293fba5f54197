package persist

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// crcSize is the length of the checksum behind each stored value, in bytes.
const crcSize = 4

// sealer adds and checks the checksums of the records of one bucket. It is not safe for concurrent use: the
// scratch space is part of it because a slice given to crc32.Update escapes, and one allocation per record is too many.
type sealer struct {
	table   *crc32.Table
	prefix  uint32 // checksum of the bucket's length and name
	keyed   uint32 // and of the length of the last key that check had, which most keys of a bucket share
	keyLen  int
	scratch [256]byte // 4 or more; a record that fits is copied, as a checksum over one piece costs half of three
}

func newSealer(bucket string) *sealer {
	s := &sealer{table: crc32.MakeTable(crc32.Castagnoli)}
	s.prefix = s.length(0, len(bucket))
	s.prefix = crc32.Update(s.prefix, s.table, []byte(bucket))
	s.keyed = s.length(s.prefix, 0)
	return s
}

// length continues a checksum over a length. The lengths make the checksummed text unambiguous.
func (s *sealer) length(sum uint32, n int) uint32 {
	binary.BigEndian.PutUint32(s.scratch[:], uint32(n))
	return crc32.Update(sum, s.table, s.scratch[:4])
}

func (s *sealer) checksum(key, value []byte) uint32 {
	if n := 4 + len(key) + len(value); n <= len(s.scratch) {
		binary.BigEndian.PutUint32(s.scratch[:], uint32(len(key)))
		copy(s.scratch[4+copy(s.scratch[4:], key):], value)
		return crc32.Update(s.prefix, s.table, s.scratch[:n])
	}
	sum := s.length(s.prefix, len(key))
	sum = crc32.Update(sum, s.table, key)
	return crc32.Update(sum, s.table, value)
}

// seal appends the stored form of value to dst and returns it with the record's contribution to the guard.
func (s *sealer) seal(dst, key, value []byte) ([]byte, uint64) {
	sum := s.checksum(key, value)
	dst = append(dst, value...)
	return binary.BigEndian.AppendUint32(dst, sum), contribution(sum)
}

// open returns the value within its stored form, sharing its memory, and the record's contribution to the guard.
// The error says what is wrong but not where, and is not ErrDamaged yet: the caller knows the place.
func (s *sealer) open(key, stored []byte) ([]byte, uint64, error) {
	n := len(stored) - crcSize
	if n < 0 {
		return nil, 0, fmt.Errorf("stored value of %d bytes is too short", len(stored))
	}
	value := stored[:n:n]
	kept, sum := binary.BigEndian.Uint32(stored[n:]), s.checksum(key, value)
	if kept != sum {
		return nil, 0, fmt.Errorf("checksum is %08x, content has %08x", kept, sum)
	}
	return value, contribution(sum), nil
}

// check returns a record's contribution to the guard, as open does, of a key with the stored form behind it. Where they lie
// one behind the other they need not be copied.
func (s *sealer) check(both []byte, key int) (uint64, error) {
	n := len(both) - crcSize
	if n < key {
		return 0, fmt.Errorf("stored value of %d bytes is too short", len(both)-key)
	}
	if s.keyLen != key {
		s.keyed, s.keyLen = s.length(s.prefix, key), key
	}
	kept, sum := binary.BigEndian.Uint32(both[n:]), crc32.Update(s.keyed, s.table, both[:n])
	if kept != sum {
		return 0, fmt.Errorf("checksum is %08x, content has %08x", kept, sum)
	}
	return contribution(sum), nil
}

// unsealed returns key and value of a record that check has found to be sound.
func unsealed(both []byte, key int) (k, v []byte) {
	n := len(both) - crcSize
	return both[:key:key], both[key:n:n]
}

// contribution spreads a record's checksum over 64 bits (the finalizer of splitmix64), so that sums of many
// records do not cancel out as the checksums themselves, being linear, would.
func contribution(sum uint32) uint64 {
	x := uint64(sum) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// damagedBy marks err as damage.
func damagedBy(err error) error {
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// damagedRecord is the error for a record that failed its check.
func damagedRecord(bucket string, key []byte, err error) error {
	return fmt.Errorf("%w: record %x in bucket %q: %w", ErrDamaged, key, bucket, err)
}
