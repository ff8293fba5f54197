package persist

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ringlet/ringlet/internal/durable"
)

// cutPower lets a process commit on a powerFS, pulls the plug after a few commits, and checks what is left.
// It returns nil if nothing acknowledged is lost and nothing is torn, and the last acknowledged step.
func cutPower(t *testing.T, rnd *rand.Rand, h *history, mode string) (acked uint64, err error) {
	t.Helper()
	dir, name := t.TempDir(), "ring.db"
	root, unmount := mountPowerFS(t, dir, -1)
	cmd, out := startPart(t, partWrite, filepath.Join(dir, name), mode)
	acked = readAcks(t, out, 0, rnd.IntN(40))
	left := root.pull(rnd)
	for out.Scan() { // acknowledged before the cut, or the writer lies
		acked = parseAck(t, out.Text())
	}
	cmd.Wait()
	unmount()
	path := filepath.Join(t.TempDir(), name)
	writeAll(t, filepath.Dir(path), left)
	if err := CheckFile(path); err != nil {
		if !errors.Is(err, ErrDamaged) {
			t.Fatal(err)
		}
		return acked, err
	}
	return acked, h.checkDatabase(path, acked, acked+1)
}

func writeAll(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPowerCut(t *testing.T) {
	cuts := orShort(40, 10)
	rnd := testRand(t)
	h := newHistory()
	commits := uint64(0)
	for range cuts {
		acked, err := cutPower(t, rnd, h, modeSync)
		if err != nil {
			t.Fatalf("power cut after step %d: %v", acked, err)
		}
		commits += acked
	}
	t.Logf("%d power cuts, %d commits", cuts, commits)
}

// The control of TestPowerCut: without syncs databases lose something, or the test above proves nothing. Chance lets one
// of a hundred cuts or so leave a whole database.
func TestPowerCutControl(t *testing.T) {
	const cuts = 8
	rnd := testRand(t)
	h := newHistory()
	lost := 0
	for range cuts {
		if _, err := cutPower(t, rnd, h, modeNoSync); err != nil {
			lost++
		}
	}
	if lost < cuts/2 {
		t.Errorf("%d of %d power cuts without syncs lost something, want nearly all", lost, cuts)
	}
}

// A power cut at each operation of a database's creation leaves a whole one or none.
func TestPowerCutDuringCreation(t *testing.T) {
	rnd := testRand(t)
	for limit := 0; ; limit++ {
		mount := t.TempDir()
		root, unmount := mountPowerFS(t, mount, limit)
		cmd, out := startPart(t, partHold, filepath.Join(mount, "ring.db"))
		created := out.Scan() // or the process ended, having met an error
		left := root.pull(rnd)
		cmd.Process.Kill() // fails when it is gone already
		cmd.Wait()
		unmount()
		dir := t.TempDir()
		writeAll(t, dir, left)
		path := filepath.Join(dir, "ring.db")
		if found, err := durable.Exists(path); err != nil || (created && !found) {
			t.Fatalf("cut after %d operations: no database (%v)", limit, err)
		}
		s, damage, err := OpenOrReplace(testConfig(path))
		if err != nil || damage != nil {
			t.Fatalf("cut after %d operations: got %v, %v, want a database", limit, damage, err)
		}
		s.Close()
		if created {
			t.Logf("%d operations", limit)
			return
		}
	}
}

// Each sync fails in turn, once, and what it should have brought to the disk is where every reader sees it and never gets
// there. What the next process finds, and goes on with, a power cut must not take back.
func TestPowerCutAfterFailedSync(t *testing.T) {
	const steps = 4
	rnd := testRand(t)
	h := newHistory()
	for _, mode := range []string{modeNoLog, modeSync} {
		for more := range 2 { // steps of that process
			for n, hit := 1, true; hit; n++ {
				mount := t.TempDir()
				root, unmount := mountPowerFS(t, mount, -1)
				path := filepath.Join(mount, "ring.db")
				runPart(t, partFail, path, mode, "0")
				root.failSync(n)
				runPart(t, partFail, path, mode, strconv.Itoa(steps))
				hit = root.failSync(0) <= 0
				cmd, out := startPart(t, partWrite, path, mode)
				acked := readAcks(t, out, 0, more)
				left := root.pull(rnd)
				for out.Scan() {
					acked = parseAck(t, out.Text())
				}
				cmd.Wait()
				unmount()
				dir := t.TempDir()
				writeAll(t, dir, left)
				if err := h.checkDatabase(filepath.Join(dir, "ring.db"), acked, acked+1); err != nil {
					t.Errorf("%s: sync %d failed, the next process went on for %d steps, and the power failed after step %d: %v",
						mode, n, more, acked, err)
				}
				if !hit && n <= 2*steps {
					t.Errorf("%s: %d syncs, want one for each step and more", mode, n-1)
				}
			}
		}
	}
}

// A process that is killed before it has synced the name of its database leaves that to the next one.
func TestNameIsSyncedAtStart(t *testing.T) {
	mount := t.TempDir()
	root, _ := mountPowerFS(t, mount, -1)
	path := filepath.Join(mount, "ring.db")
	runPart(t, partFail, path, modeNoLog, "0")
	root.forgetNames()
	runPart(t, partFail, path, modeNoLog, "0")
	if !root.namesSynced() {
		t.Error("the name is not on disk")
	}
}

// runPart is startPart for a part that ends by itself.
func runPart(t *testing.T, args ...string) {
	t.Helper()
	cmd, out := startPart(t, args...)
	for out.Scan() { // what it says is of no interest
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}
