package e2e

import (
	"encoding/json"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The compose files of the manual, each brought up and taken down by the real program: every service runs, with addresses
// that it has and ringlet holds.
func TestEngineExamples(t *testing.T) {
	t.Parallel()
	need(t, "docker-compose")
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("192.168.77.1/24")})
	e.InstallPlugin()
	e.ImportDemo()
	for _, image := range []string{"nginx", "redis"} { // which no example is about
		e.Docker("tag", Demo, image)
	}
	files, err := filepath.Glob(filepath.Join(root(t), "docs", "examples", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	onIPVLAN := func(file string) bool {
		name := filepath.Base(file)
		return name == "ipvlan.yaml" || name == "routed.yaml"
	}
	// Last: on ipvlan no container starts that is given a MAC, and without one engines before 29 have no fixed addresses.
	slices.SortStableFunc(files, func(a, b string) int {
		switch {
		case onIPVLAN(a) == onIPVLAN(b):
			return 0
		case onIPVLAN(b):
			return -1
		}
		return 1
	})
	mac := true
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if onIPVLAN(file) && !e.hasIPVLAN() {
			t.Logf("%s was left out: there is no ipvlan in this kernel", name)
			continue
		}
		if onIPVLAN(file) && mac {
			mac = false
			e.Docker("plugin", "disable", "--force", Plugin)
			e.Docker("plugin", "set", Plugin, "RINGLET_MAC=false")
			e.Docker("plugin", "enable", Plugin)
		}
		compose := []string{"--no-ansi", "--project-name", name, "--file", file}
		e.Run("docker-compose", append(compose, "up", "--detach")...)
		running := strings.Fields(e.Docker("ps", "--format", "{{.Names}}", "--filter", "label=com.docker.compose.project="+name))
		if len(running) == 0 {
			t.Errorf("%s: no container runs", name)
		}
		for _, container := range running {
			var on map[string]json.RawMessage
			if err := json.Unmarshal([]byte(e.Docker("inspect", "--format", "{{json .NetworkSettings.Networks}}", container)), &on); err != nil {
				t.Fatal(err)
			}
			for network := range on {
				sameAddress(e, network, container)
			}
			if len(on) != 1 {
				t.Errorf("%s: %s is on %d networks", name, container, len(on))
			}
		}
		same(e, "with the example "+name)
		if got := len(held(e)); got < len(running) {
			t.Errorf("%s: %d addresses are held for %d containers", name, got, len(running))
		}
		e.Run("docker-compose", append(compose, "down", "--timeout", "1")...)
		same(e, "without the example "+name)
	}
}

// hasIPVLAN reports whether the kernel has networks of that kind.
func (e *Engine) hasIPVLAN() bool {
	e.t.Helper()
	if _, err := e.Try("ip", "link", "add", "link", "eth0", "name", "iv0", "type", "ipvlan"); err != nil {
		return false
	}
	e.Run("ip", "link", "delete", "iv0")
	return true
}
