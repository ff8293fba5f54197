package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
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
	mac := !e.hasIPVLAN()
	e.InstallPlugin(fmt.Sprintf("RINGLET_MAC=%t", mac)) // on ipvlan no container starts that is given one
	e.ImportDemo()
	for _, image := range []string{"nginx", "redis"} { // which no example is about
		e.Docker("tag", Demo, image)
	}
	files, err := filepath.Glob(filepath.Join(root(t), "docs", "examples", "*.yaml"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if (name == "ipvlan" || name == "routed") && mac {
			t.Logf("%s was left out: there is no ipvlan in this kernel", name)
			continue
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
