package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// seedFlag makes a failed random test run again: each prints the seed that it used.
var seedFlag = flag.Uint64("seed", 0, "seed of the random tests, 0 for a new one")

func testRand(t *testing.T) *rand.Rand {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("run again with -seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func isDamage(err error) bool {
	_, is := errors.AsType[*DamageError](err)
	return is
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// madeFile returns a file that bbolt has written: with branches, free pages, values of several pages, and two small buckets.
func madeFile(t testing.TB) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{NoSync: true, NoGrowSync: true, NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	db.NoFreelistSync = false
	rnd := rand.New(rand.NewPCG(1, 1))
	for n := range 40 {
		err := db.Update(func(tx *bbolt.Tx) error {
			held, err := tx.CreateBucketIfNotExists([]byte("held"))
			if err != nil {
				return err
			}
			first := rnd.IntN(600)
			for i := range 24 {
				key := binary.BigEndian.AppendUint32([]byte("10.0"), uint32(first+i))
				value := make([]byte, rnd.IntN(200))
				switch rnd.IntN(40) {
				case 0:
					value = make([]byte, 5000+rnd.IntN(9000))
				case 1, 2, 3, 4:
					if err := held.Delete(key); err != nil {
						return err
					}
					continue
				}
				for j := range value {
					value[j] = byte(rnd.Uint32())
				}
				if err := held.Put(key, value); err != nil {
					return err
				}
			}
			for _, name := range []string{"meta", "step"} {
				small, err := tx.CreateBucketIfNotExists([]byte(name))
				if err != nil {
					return err
				}
				if err := small.Put([]byte("last"), binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	image, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// contentOf checks a file and returns what is in it, by bucket, 0 and key.
func contentOf(image []byte) (map[string]string, error) {
	got := map[string]string{}
	_, err := Check(bytes.NewReader(image), int64(len(image)), func(t *Trees) error {
		return t.readRecords(func(bucket string, key, value []byte) { got[bucket+"\x00"+string(key)] = string(value) })
	})
	return got, err
}

var hashSeed = maphash.MakeSeed()

// hashOf checks a file and returns a hash of what is in it.
func hashOf(image []byte) (sum uint64, err error) {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	_, err = Check(bytes.NewReader(image), int64(len(image)), func(t *Trees) error {
		return t.readRecords(func(bucket string, key, value []byte) {
			for _, part := range [][]byte{[]byte(bucket), key, value} {
				maphash.WriteComparable(&h, len(part))
				h.Write(part)
			}
		})
	})
	return h.Sum64(), err
}

// readRecords reads all trees, in which there should be nothing but records, and calls visit with each of them.
func (t *Trees) readRecords(visit func(bucket string, key, value []byte)) error {
	for _, b := range t.Buckets() {
		_, err := t.Read(b, func(l Entries) error {
			for l.More() {
				isBucket, both, key := l.Next()
				if isBucket {
					return damaged("its bucket %q has one", b.Name)
				}
				visit(b.Name, both[:key], both[key:])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func ignore(string, []byte, []byte) {}

// What the check shows is what bbolt shows, and so is what is read of it afterwards.
func TestCheck(t *testing.T) {
	image := madeFile(t)
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := map[string]string{}
	err = db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(key, value []byte) error {
				want[string(name)+"\x00"+string(key)] = string(value)
				return nil
			})
		})
	})
	if err != nil || len(want) < 100 {
		t.Fatalf("%d records, %v", len(want), err)
	}
	if got, err := contentOf(image); err != nil || !maps.Equal(got, want) {
		t.Errorf("got %d records, %v, want %d", len(got), err, len(want))
	}
	kept := map[string]Leaves{}
	file, err := Check(bytes.NewReader(image), int64(len(image)), func(t *Trees) error {
		for _, b := range t.Buckets() {
			leaves, err := t.Read(b, func(Entries) error { return nil })
			if err != nil {
				return err
			}
			kept[b.Name] = leaves
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again := map[string]string{}
	for name, leaves := range kept {
		err := file.Read(leaves, func(l Entries) error {
			for l.More() {
				_, both, key := l.Next()
				again[name+"\x00"+string(both[:key])] = string(both[key:])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if !maps.Equal(again, want) {
		t.Errorf("got %d records, want %d", len(again), len(want))
	}
}

// A bucket that the visit passes over is found, as nobody else has its pages; and its error is returned as it is.
func TestCheckVisit(t *testing.T) {
	image := madeFile(t)
	if _, err := Check(bytes.NewReader(image), int64(len(image)), func(*Trees) error { return nil }); !isDamage(err) {
		t.Errorf("nothing was read: got %v, want damage", err)
	}
	failed := errors.New("failed")
	if _, err := Check(bytes.NewReader(image), int64(len(image)), func(*Trees) error { return failed }); err != failed { //nolint:errorlint // the very same
		t.Errorf("got %v, want %v", err, failed)
	}
}

// The last meta page is written where it was.
func TestWriteMeta(t *testing.T) {
	image := madeFile(t)
	file, err := Check(bytes.NewReader(image), int64(len(image)), func(t *Trees) error { return t.readRecords(ignore) })
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.db")
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := int64(file.meta.txid()%2) * int64(os.Getpagesize())
	if _, err := f.WriteAt(make([]byte, 100), page+metaStart); err != nil {
		t.Fatal(err)
	}
	if err := file.WriteMeta(f); err != nil || !bytes.Equal(readFile(t, path)[page:][:metaStart+metaSize], image[page:][:metaStart+metaSize]) {
		t.Errorf("it is not as it was: %v", err)
	}
}

// FuzzCheck reads a file in which anything was changed. It ends without a panic, and what it shows is in order.
func FuzzCheck(f *testing.F) {
	whole := madeFile(f)
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Add([]byte{0, 0x20, 0, 0, 2, 0, 0x30, 0, 8, 0xff})
	f.Add([]byte{0, 0, 0, 24, 7, 0, 0x10, 0, 32, 1})
	f.Fuzz(func(t *testing.T, edits []byte) {
		image := bytes.Clone(whole)
		for ; len(edits) >= 5; edits = edits[5:] {
			image[int(binary.BigEndian.Uint32(edits))%len(image)] = edits[4]
		}
		if _, err := hashOf(image); err != nil && !isDamage(err) {
			t.Error(err)
		}
	})
}
