package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The environment of the tests of announcements: how often each case is tried, 2 times if it is empty, and the value of
// RINGLET_ANNOUNCE, the default if it is empty. With false all cases run at a time, show what comes without announcements,
// and fail.
const (
	announceTries   = "RINGLET_E2E_TRIES"
	announceSetting = "RINGLET_E2E_ANNOUNCE"
)

// reachable is how soon after its start a container answers a neighbour that has the MAC which it had before.
const reachable = time.Second

// aged is how old a neighbour's entry is at least: in its first second Linux replaces none by what others say (arp(7), locktime).
const aged = 1200 * time.Millisecond

// A lookout is a neighbour that sends requests to an address all the time, and when the answers came.
type lookout struct {
	mu      sync.Mutex
	answers []time.Time
}

// watch has a process in a network namespace of the host, "" its own, send requests to an address until the test ends.
func (h *Host) watch(pid string, to netip.Addr) *lookout {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	args := []string{Built(h.t, "demo"), "watch", to.String()}
	if pid != "" {
		args = append([]string{"nsenter", "--target", pid, "--net", "--"}, args...)
	}
	cmd := h.Command(ctx, args[0], args[1:]...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	w := &lookout{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if at, err := time.Parse(time.RFC3339Nano, lines.Text()); err == nil {
				w.mu.Lock()
				w.answers = append(w.answers, at)
				w.mu.Unlock()
			}
		}
	}()
	h.t.Cleanup(func() {
		cancel()
		_ = out.Close() // the process inside ends when nobody reads
		<-done
		_ = cmd.Wait()
	})
	return w
}

// first returns how long after a time the first answer came.
func (w *lookout) first(t testing.TB, since time.Time) (took time.Duration) {
	t.Helper()
	Eventually(t, 2*time.Minute, "an answer", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		i := slices.IndexFunc(w.answers, func(at time.Time) bool { return !at.Before(since) })
		if i >= 0 {
			took = w.answers[i].Sub(since)
			w.answers = w.answers[i:]
		}
		return i >= 0
	})
	return took
}

// tries returns how often each case is tried.
func tries(t testing.TB) int {
	t.Helper()
	text := os.Getenv(announceTries)
	if text == "" {
		return 2
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%s is not a number of tries", announceTries, text)
	}
	return n
}

// announcing returns the settings of the plugin.
func announcing() []string {
	if v := os.Getenv(announceSetting); v != "" {
		return []string{"RINGLET_ANNOUNCE=" + v}
	}
	return nil
}

// started returns when a container started last, by the clock of this machine: when the engine says so in its events. What
// it shows as StartedAt is the time at which engines from 28 on begin with it, before they ask for its address.
func (e *Engine) started(container string, since time.Time) time.Time {
	e.t.Helper()
	unix := func(at time.Time) string { return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()) }
	all := strings.Fields(e.Docker("events", "--since", unix(since), "--until", unix(time.Now()),
		"--filter", "type=container", "--filter", "event=start", "--filter", "container="+container, "--format", "{{.TimeNano}}"))
	if len(all) == 0 {
		e.t.Fatalf("%s has not started since %v", container, since)
	}
	nano, err := strconv.ParseInt(all[len(all)-1], 10, 64)
	if err != nil {
		e.t.Fatal(err)
	}
	return time.Unix(0, nano)
}

// measure has a container come back some times, on the engine that again returns, and checks how soon its neighbour reaches it.
func measure(t *testing.T, what, container string, seen *lookout, again func() *Engine) {
	t.Helper()
	var took []time.Duration
	var e *Engine
	for range tries(t) {
		seen.first(t, time.Now().Add(aged)) // the neighbour has an entry
		began := time.Now()
		e = again()
		took = append(took, seen.first(t, e.started(container, began)))
	}
	sorted := slices.Sorted(slices.Values(took))
	median, worst := sorted[len(sorted)/2], sorted[len(sorted)-1]
	t.Logf("RESULT %s | %s | median %v | worst %v | %v", e.Docker("version", "--format", "{{.Server.Version}}"), what,
		median.Round(time.Millisecond), worst.Round(time.Millisecond), took)
	if worst > reachable {
		t.Errorf("%s: the neighbour reaches the container %v after its start", what, worst)
	}
}

