package persist

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/ringlet/ringlet/persist/wal"
)

// fillPercent is how full bbolt packs a page when it splits one. Keys arrive nearly in order (see the benchmark
// of 64 consecutive keys), and pages that are filled from the left would stay half empty with bbolt's 50 %.
const fillPercent = 0.9

// batch is one write transaction. It begins with its first put, so that an empty one costs nothing.
type batch struct {
	db    *bbolt.DB
	guard guard // of the previous transaction, then of this one

	tx      *bbolt.Tx
	buckets []*openBucket // of this transaction; few, so a search in line beats a map
	arena   []byte        // holds stored values until the transaction ends, as bbolt does not copy them
}

type openBucket struct {
	name string
	b    *bbolt.Bucket
	at   *bbolt.Cursor // for get alone
	seal *sealer
}

// get returns the stored form of a value, or nil. It is Bucket.Get without a new cursor each time; Seek begins at
// the root, so writes since the last call do no harm.
func (ob *openBucket) get(key []byte) []byte {
	found, stored := ob.at.Seek(key)
	if !bytes.Equal(found, key) {
		return nil
	}
	return stored
}

func (t *batch) begin() error {
	if t.tx != nil {
		return nil
	}
	tx, err := t.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	t.tx = tx
	return nil
}

// bucket returns the open bucket. When there is none it creates one, or returns nil if create is false.
func (t *batch) bucket(name string, create bool) (*openBucket, error) {
	for _, ob := range t.buckets {
		if ob.name == name {
			return ob, nil
		}
	}
	b := t.tx.Bucket([]byte(name))
	if b == nil {
		if !create {
			return nil, nil
		}
		var err error
		if b, err = t.tx.CreateBucket([]byte(name)); err != nil {
			return nil, fmt.Errorf("create bucket %q: %w", name, err)
		}
	}
	b.FillPercent = fillPercent
	ob := &openBucket{name: name, b: b, at: b.Cursor(), seal: newSealer(name)}
	t.buckets = append(t.buckets, ob)
	return ob, nil
}

// put stores value, or deletes the record if value is nil.
func (t *batch) put(bucket string, key, value []byte) error {
	if bucket == metaBucket {
		return fmt.Errorf("bucket %q is reserved", bucket)
	}
	if err := t.begin(); err != nil {
		return err
	}
	ob, err := t.bucket(bucket, value != nil)
	if err != nil || ob == nil {
		return err
	}
	if old := ob.get(key); old != nil {
		n := len(old) - crcSize
		if n < 0 {
			return damagedRecord(bucket, key, fmt.Errorf("stored value of %d bytes is too short", len(old)))
		}
		t.guard.count--
		t.guard.sum -= contribution(binary.BigEndian.Uint32(old[n:]))
	}
	if value == nil {
		if err := ob.b.Delete(key); err != nil {
			return fmt.Errorf("delete %x from bucket %q: %w", key, bucket, err)
		}
		return nil
	}
	part, err := t.store(ob, key, value)
	if err != nil {
		return err
	}
	t.guard.count++
	t.guard.sum += part
	return nil
}

func (t *batch) store(ob *openBucket, key, value []byte) (part uint64, err error) {
	start := len(t.arena)
	t.arena, part = ob.seal.seal(t.arena, key, value)
	if err := ob.b.Put(key, t.arena[start:len(t.arena):len(t.arena)]); err != nil {
		return 0, fmt.Errorf("put %x into bucket %q: %w", key, ob.name, err)
	}
	return part, nil
}

// putMeta stores a value of our own, which the guard does not cover.
func (t *batch) putMeta(name string, value []byte) error {
	if err := t.begin(); err != nil {
		return err
	}
	ob, err := t.bucket(metaBucket, true)
	if err != nil {
		return err
	}
	_, err = t.store(ob, []byte(name), value)
	return err
}

// putFormat stores the version of the layout.
func (t *batch) putFormat(format uint64) error {
	return t.putMeta(formatKey, binary.BigEndian.AppendUint64(nil, format))
}

// putWAL stores that the database needs the log with that id, from the record after the one with the number applied on.
func (t *batch) putWAL(id wal.ID, applied uint64) error {
	if err := t.putFormat(formatLogged); err != nil {
		return err
	}
	return t.putMeta(walKey, binary.BigEndian.AppendUint64(id[:], applied))
}

// putNoWAL stores that the database needs no log. Which one it had stays, to know it by if it is not gone.
func (t *batch) putNoWAL() error { return t.putFormat(formatWhole) }

// commit makes the batch durable. Without a put it does nothing. After an error the outcome is unknown.
func (t *batch) commit() error {
	if t.tx == nil {
		return nil
	}
	t.guard.txid = uint64(t.tx.ID())
	var buf [guardSize]byte
	ob, err := t.bucket(metaBucket, true)
	if err != nil {
		return err
	}
	if _, err := t.store(ob, []byte(guardKey), t.guard.appendTo(buf[:0])); err != nil {
		return err
	}
	return t.tx.Commit()
}

// rollback ends a batch that was not committed. It may follow a failed commit.
func (t *batch) rollback() {
	if t.tx != nil {
		_ = t.tx.Rollback() // fails only when the failed commit has rolled back already
	}
}
