package identity_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/identity"
)

// A set has one text, and a text is of one set.
func TestText(t *testing.T) {
	for _, labels := range []map[string]string{
		{"a": ""}, {"": "x"}, {"a=b": "c"}, {"a": "b=c"}, {"a": "b;c=d"}, {"a": "b", "c": "d"}, {"app.kubernetes.io/name": "Straße 5%"}, {"a": "\x00\xff\n"},
	} {
		text := identity.Text(labels)
		if got, ok := identity.Labels(text); !ok || !maps.Equal(got, labels) {
			t.Errorf("%v is written as %s, and read as %v", labels, text, got)
		}
		if strings.ContainsAny(text, "/ \n") {
			t.Errorf("%q does not fit into a key", text)
		}
	}
	for _, text := range []string{"", "a", "b=1;a=2", "a=1;a=1", "a=1;", "a=%41", "a=%2f", "a=%2", "a=/", strings.Repeat("a", 1023) + "=1"} {
		if labels, ok := identity.Labels(text); ok {
			t.Errorf("%q is read as %v", text, labels)
		}
	}
}

// What has no room or is no set gets no number, and what has one keeps it.
func TestBounds(t *testing.T) {
	var r identity.Registry
	long := "a=" + strings.Repeat("x", identity.MaxText-2)
	for text, want := range map[string]string{long + "x": "1025 bytes", "a": "no label set", long: ""} {
		if _, refused := r.Identify(text); refused != want && (want == "" || !strings.Contains(refused, want)) {
			t.Errorf("%.10s: %q", text, refused)
		}
	}
	for i := len(r.Sets); i < identity.MaxSets; i++ {
		if _, refused := r.Identify(fmt.Sprintf("n=%d", i)); refused != "" {
			t.Fatal(refused)
		}
	}
	if _, refused := r.Identify("n=one-more"); !strings.Contains(refused, "16384 label sets") {
		t.Errorf("one set more: %q", refused)
	}
	if r.Refuses("n=5") != "" || r.Number("n=5") == 0 {
		t.Error("a set that has a number is refused")
	}
	r.Collect([]uint64{300})
	if n, refused := r.Identify("n=one-more"); refused != "" || n != r.Last {
		t.Errorf("with room: %d %q", n, refused)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	var full identity.Registry
	for i := range identity.MaxBytes / identity.MaxText {
		full.Identify(fmt.Sprintf("n=%s%06d", strings.Repeat("x", identity.MaxText-8), i))
	}
	if _, refused := full.Identify("n=one-more"); !strings.Contains(refused, "4194304") {
		t.Errorf("with %d bytes: %q", full.Bytes(), refused)
	}
}

// A view stays as it is, and costs nothing.
func TestView(t *testing.T) {
	var r identity.Registry
	for i := range 9 {
		r.Identify(fmt.Sprintf("n=%d", i))
	}
	view := r.View()
	before := slices.Clone(view.Sets)
	r.Collect([]uint64{257, 258})
	r.Identify("n=10")
	r.Collect([]uint64{256})
	if view.Last != 264 || !slices.Equal(view.Sets, before) {
		t.Errorf("the view is %d %v now, and was %v", view.Last, view.Sets, before)
	}
	if err := r.Check(); err != nil || len(r.Sets) != 7 {
		t.Errorf("%d sets, %v", len(r.Sets), err)
	}
	if n := testing.AllocsPerRun(10, func() { view = r.View() }); n > 0 {
		t.Errorf("a view takes %v allocations", n)
	}
}

func FuzzRead(f *testing.F) {
	var r identity.Registry
	f.Add(r.Append(nil))
	for _, text := range []string{"a=1", "b=2;c=3", "d=4"} {
		r.Identify(text)
		f.Add(r.Append(nil))
	}
	r.Collect([]uint64{257})
	r.Leap()
	f.Add(r.Append(nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		reader := codec.NewReader(in)
		r := identity.Read(reader)
		if reader.Done() != nil {
			return
		}
		if out := r.Append(nil); !bytes.Equal(in, out) {
			t.Errorf("%x is read, and written as %x", in, out)
		}
		before := r.Hash()
		r.Identify("fuzz=1")
		r.Collect([]uint64{256})
		if err := r.Check(); err != nil {
			t.Error(err)
		}
		if r.Touch(); r.Check() != nil || before == r.Hash() && r.Number("fuzz=1") != 0 && len(in) == 0 {
			t.Error("the hash does not follow")
		}
	})
}
