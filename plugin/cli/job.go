package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// job is a command that runs as a child of this process, with all that it starts.
type job struct {
	pid  int
	done chan error // gets how it ended: nil, or its exit code
	told bool       // to end
}

// startJob runs a command in a process group of its own. It is killed if this process is.
func startJob(argv, env []string) (*job, error) {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // what the user wants to run; it is ended with all that it has started
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if _, err := unix.IoctlGetTermios(int(os.Stdin.Fd()), unix.TCGETS); err == nil { // it reads the terminal, and gets its signals
		cmd.SysProcAttr.Foreground, cmd.SysProcAttr.Ctty = true, int(os.Stdin.Fd())
	}
	j := &job{done: make(chan error, 1)}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the kernel takes the death of the thread that starts a child for that of its parent
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			j.done <- outcome(cmd.Wait())
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s cannot be run: %w", argv[0], err)
	}
	j.pid = cmd.Process.Pid
	return j, nil
}

// outcome returns how a command ended, as a shell has it: 128 and the number of a signal.
func outcome(err error) error {
	exit, failed := errors.AsType[*exec.ExitError](err)
	if !failed {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitError(128 + int(status.Signal()))
	}
	return exitError(exit.ExitCode())
}

// end tells the command, and all that it has started, to end: once by SIGTERM, and each time by SIGKILL.
func (j *job) end(kill bool) {
	switch {
	case kill:
		_ = syscall.Kill(-j.pid, syscall.SIGKILL)
	case !j.told:
		_ = syscall.Kill(-j.pid, syscall.SIGTERM)
	}
	j.told = true
}

// bootTime is the time since the host started, also while it slept.
func bootTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) // it is there since Linux 2.6.39
	return time.Duration(t.Nano())
}
