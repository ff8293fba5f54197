package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// Replace gives a file a new content, or makes it, with mode 0600: whoever reads it finds the old one or the new one,
// also after the power failed, and the new one is on disk when it returns. path must be the file itself, not a link to it.
//
// Errors: what the system said. The file is as it was then, unless only its name in the directory could not be synced.
func Replace(path string, content []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".ringlet-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(dir)
}
