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
)

// A plugin is pushed to a registry, installed from it under an alias, and upgraded while containers run on a bridge and on
// a macvlan: settings, identity, data and every address stay, and what happens to containers meanwhile is made good.
func TestEnginePluginUpgrade(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw})
	e.StartRegistry()
	e.ImportDemo()
	for _, tag := range []string{"1", "2"} {
		name := RegistryAddress + "/ringlet:" + tag
		e.Docker("plugin", "create", name, release(t, tag))
		e.Docker("plugin", "push", name)
		e.Docker("plugin", "rm", name)
	}
	e.Docker("plugin", "install", "--alias", "ringlet", "--grant-all-permissions", RegistryAddress+"/ringlet:1", "LOG_LEVEL=debug")
	u := upgrade{Engine: e, id: e.PluginID(Plugin), before: map[string]netip.Addr{}}
	u.serves("1")
	makeNetwork(e, "net", "10.77.0.0/24")
	e.lan("lan", "10.78.0.0/24", "--gateway", "10.78.0.254")
	for i, network := range []string{"net", "lan"} {
		runDemo(e, network, "leaves-"+network)
		runDemo(e, network, "stays-"+network)
		e.withMAC("mac-"+network, network, fmt.Sprintf("02:aa:bb:cc:dd:%02x", i))
	}
	e.Docker("run", "--detach", "--name", "fixed-net", "--network", "net", "--ip", "10.77.0.77", Demo)
	e.Docker("run", "--detach", "--name", "fixed-lan", "--network", "lan", "--ip", "10.78.0.77", Demo)
	same(e, "before the upgrade")
	for _, name := range containers(e) {
		u.before[name] = sameAddress(e, networkOf(name), name)
	}
	kept := u.files()
	if len(kept) == 0 {
		t.Error("the plugin keeps no data in its propagated mount")
	}

	e.Docker("plugin", "disable", "--force", Plugin)
	if logs := e.Run("find", "/var/lib/docker/plugins/"+u.id+"/propagated-mount", "-name", "*.wal"); logs != "" {
		t.Errorf("the plugin was stopped, and the database still needs its log: %s", logs)
	}
	u.away()
	e.Docker("plugin", "upgrade", "--grant-all-permissions", "--skip-remote-check", Plugin, RegistryAddress+"/ringlet:2")
	e.Docker("plugin", "enable", Plugin)
	u.serves("2")
	for _, file := range kept {
		if now := u.files(); !slices.Contains(now, file) {
			t.Errorf("the upgrade lost a file of the plugin: %s, now %v", file, now)
		}
	}
	u.after()
}

// upgrade is an engine whose plugin is upgraded.
type upgrade struct {
	*Engine
	id     string                // of the plugin
	before map[string]netip.Addr // what containers had, by their names
}

// networkOf returns the network that a container of the test is on.
func networkOf(name string) string { return name[strings.LastIndex(name, "-")+1:] }

// serves checks that a release of the plugin serves, under the ID and with the setting of the first.
func (u *upgrade) serves(tag string) {
	t := u.t
	t.Helper()
	if got := u.Docker("plugin", "inspect", "--format", "{{.ID}} {{.Settings.Env}} {{.Config.Description}}", Plugin); !strings.HasPrefix(got, u.id) ||
		!strings.Contains(got, "LOG_LEVEL=debug") || !strings.Contains(got, "release "+tag) {
		t.Errorf("the plugin %s is now %s, want release %s", u.id, got, tag)
	}
	var about struct {
		Version  string
		Settings map[string]string
	}
	if err := u.askPlugin("/v1/about", &about); err != nil {
		t.Fatal(err)
	}
	if about.Version != "release-"+tag || !strings.EqualFold(about.Settings["log_level"], "debug") {
		t.Errorf("%s with %v answers, want release-%s with its setting", about.Version, about.Settings, tag)
	}
}

// files returns what the plugin has in its propagated mount, with inode numbers.
func (u *upgrade) files() []string {
	u.t.Helper()
	return strings.Split(u.Run("find", "/var/lib/docker/plugins/"+u.id+"/propagated-mount", "-type", "f",
		"!", "-name", "*.wal", "!", "-name", "crash-output", "!", "-name", "networks.json", // which each start writes again
		"-printf", `%P %i\n`), "\n")
}

