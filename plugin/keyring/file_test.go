package keyring

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ringlet/ringlet/plugin/admin"
	"github.com/ringlet/ringlet/plugin/config"
)

// Two keys that are added at the same moment are both there.
func TestKeysAddedAtOnce(t *testing.T) {
	for range 50 {
		p := keyed(t, key(1))
		var wg sync.WaitGroup
		for n := byte(2); n < 6; n++ {
			wg.Go(func() {
				if _, err := p.ChangeKeys(context.Background(), admin.KeyChange{Step: admin.KeyAdd, Key: key(n)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		k, err := p.Keys(context.Background())
		if err != nil || len(k.Keys) != 5 {
			t.Fatalf("of 4 keys that were added beside the first one %d are there: %v", len(k.Keys)-1, err)
		}
	}
}

// A key file is a problem exactly as long as others than its owner may use it.
func TestKeysThatOthersMayRead(t *testing.T) {
	p := keyed(t, key(1))
	f := p.Open(slog.New(slog.DiscardHandler))
	for _, tt := range []struct {
		mode fs.FileMode
		open bool
	}{{0o600, false}, {0o400, false}, {0o644, true}, {0o640, true}, {0o604, true}, {0o620, true}, {0o602, true}, {0o601, true}, {0o700, false}} {
		if err := os.Chmod(p.cfg.KeyFile, tt.mode); err != nil {
			t.Fatal(err)
		}
		problem, wrong := f.Problem()
		if wrong != tt.open || wrong && (problem.Code != "keys-open" || !strings.Contains(problem.Text, fmt.Sprintf("mode %04o", tt.mode))) {
			t.Errorf("mode %04o: the problem is %+v, %v", tt.mode, problem, wrong)
		}
	}
	if _, wrong := New(config.Config{}).Open(slog.New(slog.DiscardHandler)).Problem(); wrong {
		t.Error("without a key file there is a problem with it")
	}
	if err := os.Remove(p.cfg.KeyFile); err != nil {
		t.Fatal(err)
	}
	if problem, wrong := f.Problem(); wrong {
		t.Errorf("a file that is gone is the problem %+v, which is for the network to tell", problem)
	}
}

// A key file that is a link to another is written where it leads.
func TestKeysBehindALink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "keys")
	if err := os.WriteFile(target, []byte(key(1)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	p := New(config.Config{KeyFile: link})
	if _, err := p.ChangeKeys(context.Background(), admin.KeyChange{Step: admin.KeyAdd, Key: key(2)}); err != nil {
		t.Fatal(err)
	}
	again := config.Config{KeyFile: target}
	keys, err := again.ReadKeys()
	if err != nil || len(keys) != 2 {
		t.Errorf("the file that the link led to has %d keys (%v), and not 2", len(keys), err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is one no more: %v, %v", info.Mode(), err)
	}
}
