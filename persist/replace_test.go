package persist

import (
	"path/filepath"
	"testing"
)

// A power cut at each operation of durable.Replace leaves the content before or the one after, whole, and what was acknowledged is on disk
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
