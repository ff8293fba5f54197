package e2e

import (
	"encoding/json"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// Plugin is the name under which tests install the plugin, and so the name of the IPAM driver.
	Plugin = "ringlet:latest"
	// Demo is the name of the image that [Engine.ImportDemo] makes. Its program is internal/demo.
	Demo = "ringlet-demo"
)

// Docker runs the docker command against the engine and returns what it printed.
func (e *Engine) Docker(args ...string) string {
	e.t.Helper()
	return e.Run("docker", args...)
}

// TryDocker is Docker for commands that may fail: the error carries the text that a user would read.
func (e *Engine) TryDocker(args ...string) (string, error) { return e.Try("docker", args...) }

// Ringlet runs the command line of build/ringlet on the host and returns what it printed.
func (e *Engine) Ringlet(args ...string) string {
	e.t.Helper()
	return e.Run(Built(e.t, "ringlet"), args...)
}

// TryRinglet is Ringlet for commands that may fail; [ExitCode] tells how.
func (e *Engine) TryRinglet(args ...string) (string, error) {
	return e.Try(Built(e.t, "ringlet"), args...)
}

// CreatePlugin stores the plugin of build/plugin in the engine as name, with settings of the form NAME=value. It is not
// enabled yet.
func (e *Engine) CreatePlugin(name string, settings ...string) {
	e.t.Helper()
	e.Docker("plugin", "create", name, Built(e.t, "plugin"))
	if len(settings) > 0 {
		e.Docker(append([]string{"plugin", "set", name}, settings...)...)
	}
}

// InstallPlugin creates [Plugin] from build/plugin with the settings, and enables it.
func (e *Engine) InstallPlugin(settings ...string) {
	e.t.Helper()
	e.CreatePlugin(Plugin, settings...)
	e.Docker("plugin", "enable", Plugin)
}

// release returns the engine's major version, such as 29.
func (e *Engine) release() int {
	e.t.Helper()
	version := e.Docker("version", "--format", "{{.Server.Version}}")
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		e.t.Fatalf("the engine's version is %q", version)
	}
	return n
}

// PluginID returns the id of an installed plugin. On the host the plugin's sockets are in /run/docker/plugins/ID.
func (e *Engine) PluginID(name string) string {
	e.t.Helper()
	return e.Docker("plugin", "inspect", "--format", "{{.ID}}", name)
}

// ImportDemo makes the image [Demo] of build/demo.tar, unless the engine has it.
func (e *Engine) ImportDemo() {
	e.t.Helper()
	if _, err := e.TryDocker("image", "inspect", Demo); err == nil {
		return
	}
	e.Docker("import", "--change", `ENTRYPOINT ["/demo"]`, Built(e.t, "demo.tar"), Demo)
}

// Address returns a container's IPv4 address on a network, as the engine tells it; the zero Addr when it has none.
func (e *Engine) Address(container, network string) netip.Addr {
	e.t.Helper()
	return e.inspectAddress(container, network, "IPAddress")
}

// Address6 returns a container's IPv6 address on a network, as the engine tells it; the zero Addr when it has none.
func (e *Engine) Address6(container, network string) netip.Addr {
	e.t.Helper()
	return e.inspectAddress(container, network, "GlobalIPv6Address")
}

func (e *Engine) inspectAddress(container, network, key string) netip.Addr {
	e.t.Helper()
	text := e.Docker("inspect", "--format", `{{(index .NetworkSettings.Networks "`+network+`").`+key+`}}`, container)
	if text == "" || text == "invalid IP" { // the second is what newer engines print for none
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		e.t.Fatalf("address of %s on %s: %v", container, network, err)
	}
	return a
}

// Inside returns the addresses that a running container of the [Demo] image has on its interfaces, without loopback and
// link-local ones: what is in use, whatever the engine says.
func (e *Engine) Inside(container string) []netip.Prefix {
	e.t.Helper()
	var seen struct {
		Addresses []struct {
			Interface string
			Address   netip.Prefix
		}
	}
	if err := json.Unmarshal([]byte(e.Docker("exec", container, "/demo", "addrs")), &seen); err != nil {
		e.t.Fatalf("addresses inside %s: %v", container, err)
	}
	var found []netip.Prefix
	for _, a := range seen.Addresses {
		found = append(found, a.Address)
	}
	return found
}

// Socket returns the path of the engine's socket as seen from the test, outside the host.
func (e *Engine) Socket() string {
	return e.path("/run/docker.sock")
}
