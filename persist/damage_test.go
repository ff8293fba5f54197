package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// openDamaged opens a file with the given bytes as a program would, and demands that the content is exactly that of
// step n, or that the file was kept as it is and said to be damaged. It reports which.
func openDamaged(t *testing.T, h *history, image []byte, n uint64) (found bool) {
	t.Helper()
	path := dbPath(t)
	if err := os.WriteFile(path, image, 0o600); err != nil {
		t.Fatal(err)
	}
	seen := &shown{t: t}
	cfg := hastyConfig(path)
	cfg.Preview = seen
	s, damage, err := OpenOrReplace(cfg)
	if err != nil {
		t.Errorf("got error %v, want a store", err)
		return false
	}
	defer s.Close()
	got, err := loadContent(s)
	if err != nil {
		t.Errorf("load: %v", err)
		return false
	}
	if !seen.ended || !maps.Equal(seen.content, got) {
		t.Errorf("the preview was shown %d records, to the end: %t; %d are loaded, or they differ", len(seen.content), seen.ended, len(got))
	}
	if damage == nil {
		if err := h.check(got, n, n); err != nil {
			t.Errorf("silently wrong: %v", err)
		}
		// It must also be good to go on with.
		const more = 8
		for i := range uint64(more) {
			if err := commitStep(s, n+1+i); err != nil {
				t.Errorf("commit %d after it: %v", i+1, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if err := h.checkDatabase(path, n+more, n+more); err != nil {
			t.Errorf("after %d commits: %v", more, err)
		}
		return false
	}
	if len(got) != 0 {
		t.Errorf("the new store holds %d records, want none", len(got))
	}
	if !errors.Is(damage.Cause, ErrDamaged) || !strings.Contains(damage.String(), damage.Kept) {
		t.Errorf("got damage %v, want ErrDamaged and the name %s", damage, damage.Kept)
	}
	if kept, err := os.ReadFile(damage.Kept); err != nil || !bytes.Equal(kept, image) {
		t.Errorf("the kept file is not the damaged one (%v)", err)
	}
	return true
}

func TestTruncated(t *testing.T) {
	const n = 60
	image := readFile(t, madeDatabase(t, n))
	h := newHistory()
	page := os.Getpagesize()
	for _, size := range []int{0, 1, 100, page - 1, page, page + 80, 2 * page, 3*page + 17, 8 * page, len(image) / 2} {
		if !openDamaged(t, h, image[:size], n) {
			t.Errorf("a file cut to %d of %d bytes passed", size, len(image))
		}
	}
	if openDamaged(t, h, image, n) {
		t.Error("the whole file did not pass")
	}
}

func TestNoDatabase(t *testing.T) {
	empty := dbPath(t)
	db, err := bbolt.Open(empty, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	foreign := dbPath(t)
	if db, err = bbolt.Open(foreign, 0o600, &bbolt.Options{NoFreelistSync: true}); err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("things"))
		return errors.Join(err, b.Put([]byte("k"), []byte("v")))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for name, image := range map[string][]byte{
		"text": []byte(strings.Repeat("this is no database\n", 1000)), "zeros": make([]byte, 1<<16),
		"bbolt without content": readFile(t, empty), "bbolt of another program": readFile(t, foreign),
	} {
		t.Run(name, func(t *testing.T) {
			if !openDamaged(t, newHistory(), image, 0) {
				t.Error("it passed")
			}
		})
	}
}

// Random bits of the file change. Half of the flips aim at the first bytes of pages, where bbolt's structure is.
func TestBitFlips(t *testing.T) {
	const n = 40
	flips := orShort(250, 60)
	rnd := testRand(t)
	image := readFile(t, madeDatabase(t, n))
	h := newHistory()
	found := 0
	for range flips {
		bit := rnd.IntN(len(image) * 8)
		if rnd.IntN(2) == 0 {
			page := os.Getpagesize()
			bit = rnd.IntN(len(image)/page)*page*8 + rnd.IntN(80*8)
		}
		image[bit/8] ^= 1 << (bit % 8)
		if openDamaged(t, h, image, n) {
			found++
		}
		if t.Failed() {
			t.Fatalf("bit %d of byte %d", bit%8, bit/8)
		}
		image[bit/8] ^= 1 << (bit % 8)
	}
	t.Logf("%d flips: %d found, %d without effect", flips, found, flips-found)
	if found == 0 {
		t.Error("nothing was found")
	}
}

// Whatever is in the trees ends the check with an error, if it ends it, and not the process.
func TestGarbage(t *testing.T) {
	rnd := testRand(t)
	image := readFile(t, madeDatabase(t, 40))
	page := os.Getpagesize()
	found := 0
	for range 5000 {
		spoiled := bytes.Clone(image)
		for range 1 + rnd.IntN(4) {
			at := (2+rnd.IntN(len(image)/page-2))*page + rnd.IntN(160)
			if rnd.IntN(4) == 0 {
				at = 2*page + rnd.IntN(len(image)-3*page)
			}
			word := []uint64{0, 1, 1 << 31, 1<<32 - 1, 1<<64 - 1, rnd.Uint64(), rnd.Uint64N(uint64(len(image) / page))}[rnd.IntN(7)]
			copy(spoiled[at:], binary.NativeEndian.AppendUint64(nil, word)[:1<<rnd.IntN(4)])
		}
		_, err := check(bytes.NewReader(spoiled), int64(len(spoiled)), nil)
		if errors.Is(err, ErrDamaged) {
			found++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 5000 found", found)
	if found < 1000 {
		t.Error("what was changed seems not to be read")
	}
}

// What a record check cannot see, the guard sees: records that are missing or of another time.
func TestGuard(t *testing.T) {
	for name, change := range map[string]func(b *bbolt.Bucket, key, stored []byte) error{
		"missing": func(b *bbolt.Bucket, key, _ []byte) error { return b.Delete(key) },
		"of another time": func(b *bbolt.Bucket, key, _ []byte) error {
			old, _ := newSealer("held").seal(nil, key, []byte("old"))
			return b.Put(key, old)
		},
		"added": func(b *bbolt.Bucket, _, _ []byte) error {
			more, _ := newSealer("held").seal(nil, []byte("more"), []byte("new"))
			return b.Put([]byte("more"), more)
		},
		"too short": func(b *bbolt.Bucket, key, _ []byte) error { return b.Put(key, []byte("abc")) },
		"changed": func(b *bbolt.Bucket, key, stored []byte) error {
			stored = bytes.Clone(stored)
			stored[0]++
			return b.Put(key, stored)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := madeDatabase(t, 10)
			s := mustOpen(t, testConfig(path))
			// The guard is brought to the new transaction, so that only what it says of the records can be wrong.
			err := s.db.Update(func(tx *bbolt.Tx) error {
				b := tx.Bucket([]byte("held"))
				key, stored := b.Cursor().First()
				if err := change(b, key, stored); err != nil {
					return err
				}
				g := s.guard
				g.txid = uint64(tx.ID())
				value, _ := newSealer(metaBucket).seal(nil, []byte(guardKey), g.appendTo(nil))
				return tx.Bucket([]byte(metaBucket)).Put([]byte(guardKey), value)
			})
			if err != nil {
				t.Fatal(err)
			}
			s.checked = nil // what it was before
			if _, err := loadContent(s); !errors.Is(err, ErrDamaged) {
				t.Errorf("load: got %v, want ErrDamaged", err)
			}
			s.Close()
			if _, err := Open(testConfig(path)); !errors.Is(err, ErrDamaged) {
				t.Errorf("open: got %v, want ErrDamaged", err)
			}
			if err := CheckFile(path); !errors.Is(err, ErrDamaged) {
				t.Errorf("check: got %v, want ErrDamaged", err)
			}
		})
	}
}

// What keeps a healthy file from being read must not cost the file its place.
func TestNotDamage(t *testing.T) {
	path := madeDatabase(t, 5)
	dir := filepath.Join(t.TempDir(), "a directory")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"a directory":              dir,
		"a path through that file": filepath.Join(path, "x"),
	} {
		t.Run(name, func(t *testing.T) {
			_, damage, err := OpenOrReplace(testConfig(path))
			if err == nil || errors.Is(err, ErrDamaged) || damage != nil {
				t.Errorf("got %v, %v, want another error", damage, err)
			}
		})
	}
	t.Run("file without permission", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may read everything")
		}
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		_, damage, err := OpenOrReplace(testConfig(path))
		if err == nil || !strings.Contains(err.Error(), "permission denied") || errors.Is(err, ErrDamaged) || damage != nil {
			t.Errorf("got %v, %v, want the missing permission", damage, err)
		}
		if err := os.Chmod(path, fileMode); err != nil {
			t.Fatal(err)
		}
	})
}

// A disk that cannot read a part of the file does not end the process that checks it, and costs the file nothing.
func TestUnreadable(t *testing.T) {
	path := madeDatabase(t, 40)
	image := readFile(t, path)
	dir := t.TempDir()
	root, _ := mountPowerFS(t, dir, -1)
	path = filepath.Join(dir, "ring.db")
	writeAll(t, dir, map[string][]byte{"ring.db": image})
	for _, tt := range []struct {
		from int
		want string
	}{
		{len(image), "intact"},
		{len(image) / 2, "input/output error"},
		{3 * os.Getpagesize(), "input/output error"},
		{100, "input/output error"},
	} {
		root.breakFrom(tt.from)
		// In a process of its own: one that waits for memory it serves itself might wait for ever.
		_, out := startPart(t, partCheck, path)
		if !out.Scan() || !strings.HasSuffix(out.Text(), tt.want) || strings.Contains(out.Text(), ErrDamaged.Error()) {
			t.Errorf("no byte from %d on can be read: got %q, want %q", tt.from, out.Text(), tt.want)
		}
	}
}

// A process that has found damage leaves alone what another one has put in its place meanwhile.
func TestSetAsideByAnother(t *testing.T) {
	path := madeDatabase(t, 5)
	if err := os.WriteFile(path, make([]byte, 1<<14), 0o600); err != nil {
		t.Fatal(err)
	}
	_, file, err := open(hastyConfig(path))
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("got %v, want ErrDamaged", err)
	}
	s, damage, err := OpenOrReplace(hastyConfig(path))
	if err != nil || damage == nil {
		t.Fatalf("got %v, %v, want damage", damage, err)
	}
	if err := errors.Join(commitStep(s, 1), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := setAside(path, defaultLockTimeout, file); !errors.Is(err, ErrLocked) {
		t.Errorf("got %v, want ErrLocked", err)
	}
	if err := newHistory().checkDatabase(path, 1, 1); err != nil {
		t.Error(err)
	}
}

// What is behind the last page is nobody's, and not read.
func TestLongFile(t *testing.T) {
	path := madeDatabase(t, 40)
	if err := os.Truncate(path, 1<<40); err != nil {
		t.Skipf("needs a file system with files of that size: %v", err)
	}
	if err := CheckFile(path); err != nil {
		t.Error(err)
	}
}

func TestSetAside(t *testing.T) {
	path := dbPath(t)
	var kept []string
	for i := range 3 {
		image := fmt.Appendf(nil, "file %d", i)
		if err := os.WriteFile(path, image, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := setAside(path, defaultLockTimeout, file)
		if err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, name); !bytes.Equal(got, image) {
			t.Errorf("got %q, want %q", got, image)
		}
		kept = append(kept, name)
	}
	for i, name := range kept {
		if want := fmt.Sprintf("file %d", i); string(readFile(t, name)) != want {
			t.Errorf("%s was overwritten", name)
		}
	}
	if _, err := setAside(path, defaultLockTimeout, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
	// A start that ended here must not make the next one forget.
	s, damage, err := OpenOrReplace(testConfig(path))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if damage == nil || !strings.HasPrefix(damage.Kept, path+asideInfix) {
		t.Errorf("got damage %v, want the file that was set aside", damage)
	}
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Damage is told by each start until something is committed: one that ends before that, as on a full disk, must not make
// the next one take itself for the first.
func TestDamageUntilFirstCommit(t *testing.T) {
	path := dbPath(t)
	if err := os.WriteFile(path, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	start := func(want bool) *Store {
		t.Helper()
		s, damage, err := OpenOrReplace(hastyConfig(path))
		if err != nil {
			t.Fatal(err)
		}
		if (damage != nil) != want {
			t.Errorf("got damage %v, want some: %v", damage, want)
		}
		return s
	}
	for range 2 {
		if err := start(true).Close(); err != nil {
			t.Fatal(err)
		}
	}
	s := start(true)
	if err := errors.Join(commitStep(s, 1), s.Close()); err != nil {
		t.Fatal(err)
	}
	if err := start(false).Close(); err != nil {
		t.Fatal(err)
	}
}

// A disk that damages database after database does not fill up with them. The first is kept, and the newest are, each with its
// log.
func TestDamageAgainAndAgain(t *testing.T) {
	path := dbPath(t)
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(name, []byte("damaged"), fileMode); err != nil {
			t.Fatal(err)
		}
	}
	var kept []string
	for i := range 9 { // those of earlier starts
		kept = append(kept, fmt.Sprintf("%s%s20260101T00000%dZ", path, asideInfix, i))
		write(kept[i])
		if i%2 == 0 {
			write(walPath(kept[i]))
		}
	}
	write(path)
	write(path + ".other")
	s, damage, err := OpenOrReplace(hastyConfig(path))
	if err != nil || damage == nil {
		t.Fatal(damage, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := namedAfter(path, asideInfix)
	want := []string{kept[0], walPath(kept[0]), kept[7], kept[8], walPath(kept[8]), damage.Kept}
	if err != nil || !slices.Equal(left, want) {
		t.Errorf("kept are %q, want %q; %v", left, want, err)
	}
	readFile(t, path+".other")
}
