package persist

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/durable"
)

// The form of a log, see package wal.
const (
	logPage      = 4096
	logHeader    = 8 + 16 + 8 + 4
	recordHeader = 4 + 4 + 8
	recordAlign  = 512
)

// recordSize is what a batch takes in a log, in bytes.
func recordSize(batch int) int {
	return (recordHeader + batch + 8 + recordAlign - 1) / recordAlign * recordAlign
}

// crash is what a process leaves that ends without closing its database.
type crash struct {
	database, log []byte

	before []byte // the log before the last step
	inLog  bool   // whether that step is in the log
	last   int    // where its record begins in the file, if it is
}

// crashAt commits steps 1 to n and returns what is on disk then.
func crashAt(t *testing.T, n uint64) crash {
	t.Helper()
	s := mustOpen(t, hastyConfig(dbPath(t)))
	var c crash
	for i := range n {
		number := uint64(0)
		if s.wal != nil {
			c.before, number = readFile(t, walPath(s.path)), s.wal.Last()
		}
		if err := commitStep(s, i+1); err != nil {
			t.Fatal(err)
		}
		c.inLog = s.wal.Last() > number
	}
	image := crashOf(t, s)
	c.database, c.log, c.last = image.database, image.log, firstDifference(c.before, image.log)
	return c
}

// crashOf copies the files of an open store when no checkpoint runs.
func crashOf(t *testing.T, s *Store) crash {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.endCheckpoint(true); err != nil {
		t.Fatal(err)
	}
	return crash{database: readFile(t, s.path), log: readFile(t, walPath(s.path))}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i / recordAlign * recordAlign
		}
	}
	return 0
}

// lay puts the files where a start finds them.
func (c crash) lay(t *testing.T) (path string) {
	t.Helper()
	path = dbPath(t)
	writeAll(t, filepath.Dir(path), map[string][]byte{filepath.Base(path): c.database, filepath.Base(walPath(path)): c.log})
	return path
}

// What was committed is there after a crash at each step, and the log is gone once it has been taken in.
func TestLogIsTakenIn(t *testing.T) {
	const steps = 120
	h := newHistory()
	s := mustOpen(t, hastyConfig(dbPath(t)))
	inLog := 0
	for n := range uint64(steps) {
		if err := commitStep(s, n+1); err != nil {
			t.Fatal(err)
		}
		c := crashOf(t, s)
		if s.wal.Last() > s.applied {
			inLog++
		}
		path := c.lay(t)
		if err := h.checkDatabase(path, n+1, n+1); err != nil {
			t.Fatalf("step %d: %v", n+1, err)
		}
		if found, err := durable.Exists(walPath(path)); err != nil || found {
			t.Fatalf("step %d: the log is still there (%v)", n+1, err)
		}
	}
	if inLog < steps/2 {
		t.Errorf("only %d of %d steps were in the log", inLog, steps)
	}
}

// A last record that a power cut tore is not there, and costs nothing else.
func TestTornRecord(t *testing.T) {
	h := newHistory()
	rnd := testRand(t)
	torn := 0
	for n := uint64(20); n < 60; n++ {
		c := crashAt(t, n)
		if !c.inLog {
			continue // it had no room there
		}
		whole := c.log
		batch := batchAt(whole[c.last:])
		end, said := c.last+recordSize(batch), c.last+recordHeader+batch
		for range 4 {
			c.log = slices.Clone(whole)
			cut := false
			for at := c.last; at < end; at += sector / 8 { // finer than any disk
				if rnd.IntN(2) == 0 {
					piece := c.log[at:min(at+sector/8, end)]
					cut = cut || !bytes.Equal(piece, c.before[at:][:len(piece)]) && at+len(piece) == end
					copy(piece, c.before[at:])
				}
			}
			if n := bitsApart(c.log[:said], whole[:said]); n == 0 || n == 1 && !cut {
				continue // it is whole, or taken for rot
			}
			torn++
			if err := h.checkDatabase(c.lay(t), n-1, n-1); err != nil {
				t.Fatalf("step %d, torn: %v", n, err)
			}
		}
	}
	if torn < 20 {
		t.Errorf("only %d records were torn", torn)
	}
}

func batchAt(record []byte) int {
	return int(record[crcSize])<<24 | int(record[crcSize+1])<<16 | int(record[crcSize+2])<<8 | int(record[crcSize+3])
}

// No bit of a log can change unnoticed, unless nothing is in its place that the database needs.
func TestLogBitFlips(t *testing.T) {
	const n = 47
	flips := orShort(400, 80)
	rnd := testRand(t)
	c := crashAt(t, n)
	h := newHistory()
	found := 0
	for i := range flips {
		at := rnd.IntN(len(c.log))
		switch i % 4 {
		case 0:
			at = rnd.IntN(logHeader)
		case 1: // the last record, which could be taken for a torn one
			at = c.last + rnd.IntN(recordHeader+batchAt(c.log[c.last:]))
		}
		bit := byte(1) << rnd.IntN(8)
		c.log[at] ^= bit
		path := c.lay(t)
		switch err := h.checkDatabase(path, n, n); {
		case errors.Is(err, ErrDamaged):
			found++
		case err != nil:
			t.Fatalf("bit %08b of byte %d: %v", bit, at, err)
		case i%4 < 2:
			t.Fatalf("bit %08b of byte %d was not noticed", bit, at)
		}
		c.log[at] ^= bit
	}
	t.Logf("%d flips: %d found, %d without effect", flips, found, flips-found)
}

