package cli

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unpack returns the files of a bundle of host-a by their names.
func unpack(t *testing.T, in io.Reader) map[string]string {
	t.Helper()
	return unpackFrom(t, in, "ringlet-host-a-20261121-120000/")
}

// unpackFrom returns the files of a bundle by their names. The directory that they are
// in is looked at unless it is empty.
func unpackFrom(t *testing.T, in io.Reader, from string) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		dir, name := filepath.Split(h.Name)
		if from != "" && dir != from || h.Mode != 0o600 || len(text) == 0 {
			t.Errorf("%s with mode %o has %d bytes", h.Name, h.Mode, len(text))
		}
		out[name] = string(text)
	}
}

// A bundle has all parts, those that cannot be had with their errors, and is a
// file for its owner alone.
func TestBundle(t *testing.T) {
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	host := alone()
	host.crash = "2026-11-21T09:00:00Z\nv1.0.0\npanic: an error of the program\n"
	cfg := Config{Getenv: env("RINGLET_SOCKET", serve(t, host))}
	if got := ringlet(t, cfg, "bundle", "--out", file); got.code != 0 || !strings.HasPrefix(got.out, "wrote ") {
		t.Fatalf("%+v", got)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	parts := unpack(t, f)
	want := []string{"doctor.json", "metrics.txt.error"} // the fixture has no metrics
	for _, p := range bundled {
		if p.name != "metrics.txt" {
			want = append(want, p.name)
		}
	}
	for _, name := range want {
		if parts[name] == "" {
			t.Errorf("the bundle lacks %s", name)
		}
	}
	if len(parts) != len(want) || !strings.Contains(parts["status.json"], `"verdict":"fine"`) || !strings.Contains(parts["log.txt"], "ringlet started") {
		t.Errorf("the bundle has %d parts", len(parts))
	}
	if got := ringlet(t, cfg, "bundle", "--out", file); got.code != exitFailed || !strings.Contains(got.err, "name another file with --out, or remove that one") {
		t.Errorf("a file that is there: %+v", got)
	}
	if got := ringlet(t, cfg, "bundle", "--out", "-"); got.code != 0 || len(unpack(t, strings.NewReader(got.out))) != len(want) {
		t.Errorf("to standard output: code %d, said %s", got.code, got.err)
	}
}

// Without a plugin there is no bundle, and no file.
func TestBundleOfNobody(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if got := ringlet(t, Config{Getenv: env("RINGLET_SOCKET", filepath.Join(dir, "none"))}, "bundle"); got.code != exitFailed {
		t.Errorf("%+v", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	cfg := Config{Getenv: env("RINGLET_SOCKET", serve(t, alone()))}
	ringlet(t, cfg, "bundle")
	left, err := os.ReadDir(dir)
	if err != nil || !slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.Name() == "ringlet-host-a-20261121-120000.tar.gz" }) {
		t.Errorf("left %v, %v", left, err)
	}
}
