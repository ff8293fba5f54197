package persist

import (
	"bytes"
	"errors"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"go.etcd.io/bbolt"
)

type writeAt = func(b []byte, off int64) (int, error)

// hookWriteAt puts a function in the place where bbolt writes pages. It has a hook there, but only for its own tests.
func hookWriteAt(db *bbolt.DB, wrap func(writeAt) writeAt) {
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	hook := (*writeAt)(unsafe.Pointer(field.UnsafeAddr()))
	*hook = wrap(*hook)
}

// pageWrite is one recorded write.
type pageWrite struct {
	off  int64
	data []byte
	size int64 // of the file before the write; bbolt syncs growth at once
}

// transaction holds the writes of one commit: pages, which a sync ends, and the meta page, which another one ends.
// That the syncs are there is the assertion of TestSyncOrder.
type transaction struct {
	pages []pageWrite
	meta  pageWrite
}

const sector = 512

// Where the meta page lies behind its header, and how long it is, see package boltfile.
const (
	metaStart = 16
	metaSize  = 64
)

// recordWorkload commits steps and returns the file before them and the writes of each.
func recordWorkload(t *testing.T, steps uint64) (base []byte, txs []transaction) {
	t.Helper()
	path := madeDatabase(t, 0)
	base, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var log []pageWrite
	cfg := modeConfig(path, modeNoLog)
	cfg.opened = func(db *bbolt.DB) {
		hookWriteAt(db, func(write writeAt) writeAt {
			return func(b []byte, off int64) (int, error) {
				info, err := os.Stat(path)
				if err != nil {
					return 0, err
				}
				log = append(log, pageWrite{off, bytes.Clone(b), info.Size()})
				return write(b, off)
			}
		})
	}
	s := mustOpen(t, cfg)
	for n := range steps {
		log = nil
		s.db.NoFreelistSync = n%5 < 2 // an earlier version had it, so that lists come and go
		if err := commitStep(s, n+1); err != nil {
			t.Fatal(err)
		}
		last := len(log) - 1
		if log[last].off >= 2*int64(os.Getpagesize()) {
			t.Fatalf("the last write of a commit is at %d, want a meta page", log[last].off)
		}
		txs = append(txs, transaction{pages: log[:last], meta: log[last]})
	}
	return base, txs
}

// onto applies the first n bytes of w.
func (w pageWrite) onto(image []byte, n int) []byte {
	if grow := w.size - int64(len(image)); grow > 0 {
		image = append(image, make([]byte, grow)...)
	}
	copy(image[w.off:], w.data[:n])
	return image
}

// someSectors applies a random part of w, in whole sectors.
func (w pageWrite) someSectors(rnd *rand.Rand, image []byte) []byte {
	image = w.onto(image, 0)
	for at := 0; at < len(w.data); at += sector {
		if rnd.IntN(2) == 0 {
			copy(image[w.off+int64(at):], w.data[at:at+sector])
		}
	}
	return image
}

func TestEveryCrashState(t *testing.T) {
	steps := uint64(orShort(150, 40))
	rnd := testRand(t)
	base, txs := recordWorkload(t, steps)
	path := filepath.Join(t.TempDir(), "crashed.db")
	h := newHistory()
	states := 0
	check := func(image []byte, from, to uint64, what string) {
		t.Helper()
		states++
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := h.checkDatabase(path, from, to); err != nil {
			t.Fatalf("commit %d, %s: %v", to, what, err)
		}
	}
	for i, tx := range txs {
		done, next := uint64(i), uint64(i+1)
		// Before the first sync: any pages, whole or in part, in any order.
		for range 4 {
			image := slices.Clone(base)
			for _, w := range tx.pages {
				switch rnd.IntN(3) {
				case 0:
					image = w.onto(image, len(w.data))
				case 1:
					image = w.someSectors(rnd, image)
				}
			}
			check(image, done, done, "some pages")
		}
		for _, w := range tx.pages {
			base = w.onto(base, len(w.data))
		}
		// Before the second sync: the meta page, torn at a sector or anywhere.
		check(tx.meta.someSectors(rnd, slices.Clone(base)), done, next, "some sectors of the meta page")
		for range 4 {
			cut := metaStart + rnd.IntN(metaSize+1)
			image := tx.meta.onto(slices.Clone(base), cut)
			whole := tx.meta.onto(slices.Clone(base), len(tx.meta.data))
			if bitsApart(image, whole) == 1 {
				continue // deliberately taken for bit rot of a page that was complete, see checkTorn
			}
			check(image, done, next, "torn meta page")
		}
		base = tx.meta.onto(base, len(tx.meta.data))
		check(base, next, next, "all")
	}
	t.Logf("%d states of %d commits", states, steps)
}

func bitsApart(a, b []byte) (n int) {
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

// The control of TestEveryCrashState: a meta page that reaches the disk before its pages must be noticed.
func TestCrashStateControl(t *testing.T) {
	const steps = 40
	base, txs := recordWorkload(t, steps)
	path := filepath.Join(t.TempDir(), "crashed.db")
	bad := 0
	for i, tx := range txs {
		image := tx.meta.onto(slices.Clone(base), len(tx.meta.data))
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		switch err := CheckFile(path); {
		case errors.Is(err, ErrDamaged):
			bad++
		case err != nil:
			t.Fatal(err)
		default:
			t.Errorf("commit %d: a meta page without its pages passed the check", i+1)
		}
		for _, w := range append(tx.pages, tx.meta) {
			base = w.onto(base, len(w.data))
		}
	}
	t.Logf("%d of %d damaged", bad, steps)
}

// Each write of a commit fails in turn, with nothing or with a part of it written.
func TestEachWriteFails(t *testing.T) {
	const first, steps = 20, 8
	refused := errors.New("write refused")
	h := newHistory()
	for fail := 0; ; fail++ {
		path := madeDatabase(t, first)
		writes := 0
		cfg := modeConfig(path, modeNoLog)
		cfg.opened = func(db *bbolt.DB) {
			hookWriteAt(db, func(write writeAt) writeAt {
				return func(b []byte, off int64) (int, error) {
					if writes++; writes > fail {
						n := len(b) / 2 * (fail % 2)
						if _, err := write(b[:n], off); err != nil {
							return 0, err
						}
						return n, refused
					}
					return write(b, off)
				}
			})
		}
		s := mustOpen(t, cfg)
		var err error
		done := uint64(first)
		for ; done < first+steps; done++ {
			if err = commitStep(s, done+1); err != nil {
				break
			}
		}
		if err == nil {
			t.Logf("%d writes", writes)
			return
		}
		if !errors.Is(err, refused) || errors.Is(err, ErrFailed) {
			t.Fatalf("write %d: got %v, want the refused write", fail, err)
		}
		if again := commitStep(s, done+1); !errors.Is(again, ErrFailed) || !errors.Is(again, refused) {
			t.Fatalf("write %d: afterwards got %v, want ErrFailed with its cause", fail, again)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := h.checkDatabase(path, done, done+1); err != nil {
			t.Fatalf("write %d: %v", fail, err)
		}
	}
}

func TestHookIsStillThere(t *testing.T) {
	field, ok := reflect.TypeFor[bbolt.DB]().FieldByName("ops")
	if !ok || !strings.Contains(field.Type.String(), "writeAt func([]uint8, int64)") {
		t.Errorf("bbolt.DB.ops is %v; hookWriteAt must follow", field.Type)
	}
}
