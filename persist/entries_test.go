package persist

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// What the database would refuse is refused before it is in the log, from where nobody could take it back.
func TestPutRefuses(t *testing.T) {
	long := make([]byte, bbolt.MaxKeySize+1)
	for name, put := range map[string]func(e *entries) error{
		"no bucket":              func(e *entries) error { return e.put("", []byte("k"), []byte("v")) },
		"a bucket of long name":  func(e *entries) error { return e.put(string(long), []byte("k"), []byte("v")) },
		"the bucket of our own":  func(e *entries) error { return e.put(metaBucket, []byte("k"), nil) },
		"no key":                 func(e *entries) error { return e.put("b", nil, []byte("v")) },
		"a long key":             func(e *entries) error { return e.put("b", long, []byte("v")) },
		"no key to delete":       func(e *entries) error { return e.put("b", nil, nil) },
		"a batch that has ended": func(e *entries) error { e.over = true; return e.put("b", []byte("k"), nil) },
	} {
		var e entries
		if err := put(&e); err == nil || len(e.encoded) > 0 {
			t.Errorf("%s: got %v and %d bytes, want an error alone", name, err, len(e.encoded))
		}
	}
	// The longest of all pass, and the database takes them.
	s := mustOpen(t, hastyConfig(dbPath(t)))
	err := s.Commit(func(put put) error { return put(strings.Repeat("b", 300), long[:bbolt.MaxKeySize], []byte{}) })
	if err != nil {
		t.Error(err)
	}
}

func TestEntries(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bucket := rapid.SampledFrom([]string{"a", "b", "long name of a bucket"})
		key := rapid.SliceOfN(rapid.Byte(), 1, 5)
		value := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300))
		var e entries
		var want []entry
		last := content{}
		for range rapid.IntRange(0, 40).Draw(rt, "entries") {
			b, k, v := bucket.Draw(rt, "bucket"), key.Draw(rt, "key"), value.Draw(rt, "value")
			if err := e.put(b, k, v); err != nil {
				rt.Fatal(err)
			}
			want = append(want, entry{[]byte(b), k, v})
			last[recordName(b, k)] = string(v)
		}
		got, err := decode(nil, e.encoded)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(entry{})); diff != "" {
			rt.Fatalf("entries (-want +got):\n%s", diff)
		}
		settled := settle(got)
		for i, e := range settled {
			name := recordName(string(e.bucket), e.key)
			if v, ok := last[name]; !ok || v != string(e.value) {
				rt.Fatalf("got %q for %q, want the last value %q", e.value, name, v)
			}
			if i > 0 && name <= recordName(string(settled[i-1].bucket), settled[i-1].key) {
				rt.Fatalf("%q comes too late", name)
			}
		}
		if len(settled) != len(last) {
			rt.Fatalf("got %d entries, want %d", len(settled), len(last))
		}
	})
}

// No bytes make the reader of a log panic or take more than there is, and what it takes for entries it writes the same.
func FuzzDecode(f *testing.F) {
	var e entries
	for _, put := range []entry{{[]byte("b"), []byte("k"), []byte("v")}, {[]byte("b"), []byte("l"), nil}, {[]byte("c"), []byte("k"), []byte{}}} {
		if err := e.put(string(put.bucket), put.key, put.value); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(e.encoded)
	f.Add([]byte{0})
	f.Add(bytes.Repeat([]byte{0xff}, 20))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		list, err := decode(nil, encoded)
		if err != nil {
			if !errors.Is(err, errBadEntries) {
				t.Errorf("got %v", err)
			}
			return
		}
		var again entries
		for _, e := range list {
			if string(e.bucket) == metaBucket {
				return
			}
			if err := again.put(string(e.bucket), e.key, e.value); err != nil {
				t.Fatal(err)
			}
		}
		got, err := decode(nil, again.encoded)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list, got, cmp.AllowUnexported(entry{})); diff != "" {
			t.Errorf("entries (-first +second):\n%s", diff)
		}
	})
}
