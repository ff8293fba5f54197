package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/internal/console"
)

// A reader does what the manual shows, on hosts that only a test has. Each step is a block of commands by its name.
type reader struct {
	t      *testing.T
	blocks map[string]console.Block
	stands [][2]string // what stands in the manual for something of the reader's own
}

// keyFile finds the file that ringlet keygen makes.
var keyFile = regexp.MustCompile(`ringlet keygen (?:--out|>) ([a-z.]+)`)

// newReader reads the pages.
func newReader(t *testing.T) *reader {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, blocks: map[string]console.Block{}}
	for _, page := range append(pages, filepath.Join(root(t), "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range console.Blocks(string(text)) {
			if _, twice := r.blocks[b.Name]; twice && b.Kind == "run" {
				t.Errorf("two blocks are called %q", b.Name)
			}
			r.blocks[b.Name] = b
		}
	}
	return r
}

// bench is the folder of a host in which a reader works.
func bench(e *Engine) string { return filepath.Join(e.dir, "work") }

// prepare gives a host what a reader has: the source, in which make builds beside what other tests use, the program, images
// with the names of the manual, and a registry with the plugin.
func (r *reader) prepare(e *Engine) {
	r.t.Helper()
	built := filepath.Join(e.dir, "build")
	for _, dir := range []string{bench(e), built, filepath.Join(e.dir, "bin"), filepath.Join(e.dir, "home"), filepath.Join(e.dir, "empty")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			r.t.Fatal(err)
		}
	}
	for _, file := range []string{"ringlet", "demo", "demo.tar"} {
		e.Run("cp", Built(r.t, file), built)
	}
	e.Run("cp", "--recursive", Built(r.t, "plugin"), built)
	e.Run("cp", "--recursive", Built(r.t, "plugin"), bench(e))
	e.Run("mount", "--bind", built, filepath.Join(root(r.t), "build"))
	e.Run("cp", Built(r.t, "ringlet"), filepath.Join(e.dir, "bin"))
	e.ImportDemo()
	for _, image := range []string{"nginx", "redis"} {
		e.Docker("tag", Demo, image)
	}
	e.StartRegistry()
	name := RegistryAddress + "/ringlet:1"
	e.Docker("plugin", "create", name, Built(r.t, "plugin"))
	e.Docker("plugin", "push", name)
	e.Docker("plugin", "rm", name)
}

// with replaces, in the commands of one step, what stands for something else there.
func (r *reader) with(old, now string) *reader {
	return &reader{t: r.t, blocks: r.blocks, stands: append(slices.Clone(r.stands), [2]string{old, now})}
}

// does runs a block: a line of a certain host there, any other on all of the hosts, before the next line.
func (r *reader) does(name string, hosts ...*Engine) {
	t := r.t
	t.Helper()
	b, ok := r.blocks[name]
	if !ok || b.Kind != "run" {
		t.Fatalf("the manual has no block %q to run", name)
	}
	var printed strings.Builder
	for _, lines := range together(b.Lines, len(hosts) > 1) {
		ran := false
		for _, e := range hosts {
			if at := lines[0].Host; at == "" || at == e.Name || len(hosts) == 1 && !strings.HasPrefix(at, "host-") {
				printed.WriteString(r.runs(e, lines) + "\n")
				ran = true
			}
		}
		if !ran {
			t.Errorf("%s: no host runs %q", name, lines[0].Command)
		}
		if made := keyFile.FindStringSubmatch(lines[0].Command); made != nil { // "copy this file to every host"
			for _, other := range hosts[1:] {
				other.writeWork(made[1], hosts[0].File(filepath.Join(bench(hosts[0]), made[1])))
			}
		}
	}
	for _, want := range b.Shown {
		if !shows(printed.String(), want) {
			t.Errorf("%s: the manual shows\n%s\nand the commands printed\n%s", name, want, printed.String())
		}
	}
}

