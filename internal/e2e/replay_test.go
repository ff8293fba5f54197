package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// An engine of today does not survive that a network is refused which it has and containers are on, and asks for all of
// them before it answers anything. Whatever the plugin has lost, and however far it is from any cluster, the engine starts.

// The plugin of a host with a key is installed anew under its containers, and the engine is restarted.
func TestEngineStartsAboveANewPlugin(t *testing.T) {
	key := "RINGLET_KEY=" + NewKey()
	e := Start(t, Config{Name: "host-a", LiveRestore: true})
	e.InstallPlugin(key)
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	runDemo(e, "net", "one")
	e.Docker("plugin", "rm", "--force", Plugin)
	e.InstallPlugin(key)
	e.Restart()
	e.stillHas("one")
}

// The host loses its power, and the database is damaged by that.
func TestEngineStartsAboveADamagedDatabase(t *testing.T) {
	e := Start(t, Config{Name: "host-a"})
	e.InstallPlugin("RINGLET_KEY=" + NewKey())
	e.ImportDemo()
	makeNetwork(e, "net", "10.77.0.0/24")
	runDemo(e, "net", "one")
	db := filepath.Join(e.Dir(), "docker/plugins", e.PluginID(Plugin), "propagated-mount/ringlet.db")
	e.PowerOff()
	if err := os.WriteFile(db, []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.Up()
	e.stillHas("one")
}

// stillHas expects the engine to have a container with its network.
func (e *Engine) stillHas(container string) {
	e.t.Helper()
	if out := e.Docker("container", "inspect", "--format", "{{range $name, $net := .NetworkSettings.Networks}}{{$name}} {{end}}", container); !strings.Contains(out, "net") {
		e.t.Errorf("container %s is on the networks %s", container, out)
	}
}
