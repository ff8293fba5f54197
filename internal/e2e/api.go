package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
)

// What tests ask again and again while they wait, they ask the APIs themselves: a command inside a host costs a hundred
// times as much, and the machine has other things to do then.

// Dial connects to a unix socket of the host.
func (h *Host) Dial(ctx context.Context, socket string) (net.Conn, error) {
	// The path of a plugin's socket, seen from outside, is longer than an address may be. Its directory has no such limit.
	dir, err := os.Open(h.path(path.Dir(socket)))
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), path.Base(socket)))
}

// errNotFound is returned when an API knows nothing of what was asked for.
var errNotFound = errors.New("not found")

// ask calls an HTTP API on a unix socket of the host and decodes its answer.
func (h *Host) ask(socket, method, route string, answer any) error {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return h.Dial(ctx, socket)
	}}
	ctx, cancel := context.WithTimeout(context.Background(), commandLimit) // not the test's, as in Try
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+h.Name+route, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusNotFound {
		return fmt.Errorf("%s %s on %s: %w: %s", method, route, h.Name, errNotFound, body)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s on %s: %s: %s", method, route, h.Name, response.Status, body)
	}
	if err := json.Unmarshal(body, answer); err != nil {
		return fmt.Errorf("%s %s on %s: %w\n%s", method, route, h.Name, err, body)
	}
	return nil
}

// askEngine reads from the engine's API.
func (e *Engine) askEngine(route string, answer any) error {
	return e.ask("/run/docker.sock", http.MethodGet, route, answer)
}

// askPlugin reads from the API of the installed [Plugin].
func (e *Engine) askPlugin(route string, answer any) error {
	var plugin struct {
		ID      string
		Enabled bool
	}
	if err := e.askEngine("/plugins/"+Plugin+"/json", &plugin); err != nil {
		return err
	}
	if !plugin.Enabled {
		return errors.New("the plugin on " + e.Name + " is disabled")
	}
	return e.ask("/run/docker/plugins/"+plugin.ID+"/ringlet-admin.sock", http.MethodGet, route, answer)
}
