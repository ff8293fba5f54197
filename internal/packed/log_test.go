package packed

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/internal/heap"
)

const (
	id    = "4f3a2b1c0d9e8f7a6b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a"
	begin = `{"pool":"10.0.0.0/8","node":"host-a","state":"held","kind":"container"`
)

// texts are values, and whether they are taken apart.
var texts = map[string]bool{
	begin + `,"container":"` + id + `","name":"web-1","mac":"02:42:0a:00:00:01","since":"2026-11-21T09:00:00.123456789Z"}`: true,
	begin + `,"container":"` + id + `","since":"2026-11-21T09:00:00Z"}`:                                                    true,
	begin + `,"container":"web","name":"","since":"2026-11-21T09:00:00.05Z"}`:                                              true,
	begin + `,"mac":"ff:ff:ff:ff:ff:ff","since":"0001-01-01T00:00:00Z"}`:                                                   true,
	begin + `,"name":"\u003cb\u003e","since":"9999-99-99T99:99:99.999999999Z"}`:                                            true,
	`{"kind":"client","container":"` + id[1:] + `G","since":"2026-11-21T09:00:00.000000000Z"}`:                             true,
	begin + `,"container":"` + id + `","mac":"02:42:0a:00:00:01","identity":256,"since":"2026-11-21T09:00:00Z"}`:           true,
	begin + `,"identity":0,"since":"2026-11-21T09:00:00.05Z"}`:                                                             true,
	begin + `,"identity":18446744073709551615,"since":"2026-11-21T09:00:00Z"}`:                                             true,
	begin + `,"identity":18446744073709551616,"since":"2026-11-21T09:00:00Z"}`:                                             false,
	begin + `,"identity":0256,"since":"2026-11-21T09:00:00Z"}`:                                                             false,
	begin + `,"identity":-1,"since":"2026-11-21T09:00:00Z"}`:                                                               false,
	begin + `,"identity":,"since":"2026-11-21T09:00:00Z"}`:                                                                 false,
	begin + `,"identity":1`: false,
	begin + `,"mac":"02:42:0A:00:00:01","since":"2026-11-21T09:00:00Z"}`: false,
	begin + `,"mac":"02:42:0a-00:00:01","since":"2026-11-21T09:00:00Z"}`: false,
	begin + `,"name":"a\"b","since":"2026-11-21T09:00:00Z"}`:             false,
	begin + `,"mac":"","since":"2026-11-21T09:00:00Z"}`:                  false,
	begin + `,"since":"2026-11-21T09:00:00+01:00"}`:                      false,
	begin + `,"since":"2026-11-21T09:00:00.1234567890Z"}`:                false,
	begin + `,"since":"2026-11-21T09:00:00xZ"}`:                          false,
	begin + `,"since":"2026-11-21 09:00:00Z"}`:                           false,
	begin + `,"since":"2026-11-21T09:00:00Z"} `:                          false,
	begin + `,"since":"2026-11-21T09:00:00Z`:                             false,
	begin + `}`:                                                          false,
	`{"name":"x"}`:                                                       false,
	`"kind":"`:                                                           false,
	"x":                                                                  false,
	"\x00\x01\x02z":                                                      false,
}

// Every value comes out as it went in, packed or not.
func TestValues(t *testing.T) {
	var l Log
	seq := uint64(0)
	for text, packs := range texts {
		seq++
		key := fmt.Sprint("a/", seq)
		l.Put(seq, key, []byte(text))
		if got := string(l.Get(key)); got != text {
			t.Errorf("put in\n%s\ncame out\n%s", text, got)
		}
		if e, _ := l.find(key); (e.value[0] == formHolder) != packs {
			t.Errorf("%s has form %d", text, e.value[0])
		}
	}
}

func FuzzValues(f *testing.F) {
	for text := range texts {
		f.Add([]byte(text), "a/b")
	}
	f.Fuzz(func(t *testing.T, value []byte, key string) {
		var l Log
		if value == nil {
			value = []byte{}
		}
		l.Put(7, key, value)
		if got := l.Get(key); got == nil || !bytes.Equal(got, value) || !l.Is(key, value) {
			t.Errorf("put in\n%q\ncame out\n%q", value, got)
		}
		for e := range l.After(0) {
			if e.Key() != key || e.Seq != 7 || !e.Below(key[:len(key)/2]) || e.Below(key+"x") {
				t.Errorf("%q is %d %q", key, e.Seq, e.Key())
			}
		}
	})
}

// change is one of the model.
type change struct {
	Seq   uint64
	Key   string
	Value string // none: a removal
}

