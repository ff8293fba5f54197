package lastwords

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ringlet/ringlet/internal/durable"
)

const (
	// CrashName is the file of the last crash in the data directory: the time, the
	// version of the program, and what Go said, a stack at least.
	CrashName = "last-crash"
	// outputName is the file that Go writes to when this process crashes.
	outputName = "crash-output"
	// MaxCrash is as much of a crash as is kept, in bytes.
	MaxCrash = 64 << 10
)

// Crash is how a process ended at an error of the program, or what it survived
// only as it threw its state away.
type Crash struct {
	At      time.Time // by the host's clock
	Version string    // of the program
	Text    string    // what Go said
}

// Catch has Go write down how this process crashes, if it does, in the directory,
// until release is called: when the process ends otherwise. What an earlier process
// left becomes the last crash. Only who has the database open may call it.
func Catch(dir, version string) (release func(), err error) {
	path := filepath.Join(dir, outputName)
	if c, err := readOutput(path); err == nil {
		if err := WriteCrash(dir, c); err != nil {
			return nil, err // what there is must not be overwritten
		}
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, version); err != nil {
		return nil, err
	}
	if err := debug.SetCrashOutput(f, debug.CrashOptions{}); err != nil {
		return nil, err
	}
	return func() {
		_ = debug.SetCrashOutput(nil, debug.CrashOptions{}) // closes a file
		_ = os.Remove(path)                                 // with nothing in it; the next process would overwrite it
	}, nil
}

// readOutput returns what a process that crashed has left. Errors: [fs.ErrNotExist]
// if it has not crashed.
func readOutput(path string) (Crash, error) {
	text, at, err := readBounded(path)
	if err != nil {
		return Crash{}, err
	}
	version, stack, _ := strings.Cut(text, "\n")
	if strings.TrimSpace(stack) == "" {
		return Crash{}, fs.ErrNotExist
	}
	return Crash{At: at, Version: version, Text: stack}, nil
}

// readBounded reads the beginning of a file, and when it was written.
func readBounded(path string) (string, time.Time, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", time.Time{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", time.Time{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxCrash))
	return strings.ToValidUTF8(string(text), "?"), info.ModTime(), err
}

// WriteCrash keeps a crash in the place of the last one.
func WriteCrash(dir string, c Crash) error {
	text := c.String()
	return durable.Replace(filepath.Join(dir, CrashName), []byte(text[:min(len(text), MaxCrash)]))
}

// ReadCrash returns the last crash. Errors: [fs.ErrNotExist] if there was none,
// [fs.ErrPermission] and others of the system, and one of a file that is none of ours.
func ReadCrash(dir string) (Crash, error) {
	if c, err := readOutput(filepath.Join(dir, outputName)); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	text, _, err := readBounded(filepath.Join(dir, CrashName))
	if err != nil {
		return Crash{}, err
	}
	return ParseCrash(text)
}

// ParseCrash reads what [Crash.String] writes.
func ParseCrash(text string) (Crash, error) {
	first, rest, _ := strings.Cut(text, "\n")
	version, stack, _ := strings.Cut(rest, "\n")
	at, err := time.Parse(time.RFC3339, first)
	if err != nil || strings.TrimSpace(stack) == "" {
		return Crash{}, fmt.Errorf("%s was cut short", CrashName)
	}
	return Crash{At: at, Version: version, Text: strings.TrimSpace(stack)}, nil
}

// String returns the crash as its file has it.
func (c Crash) String() string {
	return c.At.UTC().Format(time.RFC3339) + "\n" + c.Version + "\n" + strings.TrimSpace(c.Text) + "\n"
}

// Headline returns the line that says what happened.
func (c Crash) Headline() string {
	line, _, _ := strings.Cut(strings.TrimSpace(c.Text), "\n")
	return line
}