// away lets containers stop, and start in vain, while there is no plugin. The engine waits 15 s for it each time.
func (u *upgrade) away() {
	u.t.Helper()
	var calls []func() error
	for _, network := range []string{"net", "lan"} {
		calls = append(calls, func() error {
			_, err := u.TryDocker("run", "--detach", "--name", "early-"+network, "--network", network, Demo)
			return err
		}, func() error {
			u.TryDocker("kill", "leaves-"+network) // the engine may say that it could not release
			return nil
		})
	}
	errs := atOnce(calls...)
	for _, err := range []error{errs[0], errs[2]} {
		refused(u.t, err, "ringlet.sock", "no such file") // the engine's words
	}
}

// after checks that everybody has what he had, also after a restart where it is his own, that who left is freed, and that
// who started in vain can start.
func (u *upgrade) after() {
	t := u.t
	t.Helper()
	same(u.Engine, "after the upgrade")
	var want []netip.Addr
	for name, address := range u.before {
		if strings.HasPrefix(name, "leaves-") {
			continue
		}
		want = append(want, address)
		if got := sameAddress(u.Engine, networkOf(name), name); got != address {
			t.Errorf("%s had %v before the upgrade and has %v", name, address, got)
		}
	}
	slices.SortFunc(want, netip.Addr.Compare)
	if got := endpoints(u.Engine); !slices.Equal(got, want) {
		t.Errorf("endpoints have %v, want %v", got, want)
	}
	for _, network := range []string{"net", "lan"} {
		u.Docker("exec", "stays-"+network, "/demo", "ping", u.before["fixed-"+network].String())
		for _, name := range []string{"mac-" + network, "fixed-" + network} {
			u.Docker("restart", "--time", "1", name)
			if got := sameAddress(u.Engine, network, name); got != u.before[name] {
				t.Errorf("%s had %v before it was restarted and has %v", name, u.before[name], got)
			}
		}
		left := u.before["leaves-"+network]
		u.Docker("run", "--detach", "--name", "heir-"+network, "--network", network, "--ip", left.String(), Demo)
		u.Docker("start", "early-"+network)
		early := sameAddress(u.Engine, network, "early-"+network)
		if _, err := u.TryDocker("start", "leaves-"+network); err != nil {
			t.Errorf("a container that stopped during the upgrade does not start: %v", err)
		}
		if late := sameAddress(u.Engine, network, "leaves-"+network); late == early || late == left {
			t.Errorf("leaves-%s came back at %v, others have %v and %v", network, late, early, left)
		}
	}
	same(u.Engine, "after containers were restarted")
}

// release returns a plugin directory as build/plugin, but as release tag of it, with a program of that version: an engine
// stores identical content once only, and would show no difference.
func release(t *testing.T, tag string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(Built(t, "plugin"))); err != nil {
		t.Fatal(err)
	}
	program := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X main.version=release-"+tag, "-o", filepath.Join(dir, "rootfs", "ringlet"), "./plugin")
	program.Dir, program.Env = root(t), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := program.CombinedOutput(); err != nil {
		t.Fatalf("build release %s: %v\n%s", tag, err, out)
	}
	config := filepath.Join(dir, "config.json")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), `"description": "ringlet`, `"description": "release `+tag, 1))
	if err := os.WriteFile(config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The engine of a host is replaced by a later release, on the same data. The earlier one told only the MACs of containers when it
// asked for their addresses. Each container gets its former address all the same: with a fixed MAC or another one, as the engine
// starts, and behind a newcomer.
func TestEngineReplaced(t *testing.T) {
	t.Parallel()
	if os.Getenv(otherEngine) == "" {
		t.Skip("skipped: make e2e ENGINE=DIR names the later engine")
	}
	e := Start(t, Config{Name: "host-a", Machines: true})
	e.InstallPlugin()
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	e.withMAC("fixed", "net", laterMAC) // the engine starts it again
	runDemo(e, "net", "one")
	runDemo(e, "net", "two")
	before := map[string]netip.Addr{}
	for _, name := range []string{"fixed", "one", "two"} {
		before[name] = sameAddress(e, "net", name)
		e.named(name, before[name].String())
	}
	earlier := e.release()

	e.Replace()
	if now := e.release(); now <= earlier {
		t.Fatalf("the engine was %d and is %d", earlier, now)
	} else if now < 29 {
		t.Skip("skipped: this engine tells no names, and gives each container of the earlier one another MAC, also for a fixed one")
	}
	runDemo(e, "net", "newcomer")
	e.Docker("start", "two")
	e.Docker("start", "one")
	for name, address := range before {
		if got := sameAddress(e, "net", name); got != address {
			t.Errorf("%s had %v with engine %d, and has %v with engine %d", name, address, earlier, got, e.release())
		}
	}
	same(e, "with the later engine")
}