// together returns lines in groups that one shell runs, so that a variable lasts. Lines of which one is to be waited for, or
// that all hosts are to run before the next, are alone, as is one that makes a key.
func together(lines []console.Line, apart bool) [][]console.Line {
	var out [][]console.Line
	for i, l := range lines {
		if i > 0 && l.Host == lines[i-1].Host && (!apart || l.Host != "") && !slow(l.Command) && !slow(lines[i-1].Command) {
			out[len(out)-1] = append(out[len(out)-1], l)
			continue
		}
		out = append(out, []console.Line{l})
	}
	return out
}

// slow reports whether a person runs a command again until it succeeds, or goes on though it warns.
func slow(command string) bool {
	if keyFile.MatchString(command) {
		return true
	}
	for _, c := range []string{"status", "doctor", "keys rotate", "evict", "forget"} {
		if strings.HasPrefix(command, "ringlet "+c) {
			return true
		}
	}
	return false
}

// runs has a host run lines in one shell, and returns what they print.
func (r *reader) runs(e *Engine, lines []console.Line) string {
	t := r.t
	t.Helper()
	var script strings.Builder
	dir := bench(e)
	for _, l := range lines {
		command := l.Command
		if strings.HasPrefix(command, "make ") || strings.Contains(command, "build/ringlet") {
			dir = root(t)
		}
		for _, s := range append(r.stands,
			[2]string{"sudo ", ""},
			[2]string{"REGISTRY/ringlet:TAG", RegistryAddress + "/ringlet:1"},
			[2]string{"/usr/local/bin/", e.dir + "/bin/"},
			[2]string{"/usr/local/share/man", e.dir + "/man"},
			[2]string{"/etc/bash_completion.d", e.dir},
			[2]string{"/some/empty/directory", e.dir + "/empty"},
			[2]string{"ringlet kv watch ringlet/state/ip/", "{ timeout 3 ringlet kv watch ringlet/state/ip/ || test $? = 124; }"},
		) {
			command = strings.ReplaceAll(command, s[0], s[1])
		}
		fmt.Fprintln(&script, command)
	}
	shell := append(goEnviron(t), "bash", "-euo", "pipefail", "-c",
		`unset DOCKER_CONFIG; export HOME=$0/home PATH=$0/bin:$PATH; cd "$1"; bash -euxo pipefail -c "$2" < <(yes)`, e.dir, dir, script.String())
	if !slow(lines[0].Command) {
		return e.Run("env", shell...)
	}
	out := ""
	var err error
	if strings.HasPrefix(lines[0].Command, "ringlet doctor") {
		if out, err = e.Try("env", shell...); ExitCode(err) != 0 && ExitCode(err) != 3 {
			t.Errorf("%v\n%s", err, out)
		}
		return out
	}
	last := ""
	t.Cleanup(func() {
		if t.Failed() && err != nil {
			t.Logf("%s, at last: %s", lines[0].Command, last)
		}
	})
	Eventually(t, readyLimit, lines[0].Command+" on "+e.Name, func() bool {
		if out, err = e.Try("env", shell...); err != nil {
			last = out + "\n" + err.Error()
		}
		return err == nil
	})
	return out
}

// shows reports whether a line of the output begins with the first two words of another one.
func shows(output, line string) bool {
	want := strings.Fields(line)
	want = want[:min(2, len(want))]
	for have := range strings.Lines(output) {
		if words := strings.Fields(have); len(words) >= len(want) && slices.Equal(words[:len(want)], want) {
			return true
		}
	}
	return false
}

