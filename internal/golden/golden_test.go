package golden

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// recorder is a testing.TB that writes down instead of failing.
type recorder struct {
	testing.TB
	errors, fatals []string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.fatals = append(r.fatals, fmt.Sprintf(format, args...))
	runtime.Goexit()
}

// check runs Check as a test of its own would, up to a Fatalf.
func check(t *testing.T, file, got string) *recorder {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Check(r, file, []byte(got))
	}()
	<-done
	return r
}

func setUpdate(t *testing.T, on bool) {
	t.Helper()
	old := *update
	*update = on
	t.Cleanup(func() { *update = old })
}

func TestCheck(t *testing.T) {
	tests := []struct {
		name, file, content, got string
		wantError, wantFatal     string // substrings, empty for none
	}{
		{name: "equal", file: "a.txt", content: "one\ntwo\n", got: "one\ntwo\n"},
		{name: "empty", file: "a.txt"},
		{name: "a line differs", file: "a.txt", content: "one\ntwo\n", got: "one\n2\n", wantError: "-update"},
		{name: "a missing last newline counts", file: "a.txt", content: "one\n", got: "one", wantError: "a.txt differs"},
		{name: "a carriage return counts", file: "a.txt", content: "one\n", got: "one\r\n", wantError: "a.txt differs"},
		{name: "bytes are dumped", file: "a.bin", content: "\x00\x01\xff", got: "\x00\x02\xff", wantError: "00000000  00 0"},
		{name: "missing", file: "none.txt", content: "one", got: "one", wantFatal: "run this package's tests with -update"},
		{name: "outside", file: "../golden.go", got: "one", wantFatal: "not a path inside testdata"},
		{name: "absolute", file: "/etc/hosts", got: "one", wantFatal: "not a path inside testdata"},
		{name: "a folder", file: ".", got: "one", wantFatal: "cannot be read"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			setUpdate(t, false)
			t.Chdir(t.TempDir())
			mustWrite(t, tt.content)
			r := check(t, tt.file, tt.got)
			expect(t, "error", r.errors, tt.wantError)
			expect(t, "fatal", r.fatals, tt.wantFatal)
		})
	}
}

func expect(t *testing.T, what string, got []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(got) > 0:
		t.Errorf("unexpected %s: %s", what, got)
	case want != "" && (len(got) != 1 || !strings.Contains(got[0], want)):
		t.Errorf("got %s %q, want one with %q", what, got, want)
	}
}

// mustWrite makes testdata with two files of the same content.
func mustWrite(t *testing.T, content string) {
	t.Helper()
	if err := os.Mkdir("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a.txt", "a.bin"} {
		if err := os.WriteFile("testdata/"+name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUpdate(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, content := range []string{"first\n", "second\n"} {
		setUpdate(t, true)
		if r := check(t, "deep/er/a.txt", content); len(r.errors)+len(r.fatals) > 0 {
			t.Fatalf("update failed: %q %q", r.errors, r.fatals)
		}
		setUpdate(t, false)
		if r := check(t, "deep/er/a.txt", content); len(r.errors)+len(r.fatals) > 0 {
			t.Fatalf("what was just written differs: %q %q", r.errors, r.fatals)
		}
	}
}

// What is kept is written once, with -update, and never again.
func TestKept(t *testing.T) {
	t.Chdir(t.TempDir())
	kept := func(content string) (string, *recorder) {
		r := &recorder{TB: t}
		var got []byte
		done := make(chan struct{})
		go func() {
			defer close(done)
			got = Kept(r, "v1/a.bin", func() []byte { return []byte(content) })
		}()
		<-done
		return string(got), r
	}
	if _, r := kept("first"); len(r.fatals) != 1 || !strings.Contains(r.fatals[0], "-update") {
		t.Errorf("a missing file: got %q, want it to stop the test with a word about -update", r.fatals)
	}
	setUpdate(t, true)
	for _, content := range []string{"first", "second"} {
		if got, r := kept(content); got != "first" || len(r.fatals) > 0 {
			t.Errorf("with %q produced: got %q, %q, want what was written first", content, got, r.fatals)
		}
	}
}
