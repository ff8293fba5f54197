package main

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// hostLocal is CNI's host-local, as a container runtime uses it: a process for each address that comes or goes, and a
// file for each that is held.
type hostLocal struct {
	path, dir string
	n         int
}

// hostLocalNet is the name of its network, and hostLocalPool its subnet.
const (
	hostLocalNet  = "bench"
	hostLocalPool = "10.61.0.0/16"
)

// newHostLocal returns one on a directory of its own in which so many addresses are held, every other one.
func newHostLocal(path, dir string, held int) (*hostLocal, error) {
	in := filepath.Join(dir, hostLocalNet)
	if err := os.MkdirAll(in, 0o700); err != nil {
		return nil, err
	}
	for i := range held {
		name := nth(netip.MustParsePrefix(hostLocalPool).Addr(), 2*i+2).String()
		if err := os.WriteFile(filepath.Join(in, name), []byte("held\r\neth0"), 0o600); err != nil {
			return nil, err
		}
	}
	return &hostLocal{path: path, dir: dir}, nil
}

// command runs the plugin once.
func (h *hostLocal) command(what string) error {
	cmd := exec.Command(h.path) //nolint:noctx // it ends by itself
	cmd.Env = []string{
		"CNI_COMMAND=" + what, fmt.Sprintf("CNI_CONTAINERID=container-%d", h.n), "CNI_NETNS=/proc/self/ns/net",
		"CNI_IFNAME=eth0", "CNI_PATH=" + filepath.Dir(h.path),
	}
	cmd.Stdin = strings.NewReader(fmt.Sprintf(`{"cniVersion":"0.4.0","name":%q,"type":"bridge","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":%q}]]}}`,
		hostLocalNet, h.dir, hostLocalPool))
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("host-local %s: %w: %s", what, err, out)
	}
	return nil
}

// pair allocates and frees.
func (h *hostLocal) pair() error {
	h.n++
	return errors.Join(h.command("ADD"), h.command("DEL"))
}

// pair allocates and frees.
func (e *engine) pair() error { return errors.Join(e.next(), e.next()) }

// measureHostLocal compares ringlet with host-local, which is the usual allocator without a server.
func measureHostLocal(b *bench) error {
	path := b.find("host-local", "usr/lib/cni", "opt/cni/bin")
	if path == "" {
		b.leaveOut("CNI's host-local, which is not installed (Debian's containernetworking-plugins, or -peers DIR)")
		return nil
	}
	half := 1 << 15
	if b.short {
		half = 1 << 8
	}
	var list []contender
	for name, held := range map[string]int{"empty": 0, "half": half - 2} {
		dir, err := b.sub("host-local-" + name)
		if err != nil {
			return err
		}
		h, err := newHostLocal(path, dir, held)
		if err != nil {
			return err
		}
		e, server, err := b.startHeld("beside-"+name, max(held, 1))
		if err != nil {
			return err
		}
		defer server.stop()
		list = append(list, oneClient(name, timed(h.pair)), oneClient("ringlet "+name, timed(e.pair)),
			oneClient("bare "+name, timed(func() error { return h.command("VERSION") })))
	}
	got, err := interleave(b.rounds, 5*b.slice, list)
	if err != nil {
		return err
	}
	for _, what := range []struct{ name, text string }{{"empty", "none held"}, {"half", fmt.Sprintf("%d held", half-2)}} {
		b.add(row{
			goal: "P3", what: "CNI's host-local, a process each, allocates and frees in a /16, " + what.text + ", against ringlet's durable calls over the socket", limit: noGoal,
			got: got.times(what.name, "ringlet "+what.name),
			note: fmt.Sprintf("%s against %s; two bare starts of its program take %s", duration(got.p50(what.name).median),
				duration(got.p50("ringlet "+what.name).median), duration(2*got.p50("bare "+what.name).median)),
		})
	}
	return nil
}
