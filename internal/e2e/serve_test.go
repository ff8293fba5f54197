package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
		socket    = "--socket=/run/ringlet/admin.sock"
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
	refused(t, err, "waits for the engine's list")
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

// unitLines returns the values of a setting of the unit of the manual, in their order.
func unitLines(t *testing.T, setting string) []string {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(root(t), "docs", "examples", "ringlet.service"))
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	for line := range strings.Lines(string(unit)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), setting+"="); ok {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		t.Fatalf("the unit has no %s", setting)
	}
	return values
}

// filtered returns the system calls that the lines SystemCallFilter of the unit allow: each adds to what the ones before
// it allow, or takes away with ~.
func filtered(t *testing.T) map[string]bool {
	t.Helper()
	allowed := map[string]bool{}
	var apply func(word string, allow bool)
	apply = func(word string, allow bool) {
		if !strings.HasPrefix(word, "@") {
			allowed[word] = allow
			return
		}
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "syscall-filter", word).Output()
		if err != nil {
			t.Fatalf("systemd-analyze syscall-filter %s: %v", word, err)
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSpace(line); line != "" && line != word && !strings.HasPrefix(line, "#") {
				apply(line, allow)
			}
		}
	}
	apply("@default", true) // always allowed, systemd.exec(5)
	for _, line := range unitLines(t, "SystemCallFilter") {
		words, deny := strings.CutPrefix(line, "~")
		for word := range strings.FieldsSeq(words) {
			apply(word, !deny)
		}
	}
	return allowed
}

// Whatever system call and address family ringlet uses, the unit of the manual allows it. There is no systemd in a host of
// these tests, so strace writes down what ringlet does while it serves an engine, probes and answers commands.
func TestEngineUnitAllowsWhatRingletCalls(t *testing.T) {
	t.Parallel()
	need(t, "strace", "systemd-analyze", "pidof")
	e := Start(t, Config{Name: "host-a"})
	e.ImportDemo()
	args := unitCommand(t)
	for i, arg := range args {
		if arg == "/var/lib/ringlet" {
			args[i] = filepath.Join(e.Dir(), "data")
		}
	}
	const socket = "--socket=/run/ringlet/admin.sock"
	trace := filepath.Join(e.Dir(), "calls")
	log := newLog()
	mark := log.Mark()
	p, err := e.spawn(log, "strace", append([]string{"-f", "-qq", "-e", "signal=none", "-o", trace, Built(t, "ringlet")}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.Wait(t.Context(), mark, time.Minute, Contains("docker engine connected")); err != nil {
		t.Fatal(err)
	}
	e.Docker("network", "create", "--ipam-driver", "ringlet", "--subnet", "10.77.0.0/24", "--ipam-opt", "probe=arp", "net")
	runDemo(e, "net", "one")
	e.Ringlet("status", socket)
	e.Ringlet("ip", "ls", socket)
	e.Docker("rm", "--force", "one")
	e.Run("kill", "-TERM", e.Run("pidof", "-s", "ringlet")) // strace ends with it
	Eventually(t, mended, "ringlet ends", func() bool { return !p.running() })

	text, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	allowed, calls := filtered(t), regexp.MustCompile(`(?m)^\d+ +([a-z]\w*)\((AF_\w+)?`)
	families := strings.Fields(unitLines(t, "RestrictAddressFamilies")[0])
	seen := map[string]bool{}
	for _, m := range calls.FindAllStringSubmatch(string(text), -1) {
		name, family := m[1], m[2]
		if name == "execve" && !seen[name] { // systemd's own, of ringlet
			seen[name] = true
			continue
		}
		if !allowed[name] && !seen[name] {
			t.Errorf("the unit does not allow %s, which ringlet calls", name)
		}
		if (name == "socket" || name == "socketpair") && !slices.Contains(families, family) {
			t.Errorf("the unit does not allow sockets of %s", family)
		}
		seen[name] = true
	}
	for _, name := range []string{"capset", "prctl", "accept4", "sendto"} {
		if !seen[name] {
			t.Errorf("ringlet was not seen to call %s, so this test has not seen what it does", name)
		}
	}
}
