// Package privilege gives up what the process of the plugin does not need of
// the rights of root. The process reads what strangers send, so a fault in it is
// not to be worth all that the engine lets a plugin do.
//
// It refuses to know what the process does with the rights that it keeps.
//
// [Drop] acts on every thread of the process, as capabilities and
// no_new_privs are a thread's own in Linux, and Go moves goroutines between
// threads: it calls [syscall.AllThreadsSyscall], which stops the process for some
// microseconds and makes the call on each thread. Threads that start later take
// after the one that starts them. A build with cgo has threads that Go does not
// know, and there the call is refused: what is released has no cgo.
//
// The other ways are worse. A re-exec of the program after the drop would need
// /proc, a program file that may still be executed, and a mark in the environment
// against an endless loop, for the same result. The module libcap/cap does the
// same through psx, which brings cgo into every build of the tests.
//
// What is given up cannot be had again, by nothing that this process executes
// either: the bounding set is empty, and no_new_privs is set. What root owns,
// and root's mode bits let root read and write, stays within reach, as does
// everything that is open. What belongs to another user, and is closed to others,
// is out of reach: an engine's socket, a database or a key file of root's own
// is not concerned.
package privilege

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// highest is above the number of any capability that a kernel has: there are two
// words of them.
const highest = 64

// Drop gives up all capabilities, in all sets, but CAP_NET_RAW in the permitted
// and the effective set if it is to be kept and is there: ARP goes through packet
// sockets. It sets no_new_privs. Dropping what is not there is no error, so a
// process without rights may call it, and a second call may drop CAP_NET_RAW.
//
// An error says what could not be given up; what comes before it has been.
func Drop(keepNetRaw bool) error {
	if err := onAllThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return fmt.Errorf("no_new_privs cannot be set: %w", err)
	}
	has, err := permitted()
	if err != nil {
		return err
	}
	// CAP_NET_RAW, too: only what this process executes could gain by it.
	if has&bit(unix.CAP_SETPCAP) != 0 {
		if err := emptyBoundingSet(); err != nil {
			return err
		}
	}
	// Kernels before 4.3 have no ambient set.
	err = onAllThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("the ambient capabilities cannot be dropped: %w", err)
	}
	keep := uint64(0)
	if keepNetRaw {
		keep = has & bit(unix.CAP_NET_RAW)
	}
	words := [2]unix.CapUserData{{Effective: uint32(keep), Permitted: uint32(keep)}} // its number is below 32
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	if err := onAllThreads(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&words))); err != nil {
		return fmt.Errorf("the capabilities cannot be dropped: %w", err)
	}
	return nil
}

func bit(capability int) uint64 { return 1 << capability }

// permitted returns the permitted set of this thread, which is that of all.
func permitted() (uint64, error) {
	var words [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &words[0]); err != nil {
		return 0, fmt.Errorf("the capabilities cannot be read: %w", err)
	}
	return uint64(words[1].Permitted)<<32 | uint64(words[0].Permitted), nil
}

// emptyBoundingSet takes away every capability of the kernel, which takes
// CAP_SETPCAP.
func emptyBoundingSet() error {
	for c := range uintptr(highest) {
		is, _, errno := syscall.Syscall(unix.SYS_PRCTL, unix.PR_CAPBSET_READ, c, 0)
		if errno == unix.EINVAL {
			return nil // the kernel has no more
		}
		if is == 0 {
			continue
		}
		if err := onAllThreads(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c); err != nil {
			return fmt.Errorf("the capability %d cannot be dropped from the bounding set: %w", c, err)
		}
	}
	return nil
}

// onAllThreads makes a system call on all threads. The arguments that follow
// are zero, as prctl wants it of those that it does not use.
//
//go:uintptrescapes
func onAllThreads(call, a, b uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall6(call, a, b, 0, 0, 0, 0); errno == syscall.ENOTSUP {
		return errors.New("this program was built with cgo: build it with CGO_ENABLED=0, as make build does")
	} else if errno != 0 {
		return errno
	}
	return nil
}

// Early calls drop at once for all but CAP_NET_RAW, and returns what gives that up, too, if it is not to be kept. What was not given up
// at once is the error of both. A nil drop stays nil.
func Early(drop func(keepNetRaw bool) error) func(keepNetRaw bool) error {
	if drop == nil {
		return nil
	}
	kept := drop(true)
	return func(keepNetRaw bool) error {
		if kept != nil || keepNetRaw {
			return kept
		}
		return drop(false)
	}
}
