package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Outside Docker, as the systemd unit of the manual starts it: the process serves the engine, also after it was started
// again under running containers, and everybody has what he had.
func TestEngineOutsideDocker(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a", LiveRestore: true})
	e.ImportDemo()
	args := unitCommand(t)
	data := filepath.Join(e.Dir(), "data") // the machine's own directories are not the host's
	for i, arg := range args {
		if arg == "/var/lib/ringlet" {
			args[i] = data
		}
	}
	const (
		pool      = "10.77.0.0/24"
		socket    = "--socket=/run/ringlet-admin.sock"
		connected = "docker engine connected"
	)
	log := newLog()
	serve := func(until string) *process {
		t.Helper()
		mark := log.Mark()
		p, err := e.spawn(log, Built(t, "ringlet"), args...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := log.Wait(t.Context(), mark, time.Minute, Contains(until)); err != nil {
			t.Fatal(err)
		}
		return p
	}
	end := func(p *process) {
		t.Helper()
		if err := p.end("TERM"); err != nil {
			t.Fatal(err)
		}
	}
	admin := func(command ...string) string {
		t.Helper()
		return e.Ringlet(append(command, socket)...)
	}
	p := serve(connected)
	e.Docker("network", "create", "--ipam-driver", "ringlet", "--subnet", pool, "net")
	before := map[string]string{}
	for _, name := range []string{"one", "two"} {
		before[name] = runDemo(e, "net", name).String()
	}
	end(p)
	p = serve(connected)
	for name, address := range before {
		if got := sameAddress(e, "net", name).String(); got != address {
			t.Errorf("%s had %s and has %s", name, address, got)
		}
		Eventually(t, mended, "the holder is known", func() bool { return strings.Contains(admin("who", address), name) })
	}
	if three := runDemo(e, "net", "three").String(); three == before["one"] || three == before["two"] {
		t.Errorf("%s is in use and was handed out", three)
	}
	admin("check")
	e.Docker("rm", "--force", "one")
	Eventually(t, mended, "the address is freed", func() bool { return strings.Contains(admin("who", before["one"]), "resting") })

	// It starts before the engine, as the unit has it, with nothing of its own, while containers live on: nothing is handed
	// out before the engine has said what is in use.
	end(p)
	e.Stop()
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	serve("docker engine not available")
	_, err := e.TryRinglet("pool", "create", pool, socket)
	refused(t, err, "waits for the engine to list")
	e.Up()
	device := ""
	Eventually(t, mended, "the engine has listed what it has", func() bool {
		device, err = e.TryRinglet("alloc", "--pool", pool, "--for", "device", socket)
		return err == nil
	})
	for _, name := range []string{"two", "three"} {
		if got := sameAddress(e, "net", name).String(); got == strings.TrimSpace(device) {
			t.Errorf("%s is in use by %s and was handed out", got, name)
		}
	}
}

// unitCommand returns the arguments of ringlet in the systemd unit of the manual.
func unitCommand(t *testing.T) []string {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(root(t), "docs", "examples", "ringlet.service"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(unit)) {
		if command, ok := strings.CutPrefix(line, "ExecStart="); ok {
			if words := strings.Fields(command); words[0] == "/usr/local/bin/ringlet" && words[1] == "serve" {
				return words[1:]
			}
		}
	}
	t.Fatal("the unit starts no ringlet serve")
	return nil
}
