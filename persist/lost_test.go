package persist

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// lostPages lays over a file some pages as they were in an earlier state of it: a disk has said that they were on it.
func lostPages(rnd *rand.Rand, now, before []byte) []byte {
	const page = 4096
	image := bytes.Clone(now)
	for n := 1 + rnd.IntN(6); n > 0; n-- {
		at := (2 + rnd.IntN(len(before)/page-2)) * page // a meta page that was lost is as before its transaction
		size := page
		if rnd.IntN(3) == 0 { // some sectors of it
			at, size = at+rnd.IntN(8)*512, 512
		}
		copy(image[at:min(at+size, len(image))], before[at:min(at+size, len(before))])
	}
	return image
}

// What a disk has lost, though it said that it was there, is found, or changes nothing.
func TestLostPages(t *testing.T) {
	rnd := testRand(t)
	h := newHistory()
	found, same := 0, 0
	for range 40 {
		first, more := uint64(1+rnd.IntN(60)), uint64(1+rnd.IntN(6))
		path := madeDatabase(t, first)
		before := readFile(t, path)
		s := mustOpen(t, hastyConfig(path))
		for n := range more {
			if err := commitStep(s, first+n+1); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		now := readFile(t, path)
		for range 40 {
			image := lostPages(rnd, now, before)
			if bytes.Equal(image, now) {
				continue
			}
			other := filepath.Join(t.TempDir(), "ring.db")
			if err := os.WriteFile(other, image, 0o600); err != nil {
				t.Fatal(err)
			}
			switch err := h.checkDatabase(other, first+more, first+more); {
			case errors.Is(err, ErrDamaged):
				found++
			case err != nil:
				t.Fatalf("steps %d and %d: %v", first, more, err)
			default:
				same++
			}
		}
	}
	t.Logf("%d found, %d without effect", found, same)
}

// The same with sectors of a log. What is lost of the last batch alone is as after a power cut.
func TestLostSectorsOfTheLog(t *testing.T) {
	rnd := testRand(t)
	h := newHistory()
	found, same, last := 0, 0, 0
	logs := orShort(60, 15)
	for range logs {
		n := uint64(20 + rnd.IntN(60))
		c := crashAt(t, n)
		if !c.inLog {
			continue
		}
		earlier := crashAt(t, n-1-uint64(rnd.IntN(8)))
		for range 30 {
			image := crash{database: c.database, log: bytes.Clone(c.log)}
			for range 1 { // of one batch: where two are gone from the end nobody can tell
				at := logPage + rnd.IntN((len(c.log)-logPage)/512)*512
				switch rnd.IntN(3) {
				case 0: // what was there before is of the same log, or zeros
					copy(image.log[at:at+512], c.before[at:at+512])
				case 1: // of another one
					copy(image.log[at:at+512], earlier.log[at:at+512])
				default: // misplaced
					from := logPage + rnd.IntN((len(c.log)-logPage)/512)*512
					copy(image.log[at:at+512], c.log[from:from+512])
				}
			}
			if bytes.Equal(image.log, c.log) {
				continue
			}
			switch err := h.checkDatabase(image.lay(t), n, n); {
			case errors.Is(err, ErrDamaged):
				found++
			case err == nil:
				same++
			default:
				if err := h.checkDatabase(image.lay(t), n-1, n-1); err == nil && !bytes.Equal(image.log[c.last:c.last+recordHeader+batchAt(c.log[c.last:])], c.log[c.last:c.last+recordHeader+batchAt(c.log[c.last:])]) {
					last++
				} else {
					t.Errorf("step %d: %v", n, err)
				}
			}
		}
	}
	t.Logf("%d found, %d without effect, %d of the last batch", found, same, last)
}

// FuzzCheck reads a database in which anything was changed. It says so, or has what was in it.
func FuzzCheck(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "ring.db")
	s, err := Open(hastyConfig(path))
	if err != nil {
		f.Fatal(err)
	}
	for n := range uint64(40) {
		if err := commitStep(s, n+1); err != nil {
			f.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Add([]byte{0, 0x20, 0, 0, 2, 0, 0x30, 0, 8, 0xff})
	f.Add([]byte{0, 0, 0, 24, 7, 0, 0x10, 0, 32, 1})
	f.Fuzz(func(t *testing.T, edits []byte) {
		image := bytes.Clone(whole)
		for ; len(edits) >= 5; edits = edits[5:] {
			at := (int(edits[0])<<24 | int(edits[1])<<16 | int(edits[2])<<8 | int(edits[3])) % len(image)
			image[at] = edits[4]
		}
		same := bytes.Equal(image, whole)
		name := filepath.Join(t.TempDir(), "x.db")
		if err := os.WriteFile(name, image, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		c, err := checkOpen(file, nil)
		if err != nil {
			if same || !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrNewerSchema) {
				t.Fatal(err)
			}
			return
		}
		got := content{}
		if err := c.visit(func(bucket string, key, value []byte) error {
			got[recordName(bucket, key)] = string(value)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		from := uint64(40)
		for _, at := range []int{0, os.Getpagesize()} { // several bits of the last meta page pass for a torn write
			if at += metaStart; bitsApart(image[at:at+metaSize], whole[at:at+metaSize]) > 1 {
				from--
			}
		}
		if err := newHistory().check(got, from, 40); err != nil {
			t.Error(err)
		}
	})
}
