package persist

import (
	"os"
	"path/filepath"
	"testing"
)

// A power cut at each operation leaves the content before or the one after, whole, and what was acknowledged is on disk
// with its name.
func TestPowerCutDuringReplacement(t *testing.T) {
	rnd := testRand(t)
	for limit := 0; ; limit++ {
		mount := t.TempDir()
		root, unmount := mountPowerFS(t, mount, limit)
		cmd, out := startPart(t, partReplace, filepath.Join(mount, "keys"))
		acked := 0
		for out.Scan() {
			acked++
		}
		cmd.Wait() // fails where the power did
		left := root.pull(rnd)
		unmount()
		got, found := left["keys"]
		if text := string(got); text != replaced(acked) && text != replaced(acked+1) || !found && acked > 0 {
			t.Fatalf("cut after %d operations, %d acknowledged: %q", limit, acked, text)
		}
		if acked == replacements {
			if !root.namesSynced() {
				t.Error("the name is not on disk")
			}
			t.Logf("%d operations", limit)
			return
		}
	}
}

func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "keys")
	for _, text := range []string{"one", "two"} {
		if err := ReplaceFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got := readFile(t, path); string(got) != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != fileMode {
		t.Errorf("got %v, %v", info, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "sub"), dirMode); err != nil {
		t.Fatal(err)
	}
	if err := ReplaceFile(filepath.Join(dir, "sub"), nil); err == nil {
		t.Error("a directory was replaced")
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("left are %v, %v", list, err)
	}
}
