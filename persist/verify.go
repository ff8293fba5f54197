package persist

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ChildArg is the hidden argument that makes the program check a database and end. main must test for it before it
// reads any other flag, in the place right after the arguments given to [Verify] as exe:
//
//	if len(os.Args) > 1 && os.Args[1] == persist.ChildArg {
//		os.Exit(persist.ChildMain(os.Args[2:]))
//	}
const ChildArg = "check-database-and-exit"

// Exit codes of the child. 1 and 2 are taken by programs that did not understand, and 2 by the Go runtime when it dies.
const (
	exitIntact  = 0
	exitOther   = 80
	exitDamaged = 81
	exitLocked  = 82
	exitNewer   = 83
)

// childHello is the first line of the child. Without it a death says nothing about the database.
const childHello = "checking the database"

// Limits of the child, in bytes. A damaged page can claim billions of pages or lead back to itself; then the child
// shall die of its limits before it takes the machine's memory. An intact file must never meet them: the memory is
// counted on top of what the program needs anyway and of the size of the file, and bbolt's check needs some 100 bytes
// for each page of 4 KiB.
const (
	childMemory = 512 << 20
	childStack  = 64 << 20
)

// maxChildOutput bounds what is kept of each output of the child, in bytes.
const maxChildOutput = 4 << 10

// ChildMain is the body of the process that [Verify] starts. args are the arguments behind [ChildArg]; it returns the
// exit code, and limits the memory of the whole process.
func ChildMain(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: "+ChildArg+" FILE TIMEOUT")
		return exitOther
	}
	timeout, err := time.ParseDuration(args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitOther
	}
	limitChild(args[0])
	fmt.Println(childHello)
	err = checkFile(args[0], timeout)
	if err == nil {
		return exitIntact
	}
	// The sentinel travels as the exit code, and the text behind it as the second line.
	for _, known := range childErrors() {
		if errors.Is(err, known.err) {
			fmt.Println(strings.TrimPrefix(err.Error(), known.err.Error()))
			return known.code
		}
	}
	fmt.Println(err)
	return exitOther
}

// limitChild sets the limits. Where that fails the check is as good, only a damaged file may cost more.
func limitChild(path string) {
	debug.SetMaxStack(childStack)
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}) // no core file of a death that is expected
	info, err := os.Stat(path)
	if err != nil {
		return
	}
	used, err := dataPages()
	if err != nil {
		return
	}
	limit := used*uint64(os.Getpagesize()) + childMemory + uint64(info.Size())
	_ = unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit})
}

// dataPages returns what counts against RLIMIT_DATA now: the sixth number of /proc/self/statm.
func dataPages() (n uint64, err error) {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var skip uint64
	_, err = fmt.Sscan(string(statm), &skip, &skip, &skip, &skip, &skip, &n)
	return n, err
}

type childError struct {
	code int
	err  error
}

func childErrors() []childError {
	return []childError{{exitDamaged, ErrDamaged}, {exitLocked, ErrLocked}, {exitNewer, ErrNewerSchema}}
}

// Verify checks a database as [CheckFile] does, in a child process, which a damaged file may kill. exe is the command
// that runs this program up to where it expects [ChildArg], usually {"/proc/self/exe"}.
//
// Errors: as CheckFile; a child that died of the file is [ErrDamaged]. If it could not be run, was killed from
// outside, or ctx ended, the error says so and is not ErrDamaged.
func Verify(ctx context.Context, path string, exe []string) error {
	if err := verify(ctx, path, exe, defaultLockTimeout); err != nil {
		return fmt.Errorf("check database %s: %w", path, err)
	}
	return nil
}

func verify(ctx context.Context, path string, exe []string, timeout time.Duration) error {
	if len(exe) == 0 {
		return errors.New("no command to check it with")
	}
	args := slices.Concat(exe[1:], []string{ChildArg, path, timeout.String()})
	cmd := exec.CommandContext(ctx, exe[0], args...)
	cmd.Env = append(os.Environ(), "GOTRACEBACK=single")
	cmd.WaitDelay = time.Second
	var stdout, stderr head
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil && strings.HasPrefix(stdout.String(), childHello) {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("the check did not end in time: %w", context.Cause(ctx))
	}
	exit, isExit := errors.AsType[*exec.ExitError](err)
	text, said := strings.CutPrefix(stdout.String(), childHello+"\n")
	if !said || (err != nil && !isExit) {
		return fmt.Errorf("the check could not be run as %s: %w", exe[0], errors.Join(err, stderr.error()))
	}
	return childResult(exit.ProcessState, strings.TrimSuffix(text, "\n"), stderr.error())
}

// childResult turns the end of a child that began to check into an error.
func childResult(state *os.ProcessState, text string, stderr error) error {
	for _, known := range childErrors() {
		if state.ExitCode() == known.code {
			return fmt.Errorf("%w%s", known.err, text)
		}
	}
	if state.ExitCode() == exitOther {
		return errors.New(text)
	}
	status, _ := state.Sys().(syscall.WaitStatus)
	switch sig := status.Signal(); {
	case state.ExitCode() == 2, // the Go runtime: panic, fault, out of memory, stack overflow
		status.Signaled() && (sig == syscall.SIGSEGV || sig == syscall.SIGBUS || sig == syscall.SIGABRT):
		return fmt.Errorf("%w: reading it ended the process that checked it (%v): %w", ErrDamaged, state, stderr)
	}
	// Killed from outside, say for want of memory: that is no reason to give up a database.
	return fmt.Errorf("the check was ended from outside (%v): %w", state, stderr)
}

// head keeps the beginning of what is written to it and drops the rest.
type head struct{ buf bytes.Buffer }

func (h *head) Write(p []byte) (int, error) {
	h.buf.Write(p[:min(len(p), maxChildOutput-h.buf.Len())])
	return len(p), nil
}

func (h *head) String() string { return h.buf.String() }

// error returns the first line as an error, which for a dying Go program is the reason.
func (h *head) error() error {
	lines := bufio.NewScanner(bytes.NewReader(h.buf.Bytes()))
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" {
			return errors.New(line)
		}
	}
	return errors.New("it said nothing")
}
