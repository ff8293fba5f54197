package persist

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"go.etcd.io/bbolt"
)

// CheckFile reads a whole database and checks everything that can be checked: that each byte can be read, bbolt's
// structure, each record, the guard, and the log of one that was not closed. It changes nothing. It waits up to 5 s
// for a process that has the database open.
//
// A damaged file may end the process instead of giving an error: use [Verify] unless the process is there to be lost.
// Errors: [ErrDamaged], [ErrLocked], [ErrNewerSchema] for a newer layout, or what the system said.
func CheckFile(path string) error {
	if err := checkFile(path, defaultLockTimeout); err != nil {
		return fmt.Errorf("check database %s: %w", path, err)
	}
	return nil
}

func checkFile(path string, timeout time.Duration) (err error) {
	db, err := bbolt.Open(path, fileMode, &bbolt.Options{
		ReadOnly:     true,
		Timeout:      timeout,
		OpenFile:     opener(false, timeout),
		FreelistType: bbolt.FreelistMapType,
		NoStatistics: true,
	})
	if err != nil {
		return err // see openBolt for what is not damage here
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// What the disk cannot read is an error here and would be a fault in mapped memory below.
	if _, err := io.Copy(io.Discard, f); err != nil {
		return err
	}
	return db.View(func(tx *bbolt.Tx) error {
		h, err := readHeader(tx)
		if errors.Is(err, ErrNewerSchema) {
			return err
		}
		if err := checkStructure(tx); err != nil {
			return err
		}
		if err := checkTrees(f); err != nil {
			return err
		}
		if err != nil {
			return err
		}
		if err := visitRecords(tx, h.guard, func(string, []byte, []byte) error { return nil }); err != nil || !h.logged {
			return err
		}
		_, _, err = readWAL(path, h)
		return err
	})
}

// checkStructure runs bbolt's own check.
func checkStructure(tx *bbolt.Tx) error {
	var first error
	n := 0
	for err := range tx.Check() { // to the end, or its goroutine would hang
		if n++; first == nil {
			first = err
		}
	}
	switch {
	case n == 1:
		return damagedBy(first)
	case n > 1:
		return fmt.Errorf("%w: %w (and %d more)", ErrDamaged, first, n-1)
	}
	return nil
}

// exists reports whether there is anything at path.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
