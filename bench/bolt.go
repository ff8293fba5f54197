package main

import (
	"encoding/binary"
	"sync"

	"go.etcd.io/bbolt"
)

// floorKeys is how many keys the floors of what is durable cycle through: as many as a /16 has addresses.
const floorKeys = 1 << 16

// floorValue is as long as what ringlet writes of a container: state, time, number, key, MAC, network and name.
const floorValue = 52

// boltFloor is bbolt with the options that ringlet has, and nothing around it.
type boltFloor struct {
	db   *bbolt.DB
	next uint64

	mu      sync.Mutex
	queue   []chan error
	leading bool
}

func openBolt(path string) (*boltFloor, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		return nil, err
	}
	return &boltFloor{db: db}, db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket([]byte("held"))
		return err
	})
}

// commit makes n keys durable in one transaction, behind the last ones.
func (f *boltFloor) commit(n int) error {
	return f.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("held"))
		b.FillPercent = 0.9
		for range n {
			var key [20]byte
			binary.BigEndian.PutUint64(key[12:], f.next%floorKeys)
			f.next++
			if err := b.Put(key[:], make([]byte, floorValue)); err != nil {
				return err
			}
		}
		return nil
	})
}

// one makes one key durable, together with those of all who come meanwhile.
func (f *boltFloor) one() error {
	done := make(chan error, 1)
	f.mu.Lock()
	f.queue = append(f.queue, done)
	if f.leading {
		f.mu.Unlock()
		return <-done
	}
	f.leading = true
	for len(f.queue) > 0 {
		batch := f.queue
		f.queue = nil
		f.mu.Unlock()
		err := f.commit(len(batch))
		for _, c := range batch {
			c <- err
		}
		f.mu.Lock()
	}
	f.leading = false
	f.mu.Unlock()
	return <-done
}
