package wal

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// testSegment is small, so that long batches fill it.
const testSegment = 16 << 10

// newLog returns a log with nothing in it.
func newLog(t *testing.T) *Log {
	t.Helper()
	w, err := Create(filepath.Join(t.TempDir(), "x.wal"), testSegment, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// batchOf returns a batch of one entry.
func batchOf(key string, value []byte) []byte {
	var b Batch
	b.Put("b", []byte(key), value)
	return b.Bytes()
}

func mustAppend(t *testing.T, w *Log, batch []byte) {
	t.Helper()
	if !w.Fits(batch) || w.TooLong(batch) {
		t.Fatalf("a batch of %d bytes does not fit", len(batch))
	}
	if err := w.Append(batch); err != nil {
		t.Fatal(err)
	}
}

func isDamage(err error) bool {
	_, is := errors.AsType[*DamageError](err)
	return is
}

// What was appended is read back, from the segments, from the log and by its path, and by nobody with another ID.
func TestRead(t *testing.T) {
	w := newLog(t)
	var full Segment
	long := make([]byte, testSegment/4)
	const batches = 9
	for n := range batches {
		batch := batchOf(string(rune('a'+n)), long)
		if !w.Fits(batch) {
			if n > 4 { // what is in the other segment is needed, for this test
				break
			}
			var err error
			if full, err = w.Switch(full); err != nil {
				t.Fatal(err)
			}
		}
		mustAppend(t, w, batch)
	}
	last := w.Last()
	if full.Last() != 3 || last < 5 {
		t.Fatalf("the first segment ends with batch %d, the second with %d", full.Last(), last)
	}
	for after := range last + 1 {
		for name, read := range map[string]func() ([]Entry, int, error){
			"log":  func() ([]Entry, int, error) { return w.Read(nil, after) },
			"path": func() ([]Entry, int, error) { return Read(w.path, w.ID(), nil, after) },
		} {
			list, n, err := read()
			if err != nil || uint64(n) != last-after || len(list) != n {
				t.Fatalf("%s after %d: got %d batches, %v", name, after, n, err)
			}
			for i, e := range list {
				if e.Key[0] != byte('a'+int(after)+i) || !bytes.Equal(e.Value, long) {
					t.Errorf("%s after %d: entry %d has key %s", name, after, i, e.Key)
				}
			}
		}
	}
	for after := range full.Last() + 1 {
		if list, err := full.Read(nil, after); err != nil || uint64(len(list)) != full.Last()-after {
			t.Errorf("segment after %d: got %d, %v", after, len(list), err)
		}
	}
	if _, _, err := Read(w.path, ID{1}, nil, 0); !isDamage(err) {
		t.Errorf("with another ID: got %v, want damage", err)
	}
	if _, _, err := Read(w.path+"x", w.ID(), nil, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a file: got %v", err)
	}
}

// A segment of which a record is gone is damage.
func TestSegmentThatIsSpoiled(t *testing.T) {
	w := newLog(t)
	for n := range 3 {
		mustAppend(t, w, batchOf(string(rune('a'+n)), nil))
	}
	full, err := w.Switch(Segment{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		at := n*recordAlign + recordHeader
		full.bytes[at] ^= 1
		if _, err := full.Read(nil, 0); !isDamage(err) {
			t.Errorf("record %d has changed: got %v, want damage", n, err)
		}
		if _, err := full.Read(nil, uint64(n)+1); err != nil && n == 2 {
			t.Errorf("record %d is not needed: got %v", n, err)
		}
		full.bytes[at] ^= 1
	}
}

func TestIdentify(t *testing.T) {
	w := newLog(t)
	if id, empty, err := Identify(w.path); err != nil || id != w.ID() || !empty {
		t.Errorf("a new log: got %x, %t, %v", id, empty, err)
	}
	mustAppend(t, w, batchOf("k", nil))
	if id, empty, err := Identify(w.path); err != nil || id != w.ID() || empty {
		t.Errorf("a used log: got %x, %t, %v", id, empty, err)
	}
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("what is this"), fileMode); err != nil {
		t.Fatal(err)
	}
	if id, empty, err := Identify(other); err != nil || id != (ID{}) || !empty {
		t.Errorf("a short file: got %x, %t, %v", id, empty, err)
	}
	if _, _, err := Identify(other + "x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: got %v", err)
	}
}

// A record that one bit makes whole was whole, whichever bit it is.
func TestRotten(t *testing.T) {
	for name, tt := range map[string]struct {
		value int
		turn  bool
	}{
		"short":                     {300, false},
		"the first of a segment":    {300, true},
		"longer than some sectors":  {5000, false},
		"of almost a whole segment": {testSegment - 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLog(t)
			for range 2 {
				mustAppend(t, w, batchOf("a", []byte("before")))
			}
			if tt.turn {
				if _, err := w.Switch(Segment{}); err != nil {
					t.Fatal(err)
				}
			}
			value := make([]byte, tt.value)
			for i := range value {
				value[i] = byte(rand.Uint32())
			}
			batch := batchOf("k", value)
			current, at, number := w.current, w.end, w.number
			mustAppend(t, w, batch)
			image, err := readImage(w.f, w.id)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := image.after(number); err != nil || len(got) != 1 {
				t.Fatalf("got %d records, %v, want one", len(got), err)
			}
			record := image.segments[current][at:]
			for bit := range (recordHeader + len(batch)) * 8 {
				if tt.value > 1000 && bit > 200 && rand.IntN(100) > 0 {
					continue
				}
				record[bit/8] ^= 1 << (bit % 8)
				if got, err := image.after(number); !isDamage(err) {
					t.Fatalf("bit %d: got %d records, %v, want damage", bit, len(got), err)
				}
				record[bit/8] ^= 1 << (bit % 8)
			}
		})
	}
}

// A torn record that is a bit away from the whole one is none, as what ends it is not there.
func TestTornByOneBit(t *testing.T) {
	w := newLog(t)
	mustAppend(t, w, batchOf("a", []byte("before")))
	const header = 1 + 1 + 1 + 1 + 2                         // lengths and names
	value := make([]byte, recordAlign-recordHeader-header+1) // one byte goes to the second sector
	value[len(value)-1] = 1
	current, at := w.current, w.end
	mustAppend(t, w, batchOf("k", value))
	image, err := readImage(w.f, w.id)
	if err != nil {
		t.Fatal(err)
	}
	second := image.segments[current][at+recordAlign : at+2*recordAlign]
	if second[0] != 1 || second[1] != 0 || w.end != at+2*recordAlign {
		t.Fatalf("the second sector begins with %x", second[:8])
	}
	clear(second)
	if got, err := image.after(1); err != nil || len(got) != 0 {
		t.Errorf("got %d records, %v, want none", len(got), err)
	}
}
