package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestNearest(t *testing.T) {
	tests := []struct{ name, want string }{
		{"RINGLET_JION", "RINGLET_JOIN"},
		{"RINGLET_KYE", "RINGLET_KEY"},
		{"RINGLET_KEYS", "RINGLET_KEY"},
		{"RINGLET_KEYFILE", "RINGLET_KEY_FILE"},
		{"RINGLET_LOG_LEVEL", "LOG_LEVEL"},
		{"RINGLET_LOGFORMAT", "RINGLET_LOG_FORMAT"},
		{"RINGLET_EVICT", ""},
		{"RINGLET_EVICTAFTER", "RINGLET_EVICT_AFTER"},
		{"RINGLET_PEERS", ""},
		{"RINGLET_", ""},
		{"RINGLET_" + strings.Repeat("JOIN", 1000), ""},
	}
	for _, tt := range tests {
		if got, _ := nearest(tt.name, names()); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Keys that cannot be read again are told with their file, of which there may be
// several on a host.
func TestReadKeysNamesFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	for text, want := range map[string]string{"": "the key file cannot be read", "# none\n": "there is no key", key1 + "\nx\n": "line 2 is not base64"} {
		if text != "" {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := Config{KeyFile: file}.ReadKeys()
		if err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s: %s", err, file, want)
		}
		_ = os.Remove(file)
	}
}

// slowDistance is the textbook recursion that distance tabulates.
func slowDistance(a, b string) int {
	switch {
	case a == "":
		return len(b)
	case b == "":
		return len(a)
	}
	i, j := len(a)-1, len(b)-1
	cost := 1
	if a[i] == b[j] {
		cost = 0
	}
	d := min(slowDistance(a[:i], b[:j])+cost, slowDistance(a[:i], b)+1, slowDistance(a, b[:j])+1)
	if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
		d = min(d, slowDistance(a[:i-1], b[:j-1])+1)
	}
	return d
}

func TestDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[AB_]{0,5}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := distance(a, b), slowDistance(a, b); got != want {
			t.Errorf("distance of %q and %q: got %d, want %d", a, b, got, want)
		}
	})
}

func TestProblems(t *testing.T) {
	one, two := errors.New("one"), errors.New("two")
	for _, tt := range []struct {
		err  error
		want int
	}{{nil, 0}, {one, 1}, {errors.Join(one, two), 2}} {
		if got := len(Problems(tt.err)); got != tt.want {
			t.Errorf("%v: got %d problems, want %d", tt.err, got, tt.want)
		}
	}
}

// TestLoadReadsFiles goes through the exported door, with files that exist.
func TestLoadReadsFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(write("keys", key1+"\n"+key2+"\n"), link); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, path, want string
	}{
		{"link", link, ""},
		{"missing", filepath.Join(dir, "none"), "no such file"},
		{"folder", dir, "not a regular file"},
		{"pipe", fifo, "not a regular file"},
		{"too long", write("long", strings.Repeat("#", maxKeyFile+1)), "longer than 65536 bytes"},
		{"a path of two lines", dir + "/a\nb", "no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg, err := Load([]string{"RINGLET_KEY_FILE=" + tt.path}, os.Hostname)
			if tt.want == "" {
				if err != nil || len(cfg.Keys) != 2 {
					t.Errorf("got %d keys and %v", len(cfg.Keys), err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v, want one line with %q", err, tt.want)
			}
		})
	}
}
