// Package golden compares what a test produced with a file kept in testdata.
//
// It refuses to know what a file says.
//
// The file is the expectation, reviewed like code. When a change of the output
// is meant, run the package's tests with -update, which rewrites the files,
// and read the diff before it is committed. Only tests import this package; it
// owns the flag -update, so a test that imports it must not define its own.
package golden

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// A test binary's flags can only be registered globally.
var update = flag.Bool("update", false, "rewrite the golden files under testdata with what the tests produce")

// Check compares got with testdata/file and reports a difference as an error
// of t, line by line, or as a hex dump if either side is not text. The file is
// a slash-separated path inside testdata of the package under test. With
// -update the file, and its folder, are written instead of compared.
//
// Line endings and the last newline count. It stops the test if the file is
// missing or cannot be read or written.
func Check(t testing.TB, file string, got []byte) {
	t.Helper()
	path := local(t, file)
	want, err := os.ReadFile(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		t.Fatalf("golden file cannot be read: %v", err)
	}
	if *update {
		// Untouched when equal: a rewrite would only change its time.
		if missing || !bytes.Equal(want, got) {
			write(t, path, got)
		}
		return
	}
	if missing {
		t.Fatalf("golden file %s does not exist; run this package's tests with -update to write it, then read it", path)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("%s differs (-file +got); if the change is meant, run this package's tests with -update and read the diff:\n%s",
			path, diff(want, got))
	}
}

// Kept returns the content of testdata/file, which no run rewrites: bytes as a
// release wrote them, to be read for ever. Where the file does not exist -update
// writes what produce returns; without -update that stops the test.
func Kept(t testing.TB, file string, produce func() []byte) []byte {
	t.Helper()
	path := local(t, file)
	content, err := os.ReadFile(path)
	switch {
	case err == nil:
		return content
	case !errors.Is(err, fs.ErrNotExist):
		t.Fatalf("golden file cannot be read: %v", err)
	case !*update:
		t.Fatalf("golden file %s does not exist; run this package's tests with -update to write it, once and for all", path)
	}
	content = produce()
	write(t, path, content)
	return content
}

// local returns the path of a file inside testdata.
func local(t testing.TB, file string) string {
	t.Helper()
	path, err := filepath.Localize(file)
	if err != nil {
		t.Fatalf("golden file %q is not a path inside testdata: %v", file, err)
	}
	return filepath.Join("testdata", path)
}

func write(t testing.TB, path string, got []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("golden file cannot be written: %v", err)
	}
	if err := os.WriteFile(path, got, 0o644); err != nil {
		t.Fatalf("golden file cannot be written: %v", err)
	}
	t.Logf("wrote %s, %d bytes", path, len(got))
}

func diff(want, got []byte) string {
	if isText(want) && isText(got) {
		return cmp.Diff(string(want), string(got))
	}
	return cmp.Diff(hex.Dump(want), hex.Dump(got))
}

func isText(b []byte) bool {
	return utf8.Valid(b) && !bytes.ContainsRune(b, 0)
}
