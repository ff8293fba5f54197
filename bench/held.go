package main

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"go.etcd.io/bbolt"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/persist"
)

// network8 has room for a million.
var network8 = ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.0.0.0/8"), Range: netip.MustParsePrefix("10.0.0.0/8")}

// textOf is how many bytes the names and IDs of makeHeld have.
const textOf = len("container-0000000") + 64

// makeHeld makes a database in which so many addresses are held, each by a container with a name, a MAC and an ID, as
// ringlet writes it: the core's records, many to a transaction.
func makeHeld(dir string, held int) error {
	store, err := openStore(dir)
	if err != nil {
		return err
	}
	defer store.Close()
	m, err := ipam.New(ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 1)), Deal: chronicle.DealAll, Label: label})
	if err != nil {
		return err
	}
	now := time.Now()
	for done := 0; done < held; {
		err := store.Commit(func(put func(bucket string, key, value []byte) error) error {
			for range min(10_000, held-done) {
				done++
				fx := m.Step(now, &ipam.Call{ID: uint64(done), Deadline: now.Add(time.Second), Request: &ipam.AddressRequest{
					Network: network8, Purpose: ipam.ForContainer, Name: fmt.Sprintf("container-%07d", done),
					MAC: ipam.MAC{2, 0x42, byte(done >> 16), byte(done >> 8), byte(done), 1}, ID: fmt.Sprintf("%064x", done),
				}})
				if len(fx.Reply) != 1 || fx.Reply[0].Err != nil {
					return fmt.Errorf("answers %+v", fx.Reply)
				}
				for _, r := range fx.Save {
					if err := put(r.Bucket, r.Key, r.Value); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// makePacked makes a database of as many packed records: what is held, with 16 bytes of whoever holds it.
func makePacked(path string, held int) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("held"))
		if err != nil {
			return err
		}
		b.FillPercent = 0.9
		for i := range held {
			if err := b.Put(binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, 16)); err != nil {
				return err
			}
		}
		return nil
	})
}

// loadPacked reads such a database into bitmaps of 4,096 addresses and a map of records.
func loadPacked(path string) (int, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	held := map[uint64]*[64]uint64{}
	records := map[uint32][16]byte{}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte("held")).ForEach(func(k, v []byte) error {
			o := binary.BigEndian.Uint64(k)
			page := held[o>>12]
			if page == nil {
				page = new([64]uint64)
				held[o>>12] = page
			}
			page[o>>6&63] |= 1 << (o & 63)
			records[uint32(o)] = [16]byte(v)
			return nil
		})
	})
	return len(records), err
}

// measureStart measures a start with what is held, and what that takes of memory: P8 and P9.
func measureStart(b *bench) error {
	held := 100_000
	if b.short {
		held = 1_000
	}
	dir, err := b.sub("held")
	if err != nil {
		return err
	}
	if err := makeHeld(dir, held); err != nil {
		return err
	}
	packed := filepath.Join(dir, "packed.db")
	if err := makePacked(packed, held); err != nil {
		return err
	}
	verified, err := b.binary("ringlet", "..", "./plugin")
	if err != nil {
		return err
	}
	got, err := interleave(b.rounds, 0, []contender{
		working("start", func() error {
			_, store, err := openNode(dir)
			if err != nil {
				return err
			}
			return store.Close()
		}),
		working("packed", func() error {
			_, err := loadPacked(packed)
			return err
		}),
		once("verify", func() error { return persist.Verify(b.ctx, filepath.Join(dir, "ringlet.db"), []string{verified}) }),
		once("process", func() error {
			p, err := b.startRinglet(dir)
			if err != nil {
				return err
			}
			p.stop()
			return nil
		}),
	})
	if err != nil {
		return err
	}
	b.add(row{
		goal: "P8", what: fmt.Sprintf("start with %d held, in process, against reading as many packed records from bbolt", held), limit: 2,
		got:  got.times("start", "packed"),
		note: fmt.Sprintf("%s against %s; the check of the file by a child takes %s; the whole process takes %s until its first answer and its end", duration(got.p50("start").median), duration(got.p50("packed").median), duration(got.p50("verify").median), duration(got.p50("process").median)),
	})
	return b.measureMemory(dir, held)
}

// once times one call for each slice.
func once(name string, f func() error) contender {
	return contender{name, func(time.Duration) (sample, error) {
		begun := time.Now()
		err := f()
		took := float64(time.Since(begun))
		return sample{p50: took, p99: took, rate: 1e9 / took}, err
	}}
}

// working takes the processor time of one call, garbage collection included: what it reads is in memory.
func working(name string, f func() error) contender {
	return contender{name, func(time.Duration) (sample, error) {
		begun := listen().own
		err := f()
		took := (listen().own - begun) * 1e9
		return sample{p50: took, p99: took, rate: 1e9 / took}, err
	}}
}

// heapInUse returns the bytes that are in use.
func heapInUse() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// measureMemory measures the heap that a restored peer takes: P9.
func (b *bench) measureMemory(dir string, held int) error {
	each, err := heapOf(dir)
	if err != nil {
		return err
	}
	beyond := each/float64(held) - float64(textOf)
	b.add(row{
		goal: "P9", what: fmt.Sprintf("heap for each of %d held addresses beyond the %d bytes of its holder's name and ID", held, textOf), limit: 64, unit: " B",
		got: spread{beyond, beyond, beyond},
	})
	if b.short {
		return nil
	}
	const million = 1_000_000
	dir, err = b.sub("million")
	if err != nil {
		return err
	}
	if err := makeHeld(dir, million); err != nil {
		return err
	}
	all, err := heapOf(dir)
	if err != nil {
		return err
	}
	all /= 1e6
	b.add(row{goal: "P9", what: "heap with a million held", limit: 150, unit: " MB", got: spread{all, all, all}})
	return os.RemoveAll(dir)
}

// heapOf returns the heap that a peer with the database in dir takes.
func heapOf(dir string) (float64, error) {
	before := heapInUse()
	n, store, err := openNode(dir)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	after := heapInUse()
	runtime.KeepAlive(n)
	return after - before, nil
}