// alone has cases run one at a time, but where they wait for what comes without announcements.
func alone(t *testing.T) {
	t.Helper()
	if os.Getenv(announceSetting) == "false" {
		t.Parallel()
	}
}

// restart returns what restarts a container.
func (e *Engine) restart(name string) func() *Engine {
	return func() *Engine {
		e.t.Helper()
		e.Docker("restart", name)
		return e
	}
}

// pid returns the ID of a container's process, as the host sees it.
func (e *Engine) pid(container string) string {
	e.t.Helper()
	return e.Docker("inspect", "--format", "{{.State.Pid}}", container)
}

// A container comes back with its address and another MAC, and a neighbour that knows the old one reaches it at once.
func TestEngineAnnounce(t *testing.T) {
	t.Parallel()
	sw := NewSwitch(t)
	e := Start(t, Config{Name: "host-a", Switch: sw, Address: netip.MustParsePrefix("192.168.77.1/24")})
	e.InstallPlugin(announcing()...)
	e.ImportDemo()
	neighbour := NewHost(t, "neighbour")
	sw.Plug(neighbour, netip.MustParsePrefix("192.168.77.99/24"))
	e.Docker("network", "create", "--ipam-driver", Plugin, "--ipv6", "--subnet", "10.77.0.0/24", "--subnet", "fd00:77::/64", "net")
	neighbour.Run("ip", "address", "add", "fd00:78::99/64", "dev", "eth0", "nodad")
	e.lan("lan", "192.168.77.0/24", "--gateway", "192.168.77.254", "--ipv6", "--subnet", "fd00:78::/64", "--gateway", "fd00:78::254")
	e.Docker("run", "--detach", "--name", "cli", "--network", "net", Demo)
	cli := e.pid("cli")
	run := func(name, network, address string) netip.Addr {
		t.Helper()
		at, flag := netip.MustParseAddr(address), "--ip"
		if at.Is6() {
			flag = "--ip6"
		}
		e.Docker("run", "--detach", "--name", name, "--network", network, flag, address, Demo)
		return at
	}

	t.Run("bridge", func(t *testing.T) {
		alone(t)
		measure(t, "bridge --ip, restart", "srv", e.watch(cli, run("srv", "net", "10.77.0.77")), e.restart("srv"))
	})
	t.Run("recreated", func(t *testing.T) {
		alone(t)
		measure(t, "bridge --ip, rm and run", "new", e.watch(cli, run("new", "net", "10.77.0.78")), func() *Engine {
			e.Docker("rm", "--force", "new")
			run("new", "net", "10.77.0.78")
			return e
		})
	})
	t.Run("host", func(t *testing.T) {
		alone(t)
		measure(t, "bridge --ip, restart, seen from the host", "pub", e.watch("", run("pub", "net", "10.77.0.79")), e.restart("pub"))
	})
	t.Run("ipv6", func(t *testing.T) {
		alone(t)
		measure(t, "bridge --ip6, restart", "six", e.watch(cli, run("six", "net", "fd00:77::77")), e.restart("six"))
	})
	t.Run("host6", func(t *testing.T) {
		alone(t)
		measure(t, "bridge --ip6, restart, seen from the host", "pub6", e.watch("", run("pub6", "net", "fd00:77::79")), e.restart("pub6"))
	})
	t.Run("name", func(t *testing.T) {
		alone(t)
		if e.release() < 29 {
			t.Skip("skipped: this engine is older than 29, and does not tell the names of containers")
		}
		measure(t, "bridge by name, restart", "named", e.watch(cli, runDemo(e, "net", "named")), e.restart("named"))
	})
	t.Run("compose", func(t *testing.T) {
		alone(t)
		need(t, "docker-compose")
		file := e.Dir() + "/compose.yaml"
		e.write(file, composed)
		// auto: engines from 29 on refuse what that release asks for by itself.
		compose := []string{"COMPOSE_API_VERSION=auto", "docker-compose", "--no-ansi", "--project-name", "app", "--file", file}
		e.Run("env", append(compose, "up", "--detach")...)
		measure(t, "bridge, recreated by compose", "app_srv_1", e.watch(e.pid("app_cli_1"), netip.MustParseAddr("10.79.0.77")), func() *Engine {
			if e.release() < 25 {
				e.Run("env", append(compose, "up", "--detach", "--force-recreate", "--timeout", "1", "srv")...)
				return e
			}
			// That release fails over what these engines say of the image of a container that it recreates.
			e.Run("env", append(compose, "rm", "--stop", "--force", "srv")...)
			e.Run("env", append(compose, "up", "--detach", "srv")...)
			return e
		})
	})
	t.Run("macvlan", func(t *testing.T) {
		alone(t)
		measure(t, "macvlan, restart, neighbour on the LAN", "lan1", neighbour.watch("", run("lan1", "lan", "192.168.77.77")), e.restart("lan1"))
	})
	t.Run("macvlan6", func(t *testing.T) {
		alone(t)
		measure(t, "macvlan --ip6, restart, neighbour on the LAN", "lan6", neighbour.watch("", run("lan6", "lan", "fd00:78::77")), e.restart("lan6"))
	})
	t.Run("sibling", func(t *testing.T) {
		alone(t)
		// As docs/networks.md says.
		e.Run("ip", "link", "add", "shim", "link", "eth0", "type", "macvlan", "mode", "bridge")
		e.Run("ip", "address", "add", "192.168.77.3/32", "dev", "shim")
		e.Run("ip", "link", "set", "shim", "up")
		e.Run("ip", "route", "add", "192.168.77.128/25", "dev", "shim")
		e.Docker("run", "--detach", "--name", "sib", "--network", "lan", Demo)
		at := run("lan2", "lan", "192.168.77.200")
		seen, host := e.watch(e.pid("sib"), at), e.watch("", at)
		measure(t, "macvlan, restart, other container, with an interface beside", "lan2", seen, e.restart("lan2"))
		measure(t, "macvlan, restart, seen from the host's interface beside", "lan2", host, e.restart("lan2"))
	})
}

