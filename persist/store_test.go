package persist

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

type put = func(bucket string, key, value []byte) error

func TestCommitAndLoad(t *testing.T) {
	path := dbPath(t)
	s := mustOpen(t, testConfig(path))
	var kept put
	err := s.Commit(func(put put) error {
		kept = put
		return errors.Join(
			put("b", []byte("2"), []byte("two")), put("b", []byte("1"), []byte("one")), put("a", []byte("x"), []byte{}),
			put("b", []byte("3"), []byte("gone")), put("b", []byte("3"), nil), put("none", []byte("x"), nil),
			put("b", []byte("2"), []byte("deux")))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := kept("b", []byte("4"), []byte("late")); err == nil {
		t.Error("put after its commit gave no error")
	}
	want := []string{"a/x=", "b/1=one", "b/2=deux"}
	for range 2 {
		var got []string
		err := s.Load(func(bucket string, key, value []byte) error {
			got = append(got, bucket+"/"+string(key)+"="+string(value))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := CheckFile(path); err != nil {
			t.Error(err)
		}
		s = mustOpen(t, testConfig(path))
	}
	stop := errors.New("stop")
	if err := s.Load(func(string, []byte, []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of visit", err)
	}
}

func TestEmptyCommitWritesNothing(t *testing.T) {
	cfg := testConfig(dbPath(t))
	writes := 0
	cfg.opened = func(db *bbolt.DB) {
		hookWriteAt(db, func(write writeAt) writeAt {
			return func(b []byte, off int64) (int, error) { writes++; return write(b, off) }
		})
	}
	s := mustOpen(t, cfg)
	if err := s.Commit(func(put) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if writes != 0 {
		t.Errorf("got %d writes, want none", writes)
	}
	if err := commitStep(s, 1); err != nil || writes == 0 {
		t.Errorf("a real commit: %v, %d writes; the counter does not count", err, writes)
	}
}

// A start need not read the whole tree for what is free: each transaction leaves a list. Of a file without one, as earlier
// versions left it, the first transaction makes one; to open it writes nothing, as that would be a transaction of bbolt's
// own.
func TestFreeListIsKept(t *testing.T) {
	path := madeDatabase(t, 0)
	h := newHistory()
	for n, earlier := range []bool{false, true, false} {
		before := readFile(t, path)
		cfg := hastyConfig(path)
		if earlier {
			cfg.opened = func(db *bbolt.DB) { db.NoFreelistSync = true }
		}
		s := mustOpen(t, cfg)
		if _, err := loadContent(s); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(readFile(t, path), before) {
			t.Error("to open the file has changed it")
		}
		if err := errors.Join(commitStep(s, uint64(n+1)), s.Close()); err != nil {
			t.Fatal(err)
		}
		if list := freeListOf(readFile(t, path)); (list == ^uint64(0)) != earlier {
			t.Errorf("transaction %d left a list in page %d, as an earlier version: %t", n+1, list, earlier)
		}
		if err := h.checkDatabase(path, uint64(n+1), uint64(n+1)); err != nil {
			t.Error(err)
		}
	}
}

// freeListOf returns the page that has the list of free pages of a closed file, and all bits set if there is none.
func freeListOf(image []byte) uint64 {
	const list, txid = 32, 48
	first, second := image[metaStart:], image[os.Getpagesize()+metaStart:]
	if binary.NativeEndian.Uint64(second[txid:]) > binary.NativeEndian.Uint64(first[txid:]) {
		first = second
	}
	return binary.NativeEndian.Uint64(first[list:])
}

func TestFailedFill(t *testing.T) {
	bad := errors.New("bad")
	for name, fill := range map[string]func(put) error{
		"error":           func(put) error { return bad },
		"error after put": func(put put) error { put("b", []byte("k"), []byte("v")); return bad },
		"panic":           func(put put) error { put("b", []byte("k"), []byte("v")); panic(bad) },
		"no key":          func(put put) error { return put("b", nil, []byte("v")) },
		"no bucket":       func(put put) error { return put("", []byte("k"), []byte("v")) },
		"reserved bucket": func(put put) error { return put(metaBucket, []byte(schemaKey), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			path := madeDatabase(t, 3)
			s := mustOpen(t, testConfig(path))
			err := func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				return s.Commit(fill)
			}()
			if err == nil || errors.Is(err, ErrFailed) {
				t.Fatalf("got %v, want the error itself", err)
			}
			again := commitStep(s, 4)
			if _, load := loadContent(s); !errors.Is(again, ErrFailed) || !errors.Is(load, ErrFailed) {
				t.Errorf("afterwards commit said %v and load %v, want ErrFailed", again, load)
			}
			if errors.Is(err, bad) && name != "panic" && !errors.Is(again, bad) {
				t.Errorf("%v does not wrap the first error", again)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if err := newHistory().checkDatabase(path, 3, 3); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestClosed(t *testing.T) {
	s := mustOpen(t, testConfig(dbPath(t)))
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	_, load := loadContent(s)
	if commit := commitStep(s, 1); !errors.Is(load, ErrClosed) || !errors.Is(commit, ErrClosed) || !errors.Is(commit, fs.ErrClosed) {
		t.Errorf("load said %v and commit %v, want ErrClosed", load, commit)
	}
}

func TestModes(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	path := filepath.Join(dir, "ring.db")
	modes := func() []fs.FileMode {
		t.Helper()
		d, err1 := os.Stat(dir)
		f, err2 := os.Stat(path)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		return []fs.FileMode{d.Mode().Perm(), f.Mode().Perm()}
	}
	want := []fs.FileMode{0o700, 0o600}
	for range 2 {
		mustOpen(t, testConfig(path)).Close()
		if diff := cmp.Diff(want, modes()); diff != "" {
			t.Errorf("modes of directory and file (-want +got):\n%s", diff)
		}
		if err := os.Chmod(path, 0o664); err != nil {
			t.Fatal(err)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 1 {
		t.Errorf("directory holds %v (%v), want the database alone", names, err)
	}
}

// A process that dies while it creates a database leaves the file of preparation, which must do no harm.
func TestInterruptedCreation(t *testing.T) {
	path := dbPath(t)
	if err := os.WriteFile(path+newSuffix, []byte("half a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, testConfig(path))
	if err := commitStep(s, 1); err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	_, err := Open(Config{LockTimeout: -1, Migrations: map[uint64]Migration{3: nil}})
	for _, want := range []string{"path", "timeout", "schema", "logger", "migration from schema 3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want all problems named, also %q", err, want)
		}
	}
}

// A store behaves like a map that survives being closed.
func TestStoreIsAMap(t *testing.T) {
	dir := t.TempDir()
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		path := filepath.Join(dir, "db"+string(rune('0'+runs%10)))
		defer os.Remove(path)
		s, err := Open(hastyConfig(path))
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { s.Close() }()
		want := content{}
		name := rapid.SampledFrom([]string{"a", "b", "long name of a bucket"})
		key := rapid.SliceOfN(rapid.ByteRange('k', 'n'), 1, 3)
		value := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 40), rapid.Just(make([]byte, 3000)))
		rt.Repeat(map[string]func(*rapid.T){
			"commit": func(rt *rapid.T) {
				next := maps.Clone(want)
				err := s.Commit(func(put put) error {
					for range rapid.IntRange(0, 30).Draw(rt, "puts") {
						b, k, v := name.Draw(rt, "bucket"), key.Draw(rt, "key"), value.Draw(rt, "value")
						if v == nil {
							delete(next, recordName(b, k))
						} else {
							next[recordName(b, k)] = string(v)
						}
						if err := put(b, slices.Clone(k), v); err != nil {
							return err
						}
					}
					return nil
				})
				if err != nil {
					rt.Fatal(err)
				}
				want = next
			},
			"reopen": func(rt *rapid.T) {
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				if err := CheckFile(path); err != nil {
					rt.Fatal(err)
				}
				if s, err = Open(hastyConfig(path)); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				got, err := loadContent(s)
				if err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					rt.Fatalf("records (-want +got):\n%s", diff)
				}
			},
		})
	})
}

// What is loaded was checked once, as long as nothing was written.
func TestLoadChecksOnce(t *testing.T) {
	s := mustOpen(t, hastyConfig(madeDatabase(t, 3)))
	before := s.checked
	if before == nil {
		t.Fatal("nothing is kept of the check")
	}
	err := s.Load(func(string, []byte, []byte) error {
		if s.checked != before {
			t.Error("the file is checked again")
		}
		return nil
	})
	if err != nil || s.checked != nil {
		t.Errorf("got %v, and what was found is kept: %t", err, s.checked != nil)
	}
	if err := commitStep(s, 4); err != nil {
		t.Fatal(err)
	}
	if err := newHistory().checkDatabase(crashOf(t, s).lay(t), 4, 4); err != nil {
		t.Error(err)
	}
}
