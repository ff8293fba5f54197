package wire_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Frames as the first release writes them are read as what they meant, one of
// each type, and written so to peers that speak that version.
func TestFramesOfTheFirstRelease(t *testing.T) {
	for _, body := range bodies {
		want := &wire.Frame{Header: header, Body: body}
		file := fmt.Sprintf("v1/%02d-%s.bin", body.Type(), strings.ToLower(reflect.TypeOf(body).Name()))
		kept := golden.Kept(t, file, func() []byte { return wire.Encode(nil, want) })
		got, err := wire.Decode(kept)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v", file, got, want)
		}
		if again := wire.Encode(nil, got); !bytes.Equal(again, kept) {
			t.Errorf("%s is written as %x, it was %x", file, again, kept)
		}
	}
	files, err := filepath.Glob("testdata/v1/*.bin")
	if err != nil || len(files) < 21 {
		t.Errorf("%d frames are kept, the first release has 21 types (%v)", len(files), err)
	}
}
