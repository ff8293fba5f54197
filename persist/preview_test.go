package persist

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"testing"
)

// shown is a preview that notes what it is shown, and holds the database to what [Preview] says.
type shown struct {
	t            *testing.T
	began, ended bool
	content      content
	last         string
}

func (s *shown) Begin() { *s = shown{t: s.t, began: true, content: content{}} }

func (s *shown) Visit(bucket string, key, value []byte) {
	name := recordName(bucket, key)
	if !s.began || s.ended {
		s.t.Errorf("record %q is shown outside Begin and End", name)
	}
	if name <= s.last {
		s.t.Errorf("record %q is shown after %q", name, s.last)
	}
	s.last = name
	s.content[name] = string(value)
}

func (s *shown) End() {
	if !s.began || s.ended {
		s.t.Error("End is called without Begin, or twice")
	}
	s.ended = true
}

func TestPreview(t *testing.T) {
	const n = 60
	damaged := madeDatabase(t, n)
	last := lastRecord(t, damaged)
	image := readFile(t, damaged)
	at := bytes.LastIndex(image, last)
	if at < 0 {
		t.Fatal("the last record is not in the file")
	}
	image[at] ^= 1
	if err := os.WriteFile(damaged, image, 0o600); err != nil {
		t.Fatal(err)
	}
	later := func(cfg *Config) {
		cfg.Schema, cfg.Migrations = 2, map[uint64]Migration{1: func(*Tx) error { return nil }}
	}
	for _, tt := range []struct {
		name         string
		path         string
		change       func(*Config)
		err          error
		steps        uint64
		began, ended bool
	}{
		{name: "new", path: dbPath(t), began: true, ended: true},
		{name: "closed", path: madeDatabase(t, n), steps: n, began: true, ended: true},
		{name: "with a log", path: crashAt(t, n).lay(t), steps: n},
		{name: "to be migrated", path: madeDatabase(t, n), change: later, steps: n},
		{name: "damaged", path: damaged, err: ErrDamaged, began: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			seen := &shown{t: t}
			cfg := hastyConfig(tt.path)
			cfg.Preview = seen
			if tt.change != nil {
				tt.change(&cfg)
			}
			s, err := Open(cfg)
			if !errors.Is(err, tt.err) {
				t.Fatalf("got error %v, want %v", err, tt.err)
			}
			if seen.began != tt.began || seen.ended != tt.ended {
				t.Fatalf("begun %t, ended %t, want %t, %t", seen.began, seen.ended, tt.began, tt.ended)
			}
			if err != nil {
				return
			}
			defer s.Close()
			got, err := loadContent(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := newHistory().check(got, tt.steps, tt.steps); err != nil {
				t.Error(err)
			}
			if seen.ended && !maps.Equal(seen.content, got) {
				t.Errorf("%d records were shown, %d are loaded, or they differ", len(seen.content), len(got))
			}
		})
	}
}

// lastRecord returns the last record of a closed database as it lies in its file.
func lastRecord(t *testing.T, path string) (both []byte) {
	t.Helper()
	s := mustOpen(t, hastyConfig(path))
	err := s.Load(func(_ string, key, value []byte) error {
		both = append(append(both[:0], key...), value...)
		return nil
	})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return both
}
