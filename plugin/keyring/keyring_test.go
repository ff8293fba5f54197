package keyring

import (
	"bytes"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
)

func key(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }

// keyed is a ring whose keys are in a file.
func keyed(t *testing.T, keys ...string) *Ring {
	t.Helper()
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(strings.Join(keys, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load([]string{"RINGLET_KEY_FILE=" + file}, func() (string, error) { return "host-a", nil })
	if err != nil {
		t.Fatal(err)
	}
	return New(cfg)
}

// The keys change step by step, each step repeats safely, and one that comes
// too early changes nothing.
func TestKeysChange(t *testing.T) {
	d := keyed(t, key(1))
	now := func() string {
		keys, err := d.cfg.ReadKeys()
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, k := range keys {
			out = append(out, string('0'+k[0]))
		}
		return strings.Join(out, "")
	}
	for _, tt := range []struct {
		step, key, want, refused string
	}{
		{admin.KeyUse, key(2), "1", "add it on all hosts first"},
		{admin.KeyDrop, key(2), "1", "use it on all hosts first"},
		{admin.KeyAdd, "x", "1", "is not base64"},
		{admin.KeyAdd, "AAAA", "1", "has 3 bytes"},
		{admin.KeyAdd, key(1), "1", ""},
		{admin.KeyAdd, key(2), "12", ""},
		{admin.KeyAdd, key(2), "12", ""},
		{"away", key(2), "12", "step is"},
		{admin.KeyDrop, key(2), "12", "does not encrypt with that key"},
		{admin.KeyUse, key(2), "21", ""},
		{admin.KeyUse, key(2), "21", ""},
		{admin.KeyDrop, key(2), "2", ""},
		{admin.KeyDrop, key(2), "2", ""},
	} {
		keys, err := d.ChangeKeys(t.Context(), admin.KeyChange{Step: tt.step, Key: tt.key})
		switch {
		case tt.refused == "" && (err != nil || len(keys.Keys) != len(tt.want) || !keys.Keys[0].Encrypts || keys.Source != "file"):
			t.Errorf("%s %s: %+v, %v", tt.step, tt.key, keys, err)
		case tt.refused != "" && (!errors.Is(err, ipam.ErrBadRequest) || !strings.Contains(err.Error(), tt.refused) || strings.Contains(err.Error(), tt.key)):
			t.Errorf("%s %s: %v, want %s", tt.step, tt.key, err, tt.refused)
		}
		if got := now(); got != tt.want {
			t.Fatalf("after %s %s the keys are %s, want %s", tt.step, tt.key, got, tt.want)
		}
	}
	left, err := os.ReadDir(filepath.Dir(d.cfg.KeyFile))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the file lie %v, %v", left, err)
	}
	if info, err := os.Stat(d.cfg.KeyFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}
