package persist

import (
	"errors"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/ringlet/ringlet/persist/wal"
)

// errPutLate is returned when put is kept and called after fill has returned.
var errPutLate = errors.New("put was called after its commit had ended")

// maxValue bounds a value, in bytes, with room for its checksum.
const maxValue = bbolt.MaxValueSize - crcSize

// puts takes down what fill puts.
type puts struct {
	batch  wal.Batch
	closed bool
}

// put adds a record. It refuses what the database would refuse later, when nobody could be told any more.
func (p *puts) put(bucket string, key, value []byte) error {
	switch {
	case p.closed:
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
	p.batch.Put(bucket, key, value)
	return nil
}
