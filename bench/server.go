package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docker/docker/pkg/plugins"

	remote "github.com/docker/go-plugins-helpers/ipam"
)

// process is a server that runs beside the measurement.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	path string // of its socket
}

// start runs a program, with these settings and no others in its environment, and returns when ready does not fail any
// more.
func (b *bench) start(dir string, ready func() error, name string, args []string, settings ...string) (*process, error) {
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(b.ctx, name, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RINGLET_") }), settings...)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, log: log}
	if err := poll(b.ctx, ready); err != nil {
		p.stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%s: %w: %s", name, err, text)
	}
	return p, nil
}

// stop ends the process as the engine would.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
	_ = p.log.Close()
}

// startLimit is how long a server may take to answer.
const startLimit = 30 * time.Second

// poll asks again and again until it is answered.
func poll(ctx context.Context, ready func() error) error {
	end := time.Now().Add(startLimit)
	for {
		err := ready()
		if err == nil || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// binary builds a program, once.
func (b *bench) binary(name, dir, pkg string, flags ...string) (string, error) {
	path, err := filepath.Abs(filepath.Join(b.dir, name))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.CommandContext(b.ctx, "go", append(append([]string{"build", "-o", path}, flags...), pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", pkg, err, out)
	}
	return path, nil
}

// startRinglet runs ringlet's own process, without an engine, on the database in dir.
func (b *bench) startRinglet(dir string, settings ...string) (*process, error) {
	bin, err := b.binary("ringlet", "..", "./plugin")
	if err != nil {
		return nil, err
	}
	return b.serveRinglet(bin, dir, settings...)
}

// serveRinglet runs such a process of the program bin.
func (b *bench) serveRinglet(bin, dir string, settings ...string) (*process, error) {
	socket := filepath.Join(dir, "ringlet.sock")
	p, err := b.start(dir, func() error { return activate(b.ctx, socket) }, bin, []string{
		"serve", "--data", dir, "--socket", socket, "--admin-socket", filepath.Join(dir, adminSocket), "--docker-socket", "",
	}, append([]string{"RINGLET_NAME=host-a"}, settings...)...)
	if err != nil {
		return nil, err
	}
	p.path = socket
	return p, nil
}

// adminSocket is where ringlet serves its API and metrics, in the directory of its database.
const adminSocket = "admin.sock"

// activate asks a plugin what it is, and waits for the answer if there is a socket.
func activate(ctx context.Context, socket string) error {
	c := unixDialer(socket).client()
	defer c.CloseIdleConnections()
	return noop(ctx, c)
}

// noop asks a plugin for something that it knows by heart.
func noop(ctx context.Context, c *http.Client) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://plugin/IpamDriver.GetDefaultAddressSpaces", http.NoBody)
	if err != nil {
		return err
	}
	r, err := c.Do(q)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("the plugin answers %s", r.Status)
	}
	_, err = io.Copy(io.Discard, r.Body) // so that the connection is kept
	return err
}

// engine is a client as dockerd is one, with its own connection.
type engine struct {
	client *plugins.Client
	pool   string // its ID
	name   string
	n      int
	held   string
}

func newEngine(socket, name string) (*engine, error) {
	c, err := plugins.NewClient("unix://"+socket, nil)
	return &engine{client: c, pool: poolID, name: name}, err
}

// poolID is the pool ID that ringlet gave the engine for the network, unless it is another one.
const poolID = "ringlet1/local/10.50.0.0/16"

// request asks for an address as an engine of today does.
func (e *engine) request() remote.RequestAddressRequest {
	e.n++
	return remote.RequestAddressRequest{PoolID: e.pool, Options: map[string]string{
		"com.docker.network.endpoint.name":       fmt.Sprintf("%s-%d", e.name, e.n),
		"com.docker.network.endpoint.macaddress": "02:42:0a:01:02:03",
	}}
}

// next allocates, or frees what was allocated.
func (e *engine) next() error {
	if e.held != "" {
		a := e.held
		e.held = ""
		return e.client.Call("IpamDriver.ReleaseAddress", remote.ReleaseAddressRequest{PoolID: e.pool, Address: a}, &struct{}{})
	}
	var r remote.RequestAddressResponse
	err := e.client.Call("IpamDriver.RequestAddress", e.request(), &r)
	if err != nil {
		return err
	}
	p, err := netip.ParsePrefix(r.Address)
	e.held = p.Addr().String()
	return err
}

// noop calls the same server with the same body for something that it knows by heart.
func (e *engine) noop() error {
	var spaces remote.AddressSpacesResponse
	return e.client.Call("IpamDriver.GetDefaultAddressSpaces", e.request(), &spaces)
}

// engines returns so many clients of a socket.
func engines(socket, name string, n int) ([]*engine, error) {
	list := make([]*engine, n)
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range list {
		wg.Go(func() { list[i], errs[i] = newEngine(socket, fmt.Sprintf("%s-%d", name, i)) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
