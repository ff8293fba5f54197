package persist

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is the pause between two attempts to take a lock; flock itself has no timeout.
const lockPoll = 20 * time.Millisecond

// lockFile takes the lock that bbolt uses too (flock), exclusively or shared, and waits for it no longer than timeout.
// The lock belongs to the open file: closing f releases it.
func lockFile(f *os.File, exclusive bool, timeout time.Duration) error {
	how := unix.LOCK_SH | unix.LOCK_NB
	if exclusive {
		how = unix.LOCK_EX | unix.LOCK_NB
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(lockPoll) {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case !errors.Is(err, unix.EWOULDBLOCK):
			return &os.PathError{Op: "flock", Path: f.Name(), Err: err}
		case time.Now().After(deadline):
			return fmt.Errorf("%w by %s: end that process, or let it finish", ErrLocked, holderOf(f))
		}
	}
}

// InUse reports whether a process, be it this one, has the database at path open.
func InUse(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(lockFile(f, false, 0), ErrLocked)
}

// holderOf describes the process that holds a lock on f, for people.
func holderOf(f *os.File) string {
	const unknown = "a process that cannot be seen from here (perhaps in another container)"
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return unknown
	}
	locks, err := os.Open("/proc/locks")
	if err != nil {
		return unknown
	}
	defer locks.Close()
	pid := lockHolder(locks, unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	if pid <= 0 {
		return unknown
	}
	if pid == os.Getpid() {
		return fmt.Sprintf("this process itself (%d)", pid)
	}
	// Only the program's name: its arguments may hold a secret.
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	name, _, _ := bytes.Cut(line, []byte{0})
	if err != nil || len(name) == 0 {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, bytes.ToValidUTF8(name, []byte("?")))
}

// lockHolder finds in the text of /proc/locks who holds a flock on a file, and returns 0 for nobody. Its lines read
//
//	1: FLOCK  ADVISORY  WRITE 1234 fe:01:5678 0 EOF
//
// with "->" after the number for one who waits. The device is the file system's, which differs from what stat tells
// on overlays and subvolumes: a line with the same inode on another device is the second choice.
func lockHolder(locks io.Reader, major, minor uint32, inode uint64) int {
	second := 0
	lines := bufio.NewScanner(locks)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) < 6 || field[1] != "FLOCK" {
			continue
		}
		pid, err := strconv.Atoi(field[4])
		if err != nil {
			continue
		}
		var gotMajor, gotMinor uint32
		var gotInode uint64
		if n, _ := fmt.Sscanf(field[5], "%x:%x:%d", &gotMajor, &gotMinor, &gotInode); n != 3 || gotInode != inode {
			continue
		}
		if gotMajor == major && gotMinor == minor {
			return pid
		}
		second = pid
	}
	return second
}
