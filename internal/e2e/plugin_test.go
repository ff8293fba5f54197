package e2e

import (
	"debug/buildinfo"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// makeNetwork makes a bridge network on the plugin.
func makeNetwork(e *Engine, name, subnet string) {
	e.t.Helper()
	e.Docker("network", "create", "--ipam-driver", Plugin, "--subnet", subnet, name)
}

// runDemo starts a container and returns its address, after checking that the engine and the container agree on it.
func runDemo(e *Engine, network, name string) netip.Addr {
	e.t.Helper()
	e.Docker("run", "--detach", "--name", name, "--network", network, Demo)
	return sameAddress(e, network, name)
}

func sameAddress(e *Engine, network, name string) netip.Addr {
	e.t.Helper()
	told := e.Address(name, network)
	inside := e.Inside(name)
	if !slices.ContainsFunc(inside, func(p netip.Prefix) bool { return p.Addr() == told }) {
		e.t.Fatalf("%s: the engine tells %v, the container has %v", name, told, inside)
	}
	return told
}

// refused checks that a command fails, and that what it says contains all of wants.
func refused(t testing.TB, err error, wants ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("not refused, want an error with %q", wants)
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

// What an operator does with the plugin, in the order of its life.
func TestEnginePluginLifecycle(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a"})
	e.CreatePlugin(Plugin)
	e.ImportDemo()
	if got := e.Docker("plugin", "inspect", "--format", "{{.Enabled}}", Plugin); got != "false" {
		t.Errorf("a created plugin is enabled: %s", got)
	}
	e.Docker("plugin", "set", Plugin, "LOG_LEVEL=debug")
	e.Docker("plugin", "enable", Plugin)
	_, err := e.TryDocker("plugin", "set", Plugin, "LOG_LEVEL=info")
	refused(t, err, "cannot set on an active plugin")

	makeNetwork(e, "net", "10.77.0.0/24")
	one, two := runDemo(e, "net", "one"), runDemo(e, "net", "two")
	subnet := netip.MustParsePrefix("10.77.0.0/24")
	if one == two || !subnet.Contains(one) || !subnet.Contains(two) {
		t.Errorf("got %v and %v, want two addresses of %v", one, two, subnet)
	}
	e.Docker("exec", "one", "/demo", "ping", two.String())

	_, err = e.TryDocker("plugin", "disable", Plugin)
	refused(t, err, "in use")
	e.Docker("rm", "--force", "one", "two")
	e.Docker("network", "rm", "net")
	e.Docker("plugin", "disable", Plugin)
	e.Docker("plugin", "enable", Plugin)
	makeNetwork(e, "net", "10.77.0.0/24")
	runDemo(e, "net", "one")
	e.Docker("rm", "--force", "one")
	e.Docker("network", "rm", "net")
	e.Docker("plugin", "disable", Plugin)
	e.Docker("plugin", "rm", Plugin)
	for _, line := range e.Log.Lines() {
		if line.Plugin != "" && line.Level == "error" {
			t.Errorf("the plugin wrote to its standard error: %s", line.Msg)
		}
	}
}

// A setting without a value in config.json is absent until it is set, and can be set.
func TestEnginePluginSettings(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{})
	e.CreatePlugin(Plugin)
	var manifest struct {
		Env []struct {
			Name     string
			Value    *string
			Settable []string
		}
	}
	text, err := os.ReadFile(filepath.Join(Built(t, "plugin"), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		t.Fatal(err)
	}
	set := []string{"plugin", "set", Plugin}
	var want []string
	for _, entry := range manifest.Env {
		if entry.Value != nil {
			t.Errorf("%s has a value: an upgrade would not change it, the binary carries the defaults", entry.Name)
		}
		want = append(want, entry.Name+"=x")
	}
	if len(want) < 20 {
		t.Fatalf("config.json has %d settings, want more than 20", len(want))
	}
	e.Docker(append(set, want...)...)
	var got []string
	if err := json.Unmarshal([]byte(e.Docker("plugin", "inspect", "--format", "{{json .Settings.Env}}", Plugin)), &got); err != nil {
		t.Fatal(err)
	}
	for _, entry := range want {
		if !slices.Contains(got, entry) {
			t.Errorf("%s was not stored; the engine has %v", entry, got)
		}
	}
	_, err = e.TryDocker("plugin", "set", Plugin, "RINGLET_NOTHING=1")
	refused(t, err, "not found in the plugin configuration")
}

// The plugin reaches its engine through the mounted directory, also after the engine has made a new socket, and starts
// when there is none.
func TestEnginePluginFindsItsEngine(t *testing.T) {
	t.Parallel()
	need(t, "curl", "pidof")
	e := Start(t, Config{Name: "host-a", LiveRestore: true})
	e.InstallPlugin()
	reachable := func() bool {
		pid := e.Run("pidof", "-s", "ringlet")
		_, err := e.Try("curl", "--silent", "--fail", "--unix-socket", "/proc/"+pid+"/root/run/docker/host/docker.sock", "http://engine/_ping")
		return err == nil
	}
	if !reachable() {
		t.Error("the engine's socket is not reached through the plugin's mount")
	}
	before := e.Run("pidof", "-s", "ringlet")
	e.Restart()
	if after := e.Run("pidof", "-s", "ringlet"); after != before {
		t.Errorf("live-restore did not keep the plugin: process %s became %s", before, after)
	}
	if !reachable() {
		t.Error("the socket of the restarted engine is not reached through the plugin's mount")
	}

	e.Docker("plugin", "disable", Plugin)
	empty := filepath.Join(e.Dir(), "empty")
	e.Run("mkdir", empty)
	e.Docker("plugin", "set", Plugin, "docker.source="+empty)
	e.Docker("plugin", "enable", Plugin)
	if reachable() {
		t.Error("the engine is reached through a directory without its socket")
	}
	makeNetwork(e, "net", "10.77.0.0/24")
}

// A plugin that crashes is started again by the engine, and serves as before.
func TestEnginePluginCrash(t *testing.T) {
	t.Parallel()
	need(t, "pidof")
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin()
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	before := e.Run("pidof", "-s", "ringlet")
	e.Run("kill", "-KILL", before)
	Eventually(t, readyLimit, "the engine starts the plugin again", func() bool {
		now, err := e.Try("pidof", "-s", "ringlet")
		return err == nil && now != before
	})
	runDemo(e, "net", "one")
}

// The program is compiled by the profile beside its main package, and so by nothing that a builder has to know of.
func TestEngineProgramIsCompiledByItsProfile(t *testing.T) {
	t.Parallel()
	info, err := buildinfo.ReadFile(filepath.Join(Built(t, "plugin"), "rootfs", "ringlet"))
	if err != nil {
		t.Fatal(err)
	}
	by := slices.IndexFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-pgo" })
	if by < 0 || filepath.Base(info.Settings[by].Value) != "default.pgo" {
		t.Errorf("it is not: %v", info.Settings)
	}
}