// A database whose log is not there, or not its own, is set aside with what is there of it.
func TestLogOfAnother(t *testing.T) {
	c, other := crashAt(t, 30), crashAt(t, 30)
	for name, log := range map[string][]byte{
		"missing": nil, "of another database": other.log, "cut short": c.log[:len(c.log)-1], "cut to nothing": {},
		"cut by two pages": c.log[:len(c.log)-2*logPage],
		"zeros":            make([]byte, len(c.log)),
	} {
		t.Run(name, func(t *testing.T) {
			path := crash{database: c.database, log: log}.lay(t)
			if log == nil {
				if err := os.Remove(walPath(path)); err != nil {
					t.Fatal(err)
				}
			}
			if err := CheckFile(path); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), walPath(path)) {
				t.Errorf("check: got %v, want damage that names the log", err)
			}
			s, damage, err := OpenOrReplace(hastyConfig(path))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if damage == nil || !errors.Is(damage.Cause, ErrDamaged) || !strings.Contains(damage.String(), walPath(path)) {
				t.Fatalf("got %v, want damage that names the log", damage)
			}
			if got := readFile(t, damage.Kept); !bytes.Equal(got, c.database) {
				t.Error("the database was not kept as it was")
			}
			if kept, err := os.ReadFile(walPath(damage.Kept)); !bytes.Equal(kept, log) || (err == nil) != (log != nil) {
				t.Errorf("the log was not kept as it was (%v)", err)
			}
			if again, err := LeftAside(path); err != nil || again == nil || again.Kept != damage.Kept {
				t.Errorf("afterwards got %v, %v, want what was kept", again, err)
			}
			// With its own log beside it, it is whole again.
			writeAll(t, filepath.Dir(path), map[string][]byte{filepath.Base(walPath(damage.Kept)): c.log})
			if err := newHistory().checkDatabase(damage.Kept, 30, 30); err != nil {
				t.Error(err)
			}
		})
	}
}

// The log of a database that somebody took away is kept, and tells that there was one until something is written to the new
// one.
func TestLogWithoutDatabase(t *testing.T) {
	c := crashAt(t, 20)
	path := c.lay(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		s, damage, err := OpenOrReplace(hastyConfig(path))
		if err != nil {
			t.Fatal(err)
		}
		kept, err := filepath.Glob(path + asideInfix + "*")
		if err != nil || len(kept) != 1 || !bytes.Equal(readFile(t, kept[0]), c.log) {
			t.Fatalf("got %v (%v), want the log", kept, err)
		}
		if told := damage != nil && damage.Kept == kept[0] && errors.Is(damage.Cause, ErrDamaged); told != (n < 2) {
			t.Errorf("start %d: got %v", n, damage)
		}
		if n == 1 {
			err = commitStep(s, 1)
		}
		if err := errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// Where no log can be made, each batch is a transaction of the database.
func TestNoLogCanBeMade(t *testing.T) {
	path := dbPath(t)
	s := mustOpen(t, testConfig(path))
	if err := os.Mkdir(walPath(path), dirMode); err != nil {
		t.Fatal(err)
	}
	for n := range uint64(5) {
		if err := commitStep(s, n+1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(walPath(path)); err != nil {
		t.Fatal(err)
	}
	if err := newHistory().checkDatabase(path, 5, 5); err != nil {
		t.Error(err)
	}
}

// Of a log that was made and never needed nothing stays, however often a process ends before it needs its own.
func TestLogNeverNeeded(t *testing.T) {
	path := madeDatabase(t, 7)
	for range 3 {
		c := crash{database: readFile(t, path)}
		s, err := Open(hastyConfig(path))
		if err != nil {
			t.Fatal(err)
		}
		s.makeWAL()
		m := <-s.making // and the process ends here
		s.making = nil
		if m.err != nil || !bytes.Equal(readFile(t, path), c.database) {
			t.Fatalf("got %v, and the database has changed", m.err)
		}
		if err := errors.Join(m.wal.Close(), s.db.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if err := newHistory().checkDatabase(path, 7, 7); err != nil {
		t.Error(err)
	}
	s := mustOpen(t, hastyConfig(path))
	if err := errors.Join(commitStep(s, 8), commitStep(s, 9), s.Close()); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(path + "*"); err != nil || len(names) != 1 {
		t.Errorf("got files %v (%v), want the database alone", names, err)
	}
}

// What a process left of a log that no database needs is no obstacle.
func TestUnneededLog(t *testing.T) {
	path := madeDatabase(t, 7)
	if err := os.WriteFile(walPath(path), []byte("what is this"), fileMode); err != nil {
		t.Fatal(err)
	}
	if err := newHistory().checkDatabase(path, 7, 7); err != nil {
		t.Error(err)
	}
	if found, err := durable.Exists(walPath(path)); err != nil || found {
		t.Errorf("it is still there (%v)", err)
	}
}

// A database that was closed is one file in the format of the time before there were logs.
func TestClosedIsOneFile(t *testing.T) {
	path := madeDatabase(t, 50)
	if names, err := filepath.Glob(path + "*"); err != nil || len(names) != 1 {
		t.Errorf("got files %v (%v), want the database alone", names, err)
	}
	cfg := hastyConfig(path)
	cfg.segment = -1
	s := mustOpen(t, cfg)
	if h := headerOf(t, s); h.logged {
		t.Error("it says that it needs a log")
	}
}

func headerOf(t *testing.T, s *Store) (h header) {
	t.Helper()
	c, err := checkOpen(s.file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.header
}
