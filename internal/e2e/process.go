package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A process is a daemon inside a host.
type process struct {
	host *Host
	name string
	cmd  *exec.Cmd
	pid  string        // inside the host
	done chan struct{} // closed when it has ended
}

// spawn starts a daemon inside the host. Its output, standard error included, goes to out.
func (h *Host) spawn(out io.Writer, name string, args ...string) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// nsenter stays outside the pid namespace; the shell tells the daemon's id inside before it becomes the daemon.
	shell := []string{"-c", `echo $$ >&3; exec 3>&- "$@"`, name, name}
	cmd := h.Command(context.Background(), "bash", append(shell, args...)...)
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Start()
	w.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", name, h.Name, err)
	}
	p := &process{host: h, name: name, cmd: cmd, done: make(chan struct{})}
	go func() { // ends with the daemon, which ends with the host at the latest
		_ = cmd.Wait()
		close(p.done)
	}()
	id, err := bufio.NewReader(r).ReadString('\n') // not to the end: nsenter holds the pipe open
	if err != nil {
		return nil, fmt.Errorf("%s on %s did not start: %w", name, h.Name, err)
	}
	p.pid = strings.TrimSpace(id)
	return p, nil
}

// running says whether the daemon has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// signal sends a signal, by its name without SIG.
func (p *process) signal(name string) error {
	if _, err := p.host.Try("kill", "-s", name, p.pid); err != nil || name != "CONT" {
		return err
	}
	return p.cmd.Process.Signal(syscall.SIGCONT) // nsenter stops itself when its child is stopped, and would not see it end
}

// end sends a signal and returns when the daemon has ended of it.
func (p *process) end(signal string) error {
	if err := p.signal(signal); err != nil {
		return err
	}
	timer := time.NewTimer(stopLimit)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return fmt.Errorf("%s on %s still runs after %v", p.name, p.host.Name, stopLimit)
	}
}
