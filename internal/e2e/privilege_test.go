package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// What a thread of ringlet may do while it may send ARP, and while it may not.
const (
	noRights   = "CapInh:0000000000000000 CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1"
	netRawOnly = "CapInh:0000000000000000 CapPrm:0000000000002000 CapEff:0000000000002000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1"
)

// rights returns what each thread of the process ringlet of a host may do, as the kernel tells, by what it is.
func (e *Engine) rights() map[string]int {
	e.t.Helper()
	pid := e.Run("pidof", "-s", "ringlet")
	out := e.Run("bash", "-c", fmt.Sprintf(
		`for t in /proc/%s/task/*; do awk '/^(Cap|NoNewPrivs)/ { printf "%%s%%s ", $1, $2 } END { print "" }' $t/status; done`, pid))
	found := map[string]int{}
	for line := range strings.Lines(out) {
		found[strings.TrimSpace(line)]++
	}
	return found
}

// only fails the test unless every thread of ringlet has just these rights.
func (e *Engine) only(when, want string) {
	e.t.Helper()
	threads := 0
	for have, n := range e.rights() {
		threads += n
		if have != want {
			e.t.Errorf("%s: %s: %d threads of ringlet have %s\nwant %s", e.Name, when, n, have, want)
		}
	}
	if threads < 3 {
		e.t.Errorf("%s: %s: only %d threads of ringlet were looked at", e.Name, when, threads)
	}
}

// The plugin runs with the right to send ARP and no other, from its start on, on all its threads, also after the load of
// some containers and after the engine has started it again; and that right is enough for probe=arp.
func TestEnginePluginRights(t *testing.T) {
	t.Parallel()
	need(t, "pidof", "awk")
	c := NewCluster(t, 1)
	e := c.Engines[0]
	c.Install()
	e.only("at the start", netRawOnly)

	e.Docker("network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin,
		"--subnet", "192.168.50.0/24", "--gateway", "192.168.50.254", "--ipam-opt", "probe=arp", "lan")
	stranger := NewHost(t, "stranger")
	c.Switch.Plug(stranger, netip.Prefix{})
	taken := runDemo(e, "lan", "first").Next()
	stranger.Run("ip", "address", "add", taken.String()+"/24", "dev", "eth0")
	if got := runDemo(e, "lan", "second"); got == taken {
		t.Errorf("%v was handed out, which something else on the LAN has", got)
	}
	if out := e.Ringlet("who", taken.String(), "-o", "json"); !strings.Contains(out, `"stranger"`) {
		t.Errorf("the stranger at %v was not found:\n%s", taken, out)
	}
	e.only("with containers", netRawOnly)

	before := e.Run("pidof", "-s", "ringlet")
	e.Run("kill", "-KILL", before)
	Eventually(t, readyLimit, "the engine starts the plugin again", func() bool {
		if now, err := e.Try("pidof", "-s", "ringlet"); err != nil || now == before {
			return false
		}
		_, err := e.Status() // its socket is open
		return err == nil
	})
	same(e, "after the plugin was started again")
	e.only("after the plugin was started again", netRawOnly)
}

// The key of the cluster comes in a file, as the manual has it: before the plugin's first start, in its data. One that
// others may read is a problem, which goes with the mode.
func TestEngineKeyInAFile(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a"})
	e.CreatePlugin(Plugin, keyFileSetting)
	made := filepath.Join(e.Dir(), "cluster.key")
	e.Run(Built(t, "ringlet"), "keygen", "--out", made)
	e.Run("bash", "-ec", `dir=/var/lib/docker/plugins/$(docker plugin inspect --format '{{.ID}}' `+Plugin+`)/propagated-mount
		install -D -m 600 `+made+` "$dir/keys"`)
	e.Docker("plugin", "enable", Plugin)
	Eventually(t, readyLimit, "the plugin has the key", func() bool {
		out, err := e.TryRinglet("keys", "ls")
		return err == nil && strings.Contains(out, "in /data/keys of the plugin")
	})
	open := func() bool {
		st, err := e.Status()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(st.Problems, func(p Problem) bool { return p.Code == "keys-open" })
	}
	for mode, want := range map[string]bool{"600": false, "644": true, "400": false} {
		e.Run("chmod", mode, filepath.Join(filepath.Dir(e.database()), "keys"))
		if got := open(); got != want {
			t.Errorf("with mode %s the key file is a problem: %v", mode, got)
		}
	}
}

// A plugin whose mount has a socket of the engine's in a directory of its own sees that engine, also after the engine
// was started again, and no other socket of the host.
func TestEngineNarrowMount(t *testing.T) {
	t.Parallel()
	need(t, "pidof")
	e := Start(t, Config{Name: "host-a", LiveRestore: true})
	const narrow = "/run/docker-api"
	e.Run("mkdir", narrow)
	daemon, err := os.ReadFile(e.daemonJSON())
	if err != nil {
		t.Fatal(err)
	}
	e.write(e.daemonJSON(), strings.Replace(string(daemon), "{", `{"hosts":["unix:///var/run/docker.sock","unix://`+narrow+`/docker.sock"],`, 1))
	e.Restart()
	e.CreatePlugin(Plugin, "docker.source="+narrow)
	e.Docker("plugin", "enable", Plugin)
	sees := func(when string) {
		t.Helper()
		Eventually(t, readyLimit, "the plugin reaches its engine "+when, func() bool {
			out, err := e.TryRinglet("doctor")
			return strings.Contains(out+fmt.Sprint(err), "answers the plugin") // it warns of other things
		})
		mount := "/proc/" + e.Run("pidof", "-s", "ringlet") + "/root/run/docker/host"
		if found := e.Run("ls", "-A", mount); found != "docker.sock" {
			t.Errorf("%s the plugin sees %q in its mount", when, found)
		}
	}
	sees("at the start")
	e.Restart()
	sees("after the engine was started again")
}

