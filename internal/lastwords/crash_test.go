package lastwords

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// crashIn names the environment variable that has this program crash, with the directory.
const crashIn = "RINGLET_TEST_CRASH_IN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashIn); dir != "" {
		if _, err := Catch(dir, "v1.2.3"); err != nil {
			panic(err)
		}
		done := make(chan struct{})
		go func() { panic("an error of the program") }() // in a goroutine that nothing contains
		<-done
	}
	os.Exit(m.Run())
}

func crash(t *testing.T, dir string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), crashIn+"="+dir)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Fatalf("it did not crash: %s", out)
	}
}

// A process that crashes leaves its stack, the next one keeps it, and one that ends otherwise leaves nothing.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadCrash(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing has crashed: %v", err)
	}
	begun := time.Now().Add(-time.Second)
	crash(t, dir)
	check := func() {
		t.Helper()
		c, err := ReadCrash(dir)
		if err != nil {
			t.Fatal(err)
		}
		if c.Version != "v1.2.3" || !strings.Contains(c.Headline(), "an error of the program") || !strings.Contains(c.Text, "crash_test.go") || c.At.Before(begun.Truncate(time.Second)) {
			t.Errorf("the crash is %+v", c)
		}
		if again, err := ParseCrash(c.String()); err != nil || again.Headline() != c.Headline() {
			t.Errorf("read back it is %+v, %v", again, err)
		}
	}
	check()
	for range 2 {
		release, err := Catch(dir, "v1.2.4")
		if err != nil {
			t.Fatal(err)
		}
		check()
		release()
		check()
	}
	for _, name := range []string{CrashName} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, outputName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a process that ended well leaves %v", err)
	}
	if err := WriteCrash(dir, Crash{At: time.Now(), Version: "v2", Text: strings.Repeat("x", 2*MaxCrash)}); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(filepath.Join(dir, CrashName)); err != nil || info.Size() > MaxCrash {
		t.Errorf("a long crash takes %v, %v", info, err)
	}
}

// None of the files is written where a link of its name leads to.
func TestLinksAreNotFollowed(t *testing.T) {
	dir := t.TempDir()
	victim := filepath.Join(t.TempDir(), "victim")
	if err := os.WriteFile(victim, []byte("untouched"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{Name, outputName, CrashName} {
		if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	_ = Write(dir, time.Now(), errors.New("why")) // which may fail
	if release, err := Catch(dir, "v1"); err == nil {
		release()
		t.Error("a crash would be written to where a link leads to")
	}
	_ = WriteCrash(dir, Crash{At: time.Now(), Version: "v1", Text: "panic"})
	if text, err := os.ReadFile(victim); err != nil || string(text) != "untouched" {
		t.Errorf("the file that the links led to has %q, %v", text, err)
	}
}
