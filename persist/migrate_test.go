package persist

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upper and rename are two steps: values to upper case; bucket "old" to "new".
func upper(tx *Tx) error {
	return tx.Each("old", func(key, value []byte) error { return tx.Put("old", key, bytes.ToUpper(value)) })
}

func rename(tx *Tx) error {
	return tx.Each("old", func(key, value []byte) error {
		if v, err := tx.Get("old", key); err != nil || !bytes.Equal(v, value) {
			return fmt.Errorf("got %q, %w, want %q", v, err, value)
		}
		return errors.Join(tx.Put("new", key, value), tx.Put("old", key, nil))
	})
}

func oldDatabase(t *testing.T) string {
	t.Helper()
	path := dbPath(t)
	s := mustOpen(t, testConfig(path))
	err := s.Commit(func(put put) error {
		return errors.Join(put("old", []byte("1"), []byte("one")), put("old", []byte("2"), []byte("two")), put("same", []byte("x"), nil))
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMigrations(t *testing.T) {
	path := oldDatabase(t)
	cfg := testConfig(path)
	cfg.Schema = 3
	cfg.Migrations = map[uint64]Migration{1: upper, 2: rename}
	for range 2 { // the second time there is nothing to do
		s := mustOpen(t, cfg)
		got, err := loadContent(s)
		if err != nil {
			t.Fatal(err)
		}
		want := content{recordName("new", []byte("1")): "ONE", recordName("new", []byte("2")): "TWO"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		s.Close()
		if err := CheckFile(path); err != nil {
			t.Error(err)
		}
	}
	cfg = testConfig(path)
	cfg.Schema = 2
	_, err := Open(cfg)
	if want := "database was written by a newer version: it has schema 3 and this version knows up to 2: run the newer version again"; !errors.Is(err, ErrNewerSchema) ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	_, damage, err := OpenOrReplace(cfg)
	if !errors.Is(err, ErrNewerSchema) || damage != nil {
		t.Errorf("got %v, %v, want ErrNewerSchema and no damage", damage, err)
	}
}

func TestFailedMigration(t *testing.T) {
	bad := errors.New("bad")
	for name, steps := range map[string]map[uint64]Migration{
		"error":   {1: upper, 2: func(*Tx) error { return bad }},
		"panic":   {1: upper, 2: func(*Tx) error { panic(bad) }},
		"missing": {1: upper},
	} {
		t.Run(name, func(t *testing.T) {
			path := oldDatabase(t)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			cfg := testConfig(path)
			cfg.Schema, cfg.Migrations = 3, steps
			err = func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = p.(error)
					}
				}()
				_, err = Open(cfg)
				return err
			}()
			if want := map[bool]error{true: ErrNoMigration, false: bad}[name == "missing"]; !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before, after) {
				t.Error("the file has changed")
			}
			mustOpen(t, testConfig(path)) // the lock is free
		})
	}
}
