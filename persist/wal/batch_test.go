package wal

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func recordName(bucket string, key []byte) string { return bucket + "\x00" + string(key) }

func TestBatch(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		bucket := rapid.SampledFrom([]string{"a", "b", "long name of a bucket"})
		key := rapid.SliceOfN(rapid.Byte(), 1, 5)
		value := rapid.OneOf(rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 300))
		var e Batch
		var want []Entry
		last := map[string]string{}
		for range rapid.IntRange(0, 40).Draw(rt, "entries") {
			b, k, v := bucket.Draw(rt, "bucket"), key.Draw(rt, "key"), value.Draw(rt, "value")
			e.Put(b, k, v)
			want = append(want, Entry{[]byte(b), k, v})
			last[recordName(b, k)] = string(v)
		}
		got, err := Decode(nil, e.Bytes())
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatalf("entries (-want +got):\n%s", diff)
		}
		settled := Settle(got)
		for i, e := range settled {
			name := recordName(string(e.Bucket), e.Key)
			if v, ok := last[name]; !ok || v != string(e.Value) {
				rt.Fatalf("got %q for %q, want the last value %q", e.Value, name, v)
			}
			if i > 0 && name <= recordName(string(settled[i-1].Bucket), settled[i-1].Key) {
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
	var e Batch
	for _, put := range []Entry{{[]byte("b"), []byte("k"), []byte("v")}, {[]byte("b"), []byte("l"), nil}, {[]byte("c"), []byte("k"), []byte{}}} {
		e.Put(string(put.Bucket), put.Key, put.Value)
	}
	f.Add(e.Bytes())
	f.Add([]byte{0})
	f.Add(bytes.Repeat([]byte{0xff}, 20))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		list, err := Decode(nil, encoded)
		if err != nil {
			if !errors.Is(err, errBadEntries) {
				t.Errorf("got %v", err)
			}
			return
		}
		var again Batch
		for _, e := range list {
			again.Put(string(e.Bucket), e.Key, e.Value)
		}
		got, err := Decode(nil, again.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list, got); diff != "" {
			t.Errorf("entries (-first +second):\n%s", diff)
		}
	})
}
