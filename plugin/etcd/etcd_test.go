package etcd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// server is a real etcd, on ports of its own.
type server struct {
	t         *testing.T
	dir       string
	client    string // its URL
	peer      string
	args      []string
	ca        string // files of its clients; empty: none
	cert, key string
	user      string // user:password of etcdctl
	cmd       *exec.Cmd
	out       *bytes.Buffer
	ended     chan struct{}
}

// start starts an etcd, on which a client shows what is in s. Args are further arguments.
func (s *server) start(t *testing.T, scheme string, args ...string) *server {
	t.Helper()
	t.Parallel() // nearly all of the time is waiting
	for _, program := range []string{"etcd", "etcdctl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("skipped: %s is not installed here (Debian: etcd-server and etcd-client)", program)
		}
	}
	s.t, s.dir, s.client, s.peer, s.args = t, filepath.Join(t.TempDir(), "etcd"), scheme+"://"+free(t), "http://"+free(t), args
	s.up()
	t.Cleanup(s.down)
	return s
}

func start(t *testing.T) *server {
	t.Helper()
	return new(server).start(t, "http")
}

// free returns an address of loopback at which nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// up starts the process, and returns when it has a leader.
func (s *server) up() {
	s.t.Helper()
	s.cmd = exec.CommandContext(context.WithoutCancel(s.t.Context()), "etcd", append([]string{
		"--data-dir", s.dir, "--listen-client-urls", s.client, "--advertise-client-urls", s.client,
		"--listen-peer-urls", s.peer, "--initial-advertise-peer-urls", s.peer, "--initial-cluster", "default=" + s.peer,
		"--heartbeat-interval", "20", "--election-timeout", "100",
	}, s.args...)...)
	s.out = new(bytes.Buffer)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.ended = make(chan struct{})
	go func() {
		_ = s.cmd.Wait()
		close(s.ended)
	}()
	until(s.t, 30*time.Second, "etcd answers", func() bool {
		_, err := s.try("get", "nothing")
		return err == nil
	})
}

// down ends the process.
func (s *server) down() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

func (s *server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) try(args ...string) (string, error) {
	all := []string{"--endpoints", s.client, "--dial-timeout", "1s", "--command-timeout", "3s"}
	for name, value := range map[string]string{"--cacert": s.ca, "--cert": s.cert, "--key": s.key, "--user": s.user} {
		if value != "" {
			all = append(all, name, value)
		}
	}
	cmd := exec.CommandContext(context.Background(), "etcdctl", append(all, args...)...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return string(out), err
}

// ctl runs etcdctl.
func (s *server) ctl(args ...string) string {
	s.t.Helper()
	out, err := s.try(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// keys returns the keys below ringlet/ with their values.
func (s *server) keys() map[string]string {
	s.t.Helper()
	out, err := s.try("get", "--prefix", "ringlet/")
	if err != nil {
		return map[string]string{"error": err.Error()}
	}
	all := map[string]string{}
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i := 0; i+1 < len(lines); i += 2 {
		if !strings.HasPrefix(lines[i], "ringlet/.initlock/") {
			all[lines[i]] = lines[i+1]
		}
	}
	return all
}

// until waits for what has no event to wait for.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// reports keeps what a mirror reports.
type reports struct {
	mu  sync.Mutex
	err error
	any bool
}

func (r *reports) set(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.any = err, true
}

func (r *reports) get() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.any {
		return errors.New("nothing was reported")
	}
	return r.err
}

// known reports whether something was reported.
func (r *reports) known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.any
}

func (r *reports) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err, r.any = nil, false
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
