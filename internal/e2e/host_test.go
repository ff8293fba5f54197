package e2e

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The power goes and comes back: what was answered is on the disk.
func TestEnginePowerOff(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin()
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	e.Docker("run", "--detach", "--restart", "always", "--name", "always", "--network", "net", Demo)
	fixed := "10.77.0.99"
	e.Docker("run", "--detach", "--name", "fixed", "--network", "net", "--ip", fixed, Demo)
	same(e, "before")
	e.PowerOff()
	e.Up()
	e.Docker("start", "fixed")
	if got := sameAddress(e, "net", "fixed"); got.String() != fixed {
		t.Errorf("%v came back at %v", fixed, got)
	}
	sameAddress(e, "net", "always")
	same(e, "after the power came back")
}

// The README's compose file, up and down and up again.
func TestEngineCompose(t *testing.T) {
	t.Parallel()
	need(t, "docker-compose")
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin()
	e.ImportDemo()
	readme, err := os.ReadFile(filepath.Join(root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(readme), "```yaml\n")
	text, _, closed := strings.Cut(rest, "```")
	if !ok || !closed {
		t.Fatal("the README has no compose file")
	}
	file := filepath.Join(e.Dir(), "compose.yaml")
	for _, image := range []string{"nginx", "redis"} {
		e.Docker("tag", Demo, image)
	}
	text = "version: \"3\"\n" + text // older compose wants a version
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	compose := func(args ...string) string {
		t.Helper()
		return e.Run("docker-compose", append([]string{"--project-name", "demo", "--file", file}, args...)...)
	}
	for range 2 {
		compose("up", "--detach")
		found := endpoints(e)
		if len(found) != 2 || found[1] != netip.MustParseAddr("10.50.0.20") {
			t.Errorf("the services have %v, want two addresses, 10.50.0.20 among them", found)
		}
		same(e, "after up")
		compose("restart", "--timeout", "1")
		same(e, "after restart")
		compose("down", "--timeout", "1")
		same(e, "after down")
	}
}

// Without --subnet each network gets a subnet of its own, none that the host has a route or an address in.
func TestEngineChosenSubnets(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("10.32.1.7/24")})
	e.Run("ip", "route", "add", "10.32.2.0/24", "via", "10.32.1.1")
	e.Run("ip", "route", "add", "10.32.3.0/24", "dev", "eth0")
	e.Run("ip", "route", "add", "10.32.4.0/22", "dev", "eth0")
	e.Run("ip", "route", "add", "unreachable", "10.32.0.0/12")
	e.InstallPlugin("RINGLET_AVOID=10.32.0.0/24")
	mark := e.Log.Mark()
	taken := []netip.Prefix{
		netip.MustParsePrefix("10.32.0.0/24"), netip.MustParsePrefix("10.32.1.0/24"), netip.MustParsePrefix("10.32.2.0/24"),
		netip.MustParsePrefix("10.32.3.0/24"), netip.MustParsePrefix("10.32.4.0/22"),
	}
	var chosen []netip.Prefix
	for _, name := range []string{"one", "two", "three"} {
		e.Docker("network", "create", "--ipv6", "--ipam-driver", Plugin, name)
		for text := range strings.FieldsSeq(e.Docker("network", "inspect", "--format", "{{range .IPAM.Config}}{{.Subnet}} {{end}}", name)) {
			p, err := netip.ParsePrefix(text)
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range append(chosen, taken...) {
				if p.Overlaps(other) {
					t.Errorf("%s has %v, which overlaps %v", name, p, other)
				}
			}
			chosen = append(chosen, p)
		}
	}
	if len(chosen) != 6 {
		t.Errorf("chose %v, want three subnets of each family", chosen)
	}
	created := func() (n int) {
		for _, l := range e.Log.Since(mark) {
			if strings.Contains(l.Msg, "pool created") {
				n++
			}
		}
		return n
	}
	Eventually(t, time.Minute, "the log has each pool", func() bool { return created() >= len(chosen) }) // no answer waits for a line
	if asked := created(); asked != len(chosen) {
		t.Errorf("%d subnets were chosen for the engine to take %d", asked, len(chosen))
	}
	e.Docker("network", "rm", "one", "two", "three")
	// At once, unless the engine has asked twice for one of them: then its lists tell.
	Eventually(t, mended, "the pools of removed networks are gone", func() bool {
		return e.Ringlet("pool", "ls", "-o", "json") == "[]"
	})
}

// An engine that restarts under its running containers lists them all the while: nothing of theirs is freed.
func TestEngineLiveRestore(t *testing.T) {
	t.Parallel()
	e := Start(t, Config{Name: "host-a", LiveRestore: true})
	e.InstallPlugin()
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	a, b := runDemo(e, "net", "aa"), runDemo(e, "net", "bb")
	e.Docker("pause", "bb")
	same(e, "before")
	mark := e.Log.Mark()
	for _, again := range []func(){e.Restart, func() { e.Kill(); e.Up() }} {
		again()
		// Longer than it takes to free what two lists lack.
		if l, err := e.Log.Wait(t.Context(), mark, 45*time.Second, func(l Line) bool {
			return l.Plugin != "" && (strings.Contains(l.Msg, "has no endpoint") || strings.Contains(l.Msg, "leaked address freed"))
		}); err == nil {
			t.Errorf("an address of a running container was missed: %s", l.Msg)
		}
		if got := held(e); !slices.Equal(got, []netip.Addr{a, b}) {
			t.Errorf("held %v, the containers have %v and %v", got, a, b)
		}
	}
	e.Docker("unpause", "bb")
	same(e, "after")
}

// The mount has the socket of another engine: what that one lists, and does not list, means nothing here.
func TestEngineSocketOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	Start(t, Config{Name: "host-b", Daemon: map[string]any{"hosts": []string{"unix:///run/docker.sock", "unix://" + dir + "/docker.sock"}}})
	e := Start(t, Config{Name: "host-a"})
	e.CreatePlugin(Plugin, "docker.source="+dir)
	e.Docker("plugin", "enable", Plugin)
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	a := runDemo(e, "net", "aa")
	if l, err := e.Log.Wait(t.Context(), 0, 45*time.Second, Contains("no endpoint")); err == nil {
		t.Errorf("an address of a running container was missed: %s", l.Msg)
	}
	if got := held(e); !slices.Equal(got, []netip.Addr{a}) {
		t.Errorf("held %v, the container has %v", got, a)
	}
	if out, err := e.TryRinglet("status"); ExitCode(err) != 3 || !strings.Contains(out, "another engine") {
		t.Errorf("status does not say that the socket is another engine's: %v\n%s", err, out)
	}
}
