package durable

import (
	"os"
	"path/filepath"
	"testing"
)

// That a power cut leaves one of the two contents is tested in package persist, which has a file system with a plug.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	for _, text := range []string{"one", "two"} {
		if err := Replace(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(filepath.Join(dir, "sub"), nil); err == nil {
		t.Error("a directory was replaced")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("left are %v, %v", list, err)
	}
}
