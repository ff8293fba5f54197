package space

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// What a holder is called comes back as it was, whatever it looks like; of a
// name too long for any engine the beginning.
func TestTextIsKept(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	long := strings.Repeat("x", maxName+1)
	for _, name := range []string{"", "web", long[1:], long} {
		for _, ref := range []string{"", "vm-7", id, strings.ToUpper(id), id[1:], id + "0", "x" + id[1:], strings.Repeat("y", IDLen)} {
			kept, f := textOf(name, ref)
			want := name[:min(len(name), maxName)]
			if gotName, gotRef := f.split(kept); gotName != want || gotRef != ref {
				t.Errorf("%.20q and %q came back as %.20q and %q", name, ref, gotName, gotRef)
			}
		}
	}
}

// TestIDs packs every byte at every place of an ID: only lower-case hexadecimal
// digits make one, and they come back.
func TestIDs(t *testing.T) {
	id := []byte(strings.Repeat("0123456789abcdef", 4))
	for at := range id {
		was := id[at]
		for c := range 256 {
			id[at] = byte(c)
			packed, ok := AppendID(nil, string(id))
			want, err := hex.DecodeString(string(id))
			if isID := err == nil && (c < 'A' || c > 'F'); ok != isID {
				t.Fatalf("byte %#x at %d: packed %v, want %v", c, at, ok, isID)
			}
			if ok && !bytes.Equal(packed, want) {
				t.Fatalf("byte %#x at %d: packed as %x, want %x", c, at, packed, want)
			}
		}
		id[at] = was
	}
}

// A container with its ID takes half of the ID's length; one without takes
// nothing of its own.
func TestTextIsSmall(t *testing.T) {
	if kept, _ := textOf("web", strings.Repeat("0123456789abcdef", 4)); len(kept) != 3+IDLen {
		t.Errorf("a name and an ID take %d bytes", len(kept))
	}
	for _, c := range [][2]string{{"web", ""}, {"", "vm-7"}} {
		if got := testing.AllocsPerRun(100, func() { textOf(c[0], c[1]) }); got != 0 {
			t.Errorf("%q: %v allocations, want 0", c, got)
		}
	}
}
