package persist

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// metaBucket is the one bucket that belongs to this package.
const metaBucket = "meta"

// Versions of the layout drawn in doc.go. A database that is open has a log, without which it is not whole; closed, it is
// one file again, as it was before there were logs.
const (
	formatWhole  = 1
	formatLogged = 2
)

// Keys of metaBucket.
const (
	formatKey = "format"
	schemaKey = "schema"
	guardKey  = "guard"
	walKey    = "wal"
)

// guard is the summary of all records that the transaction left behind.
type guard struct {
	txid  uint64 // of the transaction that wrote it, so that an old root page is noticed
	count uint64 // of records
	sum   uint64 // of their contributions, modulo 2^64
}

const guardSize = 24

func (g guard) appendTo(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, g.txid)
	dst = binary.BigEndian.AppendUint64(dst, g.count)
	return binary.BigEndian.AppendUint64(dst, g.sum)
}

// header is what metaBucket holds.
type header struct {
	schema uint64
	guard  guard

	logged  bool   // what follows the guard's transaction is in a log
	wal     walID  // that log, or the last one that there was
	applied uint64 // the last of its records that the database holds
}

// errNoHeader is returned when the database has no metaBucket.
var errNoHeader = errors.New("bucket \"meta\" is missing, so it was not written by this program")

// readHeader reads and checks metaBucket. The guard is compared with the transaction, not yet with the records.
func readHeader(tx *bbolt.Tx) (header, error) {
	b := tx.Bucket([]byte(metaBucket))
	if b == nil {
		return header{}, damagedBy(errNoHeader)
	}
	s := newSealer(metaBucket)
	get := func(name string, size int) ([]byte, error) {
		key := []byte(name)
		value, _, err := s.open(key, b.Get(key))
		if err == nil && len(value) != size {
			err = fmt.Errorf("value has %d bytes, not %d", len(value), size)
		}
		if err != nil {
			return nil, damagedRecord(metaBucket, key, err)
		}
		return value, nil
	}
	// The format comes first: a newer one may have changed everything that follows.
	v, err := get(formatKey, 8)
	if err != nil {
		return header{}, err
	}
	var h header
	f := binary.BigEndian.Uint64(v)
	if f != formatWhole && f != formatLogged {
		return header{}, fmt.Errorf("%w: its format is %d and this version reads up to %d: run the newer version again",
			ErrNewerSchema, f, formatLogged)
	}
	if h.logged = f == formatLogged; h.logged || b.Get([]byte(walKey)) != nil {
		if v, err = get(walKey, walIDSize+8); err != nil {
			return header{}, err
		}
		h.wal, h.applied = walID(v), binary.BigEndian.Uint64(v[walIDSize:])
	}
	if v, err = get(schemaKey, 8); err != nil {
		return header{}, err
	}
	h.schema = binary.BigEndian.Uint64(v)
	if v, err = get(guardKey, guardSize); err != nil {
		return header{}, err
	}
	h.guard = guard{
		txid:  binary.BigEndian.Uint64(v),
		count: binary.BigEndian.Uint64(v[8:]),
		sum:   binary.BigEndian.Uint64(v[16:]),
	}
	if id := uint64(tx.ID()); h.guard.txid != id {
		return header{}, fmt.Errorf("%w: its root page is of transaction %d, not %d", ErrDamaged, h.guard.txid, id)
	}
	return h, nil
}

// visitRecords calls visit for each record of the caller, in order of bucket and key, and compares all of them with
// the guard at the end. Key and value are valid only during the call.
func visitRecords(tx *bbolt.Tx, want guard, visit func(bucket string, key, value []byte) error) error {
	got := guard{txid: want.txid}
	err := tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
		if b == nil {
			return fmt.Errorf("%w: entry %x of the root is no bucket", ErrDamaged, name)
		}
		bucket := string(name)
		if bucket == metaBucket {
			return nil
		}
		s := newSealer(bucket)
		return b.ForEach(func(key, stored []byte) error {
			value, part, err := s.open(key, stored)
			if err != nil {
				return damagedRecord(bucket, key, err)
			}
			got.count++
			got.sum += part
			return visit(bucket, key, value)
		})
	})
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("%w: it holds %d records with sum %016x, the last commit left %d with sum %016x",
			ErrDamaged, got.count, got.sum, want.count, want.sum)
	}
	return nil
}