// A log tells what a list of changes tells, whatever its blocks, words and index
// do meanwhile.
func TestLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Log
		var model []change
		last := map[string]change{}
		seq := uint64(0)
		all := slices.Sorted(func(yield func(string) bool) {
			for text := range texts {
				if !yield(text) {
					return
				}
			}
		})
		key := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"", "a/", "a/b/", "c"}).Draw(t, "directory") + fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "name"))
		})
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "changes") {
					seq += uint64(rapid.IntRange(1, 1000).Draw(t, "step"))
					c := change{Seq: seq, Key: key.Draw(t, "key")}
					var value []byte
					switch rapid.IntRange(0, 9).Draw(t, "what") {
					case 0, 1, 2: // a removal
					case 3:
						value = bytes.Repeat([]byte{'x'}, rapid.SampledFrom([]int{1, 30_000, blockSize, 2 * blockSize}).Draw(t, "size"))
					default:
						value = []byte(rapid.SampledFrom(all).Draw(t, "value"))
					}
					c.Value = string(value)
					l.Put(seq, c.Key, value)
					model, last[c.Key] = append(model, c), c
				}
			},
			"compact": func(t *rapid.T) {
				removals := rapid.IntRange(0, 5).Draw(t, "removals")
				var kept []change
				forgotten := uint64(0)
				for _, c := range slices.Backward(model) {
					switch {
					case last[c.Key] != c:
					case c.Value != "":
						kept = append(kept, c)
					case removals > 0:
						removals--
						kept = append(kept, c)
					default:
						forgotten = max(forgotten, c.Seq)
						delete(last, c.Key)
					}
				}
				slices.Reverse(kept)
				model = kept
				if got := l.Compact(countRemovals(kept, removals)); got != forgotten {
					t.Fatalf("forgotten up to %d, want %d", got, forgotten)
				}
			},
			"": func(t *rapid.T) {
				after := uint64(rapid.IntRange(0, int(seq)+1).Draw(t, "after"))
				var got, want []change
				for e := range l.After(after) {
					c := change{e.Seq, e.Key(), string(e.Value())}
					got = append(got, c)
					if e.Overtaken() != (last[c.Key] != c) || e.Removal() != (c.Value == "") {
						t.Fatalf("%v: overtaken %v, removal %v", c, e.Overtaken(), e.Removal())
					}
				}
				live := 0
				for _, c := range model {
					if c.Seq > after {
						want = append(want, c)
					}
				}
				for key, c := range last {
					if c.Value != "" {
						live++
					}
					if got := string(l.Get(key)); got != c.Value || l.Has(key) != (c.Value != "") {
						t.Fatalf("%s is %q, want %q", key, got, c.Value)
					}
				}
				if diff := cmp.Diff(want, got); diff != "" || l.Live() != live || l.Len() != len(model) {
					t.Fatalf("%d of %d, want %d of %d (-want +got)\n%s", l.Live(), l.Len(), live, len(model), diff)
				}
				if l.Has("nobody") || l.Get("a/nobody") != nil || l.Is("x/y", nil) {
					t.Fatal("what was never put in is there")
				}
			},
		})
	})
}

// countRemovals is what was asked for: the removals that were kept, and what was
// left of the number.
func countRemovals(kept []change, left int) (n int) {
	for _, c := range kept {
		if c.Value == "" {
			n++
		}
	}
	return n + left
}

// Directories and heads of values are as many as somebody else likes, what is
// kept once of them is not.
func TestManyWords(t *testing.T) {
	var l Log
	text := func(i int) []byte {
		return fmt.Appendf(nil, `{"pool":"%d","kind":"container","since":"2026-11-21T09:00:00Z"}`, i)
	}
	for i := range 2 * maxWords {
		l.Put(uint64(i+1), fmt.Sprintf("%d/x", i), text(i))
	}
	if len(l.words) > maxWords {
		t.Errorf("%d words", len(l.words))
	}
	l.Compact(0)
	for i := range 2 * maxWords {
		if got := l.Get(fmt.Sprintf("%d/x", i)); !bytes.Equal(got, text(i)) {
			t.Fatalf("the one with number %d is %q", i, got)
		}
	}
}

// A held address takes less than 110 bytes, its holder's name and ID included.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("measures memory, which the race detector multiplies")
	}
	const records = 20_000
	before := heap.InUse()
	var l Log
	for i := range records {
		l.Put(uint64(i+1), fmt.Sprintf("ringlet/state/ip/v1/ringlet/10.0.%d.%d", i>>8, i&255), fmt.Appendf(nil,
			begin+`,"container":"%064x","name":"container-%07d","mac":"02:42:0a:00:00:01","since":"2026-11-21T09:00:00.123456789Z"}`, i, i))
	}
	each := float64(heap.InUse()-before) / records
	fmt.Fprintf(t.Output(), "%.0f bytes for each record\n", each)
	if each > 110 {
		t.Errorf("a record takes %.0f bytes", each)
	}
	runtime.KeepAlive(&l)
}

// A key that came when there was no room for its word is one and the same after
// there is room again.
func TestKeyWithoutWordIsFoundAfterCompact(t *testing.T) {
	var l Log
	seq := uint64(0)
	put := func(key string, value []byte) { seq++; l.Put(seq, key, value) }
	for n := range maxWords {
		put(fmt.Sprintf("w%d/x", n), []byte("v"))
	}
	put("a/b", []byte("1"))
	for n := range maxWords {
		put(fmt.Sprintf("w%d/x", n), nil)
	}
	for range 2 {
		l.Compact(0)
		put("a/c", []byte("v"))
		if got := l.Get("a/b"); string(got) != "1" {
			t.Errorf("a/b is %q", got)
		}
	}
	put("a/b", []byte("2"))
	n := 0
	for e := range l.Current(0) {
		if e.Key() == "a/b" {
			n++
		}
	}
	if got := l.Get("a/b"); string(got) != "2" || n != 1 {
		t.Errorf("a/b is %q, %d times", got, n)
	}
	put("a/b", nil)
	put("a/c", nil)
	l.Compact(0)
	put("a/b", []byte("3")) // the first again
	if got := l.Get("a/b"); string(got) != "3" {
		t.Errorf("a/b is %q", got)
	}
}