// A plugin that announces nobody and has no network with probes keeps no right at all. A network with probes that is made
// then needs a restart, which status asks for; after it there is the right to send ARP, and the problem is gone.
func TestEnginePluginWithoutAnyRight(t *testing.T) {
	t.Parallel()
	need(t, "pidof", "awk")
	c := NewCluster(t, 1, "RINGLET_ANNOUNCE=false")
	e := c.Engines[0]
	c.Install()
	e.only("with nothing to send", noRights)
	e.Docker("network", "create", "--driver", "macvlan", "--opt", "parent=eth0", "--ipam-driver", Plugin,
		"--subnet", "192.168.50.0/24", "--gateway", "192.168.50.254", "--ipam-opt", "probe=arp", "lan")
	runDemo(e, "lan", "first")
	asked := func() bool {
		st, err := e.Status()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(st.Problems, func(p Problem) bool { return p.Code == "probe-needs-restart" })
	}
	Eventually(t, directoryLimit, "status asks for a restart, as a network wants probes that cannot be sent", asked)
	e.only("with a network that wants probes", noRights)

	e.Docker("plugin", "disable", "--force", Plugin)
	e.Docker("plugin", "enable", Plugin)
	same(e, "after the restart")
	e.only("after the restart", netRawOnly)
	if asked() {
		t.Error("after the restart status asks for one")
	}
	runDemo(e, "lan", "second")
}

// A process that may not send ARP says so once a container has started. Whoever gives it the right, or turns announcements off, as
// the status says, sees the problem end. It runs outside Docker: an engine gives each plugin that right.
func TestEngineAnnounceFailed(t *testing.T) {
	t.Parallel()
	need(t, "setpriv")
	e := Start(t, Config{Name: "host-a"})
	e.ImportDemo()
	const socket = "--socket=/run/ringlet/admin.sock"
	serve := append([]string{Built(t, "ringlet")}, dataIn(e, unitCommand(t))...)
	var runs *process
	start := func(command ...string) {
		t.Helper()
		if runs != nil {
			if err := runs.end("TERM"); err != nil {
				t.Fatal(err)
			}
		}
		log := newLog()
		var err error
		if runs, err = e.spawn(log, command[0], append(command[1:], serve...)...); err != nil {
			t.Fatal(err)
		}
		if _, err := log.Wait(t.Context(), 0, time.Minute, Contains("docker engine connected")); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want bool) {
		t.Helper()
		e.Docker("restart", "--time", "0", "srv")
		Eventually(t, directoryLimit, fmt.Sprintf("the status says that nothing is announced: %v", want), func() bool {
			out, err := e.TryRinglet("status", "-o", "json", socket)
			return strings.Contains(out, `"verdict"`) && strings.Contains(out+fmt.Sprint(err), `"announce-failed"`) == want
		})
		sameAddress(e, "net", "srv")
	}
	without := []string{"setpriv", "--inh-caps=-net_raw", "--bounding-set=-net_raw"}
	start(without...)
	e.Docker("network", "create", "--ipam-driver", "ringlet", "--subnet", "10.77.0.0/24", "net")
	e.Docker("run", "--detach", "--name", "srv", "--network", "net", "--ip", "10.77.0.77", Demo)
	says(true)
	start(append([]string{"env", "RINGLET_ANNOUNCE=false"}, without...)...)
	says(false)
	start(without...)
	says(true)
	start("env")
	says(false)
}

// dataIn returns the arguments of ringlet serve with its data in a directory of the host's.
func dataIn(e *Engine, args []string) []string {
	for i, arg := range args {
		if arg == "/var/lib/ringlet" {
			args[i] = filepath.Join(e.Dir(), "data")
		}
	}
	return args
}

// A build with cgo keeps rights of root, and says so. Whoever takes a build of make build instead sees the problem end.
func TestHostRightsKept(t *testing.T) {
	t.Parallel()
	need(t, "go", "gcc", "pidof", "awk")
	h := NewHost(t, "host-a")
	other := filepath.Join(h.Dir(), "ringlet")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", other, "./plugin")
	build.Dir, build.Env = root(t), append(os.Environ(), "CGO_ENABLED=1", "GOFLAGS=-buildvcs=false -pgo=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const socket = "--socket=/run/ringlet/admin.sock"
	args := unitCommand(t)
	for i, arg := range args {
		if arg == "/var/lib/ringlet" {
			args[i] = filepath.Join(h.Dir(), "data")
		}
	}
	log := newLog()
	for _, run := range []struct {
		program string
		kept    bool
	}{{other, true}, {Built(t, "ringlet"), false}} {
		p, err := h.spawn(log, run.program, args...)
		if err != nil {
			t.Fatal(err)
		}
		Eventually(t, readyLimit, fmt.Sprintf("the status says that rights are kept: %v", run.kept), func() bool {
			out, err := h.Try(Built(t, "ringlet"), "status", "-o", "json", socket)
			return strings.Contains(out, `"verdict"`) && strings.Contains(out+fmt.Sprint(err), `"rights-kept"`) == run.kept
		})
		if err := p.end("TERM"); err != nil {
			t.Fatal(err)
		}
	}
}
