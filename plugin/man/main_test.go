package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// There is a page for each command, with its examples and flags, and the same
// source makes the same pages.
func TestPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1795219200")
	a, b := filepath.Join(t.TempDir(), "man"), t.TempDir()
	for _, dir := range []string{a, b} {
		if n, err := write(dir, "v1.2.3"); err != nil || n < 40 {
			t.Fatalf("%d pages, %v", n, err)
		}
	}
	pages, err := os.ReadDir(a)
	if err != nil || len(pages) < 40 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(a, p.Name()))
		if err != nil {
			t.Fatal(err)
		}
		again, err := os.ReadFile(filepath.Join(b, p.Name()))
		if err != nil || !bytes.Equal(text, again) {
			t.Errorf("%s is another each time, %v", p.Name(), err)
		}
		for _, section := range []string{".SH EXIT STATUS", ".SH ENVIRONMENT", ".SH FILES"} {
			if bytes.Count(text, []byte(section)) != 1 {
				t.Errorf("%s has %q not once", p.Name(), section)
			}
		}
		if title := strings.ToUpper(strings.TrimSuffix(p.Name(), ".1")); !bytes.Contains(text, []byte(`.TH "`+title+`" "1"`)) {
			t.Errorf("%s is titled %.80s", p.Name(), text)
		}
		if !bytes.Contains(text, []byte(".SH EXAMPLE")) && !bytes.Contains(text, []byte(".SH SEE ALSO")) {
			t.Errorf("%s has neither examples nor other pages", p.Name())
		}
	}
	page, err := os.ReadFile(filepath.Join(a, "ringlet-exclude-add.1"))
	if err != nil || !bytes.Contains(page, []byte("10.50.0.1-10.50.0.19")) || !bytes.Contains(page, []byte(`"Nov 2026" "ringlet v1.2.3"`)) {
		t.Errorf("%v\n%s", err, page)
	}
}

// The pages can be shown.
func TestPagesAreManPages(t *testing.T) {
	man, err := exec.LookPath("man")
	if err != nil {
		t.Skip("there is no man program here")
	}
	dir := t.TempDir()
	if _, err := write(dir, "v1.2.3"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), man, "--warnings", "-l", filepath.Join(dir, "ringlet-explain.1"))
	cmd.Env = append(os.Environ(), "MANPAGER=cat", "MANWIDTH=80", "LC_ALL=C")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Skipf("man does not work here: %v", err)
	}
	if !strings.Contains(string(text), "ringlet explain 10.50.0.7") || !strings.Contains(string(text), "EXIT STATUS") || strings.Contains(string(text), "warning") {
		t.Errorf("man shows\n%s", text)
	}
}
