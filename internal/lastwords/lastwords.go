// Package lastwords keeps why a process ended, and how one crashed, beside its database. The engine
// tells whoever enables a plugin that does not start only that its socket is not
// there, and the reason stands far down in the engine's own log; ringlet doctor
// finds it here.
//
// It refuses to know why a process ends: its caller says that.
package lastwords

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Name of the file in the data directory: the time, a line, and the reason.
const Name = "last-error"

// maxBytes is as much of the file as is read: a sentence for each setting has
// room.
const maxBytes = 64 << 10

// Words are why a process ended.
type Words struct {
	At   time.Time // by the host's clock
	Text string    // the reason; lines of it if there are several
}

// Write keeps why the process ends at that time. Where there is no directory,
// or no room in it, the log alone has the reason.
func Write(dir string, at time.Time, why error) error {
	text := at.UTC().Format(time.RFC3339) + "\n" + why.Error() + "\n"
	path := filepath.Join(dir, Name)
	if err := write(path, text); err != nil {
		_ = os.Remove(path) // a part of it, or none, as on a full disk, would be taken for a file that was damaged
		return fmt.Errorf("the reason could not be kept for ringlet doctor: %w", err)
	}
	return nil
}

// write writes a file, and not where a link of that name leads to.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// Forget removes what was written: the process serves.
func Forget(dir string) error {
	if err := os.Remove(filepath.Join(dir, Name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the reason of an earlier end could not be removed: %w", err)
	}
	return nil
}

// Read returns what the last process wrote as it ended. Errors: [fs.ErrNotExist]
// if it wrote nothing, [fs.ErrPermission] and others of the system, and one of a
// file that is none of ours or was cut short.
func Read(dir string) (Words, error) {
	f, err := os.Open(filepath.Join(dir, Name))
	if err != nil {
		return Words{}, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBytes))
	if err != nil {
		return Words{}, err
	}
	first, rest, _ := strings.Cut(string(text), "\n")
	at, err := time.Parse(time.RFC3339, first)
	if err != nil || strings.TrimSpace(rest) == "" {
		return Words{}, fmt.Errorf("%s was cut short", f.Name())
	}
	return Words{At: at, Text: strings.TrimSpace(rest)}, nil
}
