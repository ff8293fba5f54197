package database

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/persist"
	"github.com/ringlet/ringlet/plugin/decisions"
)

// Open opens the database at path, and shows it to preview. One that is damaged is kept beside a new one, and damaged says so; lists
// says whether the engine will list what it has. Its errors say what an operator can do.
func Open(path string, lists bool, preview persist.Preview, ballast *persist.Ballast, logger *slog.Logger) (
	store *persist.Store, damaged bool, err error,
) {
	dir := filepath.Dir(path)
	store, damage, err := persist.OpenOrReplace(persist.Config{
		Path: path, Schema: ipam.SchemaVersion, Preview: preview, Ballast: ballast, Logger: logger,
	})
	if err != nil {
		return nil, false, WithRemedy(err, dir)
	}
	if err := narrow(dir); err != nil {
		logger.Warn("database directory not restricted to its owner", logattr.Err(err))
	}
	if damage != nil {
		next := "this host begins a new database, and takes in the addresses that the engine lists or replays before it hands out others"
		if !lists {
			next = "this host begins a new database and cannot ask the engine what is in use: restart the engine, so that it replays its endpoints, before you start new containers"
		}
		logger.Error("database was damaged", logattr.Err(damage.Cause), slog.String("kept", damage.Kept), slog.String("next", next))
	}
	return store, damage != nil, nil
}

// narrow keeps others out of the directory of the database, as of one that was made
// before. One that others write to, as /tmp, or that is another user's stays as it is.
func narrow(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(st.Uid) != os.Geteuid() || info.Mode()&os.ModeSticky != 0 || info.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return os.Chmod(dir, info.Mode().Perm()&0o700)
}

// WithRemedy adds to an error of the system, of a database in the directory, what to do about it.
func WithRemedy(err error, dir string) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%w: make room for some MB on the disk of %s", err, dir)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: see in dmesg whether the disk of %s fails, and mount it read-write", err, dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: create the directory that %s should be in, or correct --data", err, dir)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: let this process read and write everything in %s, as root or as the owner of its files", err, dir)
	}
	return err
}

// Aside is a database that was set aside, in whose place there is a new one, or an older one. Lists of the
// engine tell that one what containers have, and nobody what ringlet alloc had given out: so it is told for
// as long as anything that is kept of it lies there, also by later starts.
type Aside struct{ *persist.Damage } // nil: nothing was set aside

// FindAside looks for what was set aside from the database.
func FindAside(database string) (Aside, error) {
	damage, err := persist.LeftAside(database)
	return Aside{damage}, err
}

// Problem returns what to tell an operator; false if there is no such file, or none is there any more. restored says that
// what people had decided was read again, and keeps that there is the file from which it is. A peer that joins waits for the other
// hosts of its cluster, of which there may be none.
func (a Aside) Problem(restored, keeps, joins bool) (ipam.Problem, bool) {
	if a.Damage == nil {
		return ipam.Problem{}, false
	}
	var left []string
	for _, file := range a.All {
		if exists(file) {
			left = append(left, filepath.Base(file))
		}
	}
	if len(left) == 0 {
		return ipam.Problem{}, false
	}
	text := "the database of this host was damaged, and a new one took its place"
	if a.LogAlone {
		text = "the database of this host was taken away, or an older copy was written over it"
	}
	text += ": addresses of ringlet alloc may be handed out again"
	next := "give the addresses of holders outside Docker out again with ringlet alloc --ip"
	const decided = "; pools, exclusions and reservations "
	switch {
	case restored:
		text += decided + "were read again from " + decisions.FileName
	case keeps && joins:
		text += decided + "are read again from " + decisions.FileName + " if this host founds its cluster again"
	default:
		text += decided + "are lost if no other host of the cluster knows them"
		next = "recreate them with ringlet snapshot restore, or with ringlet alloc --ip for holders outside Docker, exclude add and reserve add"
	}
	if joins {
		next = "if this was the only host of its cluster, set RINGLET_BOOTSTRAP=1, so that it founds the cluster again; " + next
	}
	return ipam.Problem{
		Code: "database-replaced", Level: string(ipam.Degraded), Text: text,
		Next: next + "; then remove " + strings.Join(left, " ") + " from the plugin's data",
	}, true
}

// exists reports whether there is a file of that name.
func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}