// composed is a project whose service srv has a fixed address.
const composed = `version: "2.4"
services:
  cli:
    image: ringlet-demo
    networks: [net]
  srv:
    image: ringlet-demo
    networks:
      net: {ipv4_address: 10.79.0.77}
networks:
  net:
    ipam:
      driver: ringlet:latest
      config: [{subnet: 10.79.0.0/24}]
`

// A container moves from host to host with its address: a neighbour on the LAN that knows the MAC which it had on the other
// one reaches it at once.
func TestClusterAnnounce(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 2, announcing()...)
	c.Install()
	for _, e := range c.Engines {
		e.lan("lan", "10.59.0.0/24", "--ipam-opt", "gateway=none")
	}
	neighbour := NewHost(t, "neighbour")
	c.Switch.Plug(neighbour, netip.MustParsePrefix("10.59.0.250/24"))
	at, on := 0, c.Engines[0]
	run := func() *Engine {
		t.Helper()
		on = c.Engines[at%2]
		at++
		on.Docker("run", "--detach", "--name", "srv", "--network", "lan", "--ip", "10.59.0.77", Demo)
		return on
	}
	run()
	measure(t, "two hosts, macvlan, neighbour on the LAN", "srv", neighbour.watch("", netip.MustParseAddr("10.59.0.77")), func() *Engine {
		on.Docker("rm", "--force", "srv")
		return run()
	})
}