// A reader with one host: the first network, what to look at, installing in each way, networks on a LAN, an upgrade.
func TestManualHost(t *testing.T) {
	t.Parallel()
	need(t, "make", "go", "jq")
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("192.168.1.10/24")})
	r := newReader(t)
	r.prepare(e)
	r.does("first network", e)
	if got := e.Address("db", "lab"); got.String() != "10.50.0.20" {
		t.Errorf("db has %v", got)
	}
	r.does("operations, look", e)
	r.does("operations, back up", e)
	r.does("directory, look", e)
	r.does("directory, identities", e)
	r.does("locks", e)
	r.does("install, command line", e)
	r.does("install, docker command", e)
	r.does("install, settings", e)
	e.Docker("rm", "--force", "web", "db")
	e.Docker("network", "rm", "lab")

	r.does("networks, macvlan", e)
	e.Docker("network", "rm", "lan")
	r.does("networks, wide", e)
	e.Docker("network", "rm", "wide")
	e.writeWork("excluded.txt", "192.168.1.200 camera\n192.168.1.210-192.168.1.219\n")
	r.does("networks, shim network", e)
	r.does("networks, exclude", e)
	r.does("networks, shim", e)
	e.Docker("run", "--detach", "--name", "guest", "--network", "lan", Demo)
	e.Run(Built(t, "demo"), "ping", e.Address("guest", "lan").String())
	r.does("networks, reserve", e)
	e.Docker("rm", "--force", "guest")
	e.Docker("network", "rm", "lan")
	r.does("probe, network", e)
	r.does("probe, look", e)
	e.Docker("network", "rm", "lan")
	r.does("networks, ipvlan", e)
	e.Docker("network", "create", "--ipam-driver", Plugin, "lab")
	r.with("ringlet leave", "! ringlet leave").does("install, uninstall", e) // it is in no cluster

	for _, step := range []string{"install, folder", "install, registry", "install, registry without questions"} {
		r.does(step, e)
		if step == "install, registry" {
			r.does("operations, upgrade", e)
		}
		e.Docker("plugin", "rm", "--force", Plugin)
	}
	e.CreatePlugin(Plugin)
	r.does("install, without the socket", e)
	e.Docker("plugin", "enable", Plugin)
}

// writeWork writes a file where a reader works.
func (e *Engine) writeWork(name, text string) {
	e.t.Helper()
	if err := os.WriteFile(filepath.Join(bench(e), name), []byte(text), 0o600); err != nil {
		e.t.Fatal(err)
	}
}

// A reader makes a cluster of a host that has networks already, adds, loses and removes hosts, and replaces the key.
func TestManualCluster(t *testing.T) {
	t.Parallel()
	need(t, "go")
	c := NewCluster(t, 3)
	a, b, third := c.Engines[0], c.Engines[1], c.Engines[2]
	r := newReader(t).with("RINGLET_KEY_FILE=/data/keys", "RINGLET_KEY_FILE=/data/keys RINGLET_REST=5s")
	for _, e := range c.Engines {
		r.prepare(e)
	}
	a.InstallPlugin()
	makeNetwork(a, "lab", "10.50.0.0/24")
	runDemo(a, "lab", "web")
	r.does("several hosts, the first", a, b, third)
	r.does("several hosts, another", b)
	c.AwaitReady(a, b)
	r.does("several hosts, network", a, b)
	for _, e := range []*Engine{a, b} {
		runDemo(e, "lan", "guest")
	}
	c.unique("of two hosts", a, b)
	r.does("operations, add", third)
	c.AwaitReady(c.Engines...)

	b.keyInSetting()
	r.does("operations, move the key", b)
	c.AwaitReady(c.Engines...)
	r.does("operations, rotate", a, b, third)
	c.AwaitReady(c.Engines...)
	keys := a.Ringlet("keys", "ls")
	for _, e := range c.Engines {
		if got := e.Ringlet("keys", "ls"); got != keys {
			t.Errorf("%s has the keys\n%s, want\n%s", e.Name, got, keys)
		}
		e.Run("cp", filepath.Join(bench(e), "new.key"), filepath.Join(bench(e), "ringlet.key"))
	}

	r.does("operations, drain", third)
	r.does("operations, leave", third)
	c.AwaitReady(a, b)
	r.does("operations, add", third)
	c.AwaitReady(c.Engines...)
	third.PowerOff()
	r.does("operations, forget", a)
	c.AwaitReady(a, b)
	c.unique("after a host was forgotten", a, b)
}

// keyInSetting moves the key from the file to RINGLET_KEY.
func (e *Engine) keyInSetting() {
	e.t.Helper()
	var key string
	for line := range strings.Lines(e.File(filepath.Join(bench(e), "ringlet.key"))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			key = line
		}
	}
	e.Docker("plugin", "disable", "--force", Plugin)
	e.Docker("plugin", "set", Plugin, "RINGLET_KEY_FILE=", "RINGLET_KEY="+key)
	e.Docker("plugin", "enable", Plugin)
}
