package persist

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"

	"go.etcd.io/bbolt"
)

// Migration turns the records of one schema into those of the next. Its changes become durable together with those
// of all other steps and with the new schema number, or not at all. An error or panic leaves the database as it was.
type Migration func(tx *Tx) error

// Tx is the write transaction that a [Migration] works in. It is not safe for concurrent use, and of no use afterwards.
type Tx struct{ t *batch }

// Get returns a copy of the value, and nil if there is no such record. An existing value is never nil.
func (tx *Tx) Get(bucket string, key []byte) ([]byte, error) {
	ob, err := tx.open(bucket)
	if err != nil || ob == nil {
		return nil, err
	}
	stored := ob.get(key)
	if stored == nil {
		return nil, nil
	}
	value, _, err := ob.seal.open(key, stored)
	if err != nil {
		return nil, damagedRecord(bucket, key, err)
	}
	return append([]byte{}, value...), nil
}

// Put stores value, or deletes the record if value is nil.
func (tx *Tx) Put(bucket string, key, value []byte) error {
	return tx.t.put(bucket, key, value)
}

// Buckets returns the names of all buckets of the caller, in order; some may hold no record.
func (tx *Tx) Buckets() ([]string, error) {
	if err := tx.t.begin(); err != nil {
		return nil, err
	}
	var names []string
	err := tx.t.tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
		if string(name) != metaBucket {
			names = append(names, string(name))
		}
		return nil
	})
	return names, err
}

// Each calls visit with copies of all records of a bucket, in order of the key. It works on what the bucket held
// when Each was called, so visit may put and delete.
func (tx *Tx) Each(bucket string, visit func(key, value []byte) error) error {
	ob, err := tx.open(bucket)
	if err != nil || ob == nil {
		return err
	}
	var keys, values [][]byte
	err = ob.b.ForEach(func(key, stored []byte) error {
		value, _, err := ob.seal.open(key, stored)
		if err != nil {
			return damagedRecord(bucket, key, err)
		}
		keys = append(keys, slices.Clone(key))
		values = append(values, append([]byte{}, value...))
		return nil
	})
	if err != nil {
		return err
	}
	for i, key := range keys {
		if err := visit(key, values[i]); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) open(bucket string) (*openBucket, error) {
	if bucket == metaBucket {
		return nil, fmt.Errorf("bucket %q is reserved", bucket)
	}
	if err := tx.t.begin(); err != nil {
		return nil, err
	}
	return tx.t.bucket(bucket, false)
}

// initialize writes the header of a database that has none.
func (s *Store) initialize(schema uint64) error {
	return s.transact(nil, func(t *batch) error {
		if err := t.putFormat(formatWhole); err != nil {
			return err
		}
		return t.putMeta(schemaKey, binary.BigEndian.AppendUint64(nil, schema))
	})
}

// migrate brings the records from schema from to the current one, in one transaction.
func (s *Store) migrate(from uint64, cfg Config) error {
	err := s.transact(nil, func(t *batch) error {
		for n := from; n < cfg.Schema; n++ {
			step := cfg.Migrations[n]
			if step == nil {
				return fmt.Errorf("%w: it has schema %d, this version writes %d and knows no way from %d: "+
					"start a version in between first", ErrNoMigration, from, cfg.Schema, n)
			}
			if err := step(&Tx{t: t}); err != nil {
				return fmt.Errorf("migrate from schema %d to %d: %w", n, n+1, err)
			}
		}
		return t.putMeta(schemaKey, binary.BigEndian.AppendUint64(nil, cfg.Schema))
	})
	if err != nil {
		return err
	}
	s.cfg.Logger.Info("database migrated", slog.Uint64("from", from), slog.Uint64("to", cfg.Schema))
	return nil
}
