package main

import (
	"encoding/binary"
	"sync"
	"time"

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

// oneClient times f again and again, for as long as it is told.
func oneClient(name string, f func() (time.Duration, error)) contender {
	return clients(name, 1, func(int) func() (time.Duration, error) { return f })
}

// clients has many clients at once time what they do again and again. what returns what a client does, which says how
// much of its time counts.
func clients(name string, n int, what func(client int) func() (time.Duration, error)) contender {
	list := []func() (time.Duration, error){}
	for i := range n {
		list = append(list, what(i))
	}
	return contender{name, func(slice time.Duration) (sample, error) {
		var mu sync.Mutex
		var all []float64
		var failed error
		var wg sync.WaitGroup
		begun := time.Now()
		for _, f := range list {
			wg.Go(func() {
				var times []float64
				for time.Since(begun) < slice {
					took, err := f()
					if err != nil {
						mu.Lock()
						failed = err
						mu.Unlock()
						return
					}
					times = append(times, float64(took))
				}
				mu.Lock()
				all = append(all, times...)
				mu.Unlock()
			})
		}
		wg.Wait()
		took := time.Since(begun)
		if failed != nil || len(all) == 0 {
			return sample{}, failed
		}
		s := spreadOf(all) // sorted now
		return sample{p50: s.median, p99: all[len(all)*99/100], rate: float64(len(all)) / took.Seconds()}, nil
	}}
}

// timed turns a call into one that is timed.
func timed(f func() error) func() (time.Duration, error) {
	return func() (time.Duration, error) {
		begun := time.Now()
		err := f()
		return time.Since(begun), err
	}
}
