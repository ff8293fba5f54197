package persist

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ringlet/ringlet/persist/wal"
)

// metaBucket is the one bucket that belongs to this package.
const metaBucket = "meta"

// Versions of the layout, see the package comment. A database that is open has a log, without which it is not whole; closed, it is
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
	wal     wal.ID // that log, or the last one that there was
	applied uint64 // the last of its records that the database holds
}

// errNoHeader is returned when the database has no metaBucket.
var errNoHeader = errors.New("bucket \"meta\" is missing, so it was not written by this program")

// readHeader reads and checks what metaBucket has under its keys. The guard is compared with the transaction, txid, not
// yet with the records.
func readHeader(stored map[string][]byte, txid uint64) (header, error) {
	s := newSealer(metaBucket)
	get := func(name string, size int) ([]byte, error) {
		key := []byte(name)
		value, _, err := s.open(key, stored[name])
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
	if h.logged = f == formatLogged; h.logged || stored[walKey] != nil {
		if v, err = get(walKey, len(wal.ID{})+8); err != nil {
			return header{}, err
		}
		h.wal, h.applied = wal.ID(v), binary.BigEndian.Uint64(v[len(wal.ID{}):])
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
	if h.guard.txid != txid {
		return header{}, fmt.Errorf("%w: its root page is of transaction %d, not %d", ErrDamaged, h.guard.txid, txid)
	}
	return h, nil
}
