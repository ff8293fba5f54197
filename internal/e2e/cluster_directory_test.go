package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"
)

// directoryLimit is how long it may take until what happens on one host is seen on the others, on a machine that has
// other things to do. It is a matter of a second or two.
const directoryLimit = 30 * time.Second

// A directoryItem is a key of the directory, as tests read it.
type directoryItem struct {
	Key   string
	Value json.RawMessage
	Owner string
}

// directory returns what the plugin on the engine shows below a prefix: key, owner and value, one after the other.
func (e *Engine) directory(prefix string) ([]string, error) {
	var items []directoryItem
	err := e.askPlugin("/v1/kv/"+prefix+"?recursive=true&limit=5000", &items)
	var out []string
	for _, i := range items {
		out = append(out, fmt.Sprintf("%s of %s: %s", i.Key, i.Owner, i.Value))
	}
	return out, err
}

// shown returns the address that the directory on the engine has for a container of another, with the holder as
// ringlet who tells; nothing if it has none.
func (e *Engine) shown(address string) string {
	var who struct{ Name, Peer, State string }
	if e.askPlugin("/v1/addresses/"+url.PathEscape(address), &who) != nil || who.State != "held" {
		return ""
	}
	return who.Name + " on " + who.Peer
}

// Three hosts show the same directory; what starts and stops on one is seen on the others within seconds.
func TestClusterDirectory(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3)
	c.Install()
	for _, e := range c.Engines {
		e.lan("lan", lanSubnet, "--gateway", lanGateway)
	}
	type port struct {
		Port     int
		Protocol string
	}
	ports := []port{{53, "udp"}, {80, "tcp"}} // that the containers expose
	alike := func(what string, addresses int) []string {
		t.Helper()
		var first []string
		Eventually(t, directoryLimit, what, func() bool {
			for i, e := range c.Engines {
				held, err := e.directory("ringlet/state/ip/v1/ringlet/")
				all, err2 := e.directory("ringlet/state/")
				if err != nil || err2 != nil || len(held) != addresses {
					return false
				}
				if i == 0 {
					first = all
				}
				if !slices.Equal(first, all) {
					return false
				}
			}
			return true
		})
		return first
	}
	alike("the directory without containers is the same on all hosts", 0)
	for i, e := range c.Engines {
		for j := range 3 {
			e.Docker("run", "--detach", "--name", fmt.Sprintf("web-%d-%d", i, j), "--network", "lan",
				"--label", "com.docker.compose.project=shop", "--label", "com.docker.compose.service=web", "--expose", "80", "--expose", "53/udp", Demo)
		}
	}
	for _, line := range alike("nine containers are the same on all hosts", 9) {
		fmt.Fprintln(t.Output(), line)
	}
	a, b, last := c.Engines[0], c.Engines[1], c.Engines[2]

	address := b.Address("web-1-2", "lan").String()
	// Engines before 29 tell a container's name a moment after its start.
	Eventually(t, directoryLimit, "the others know whose the address is", func() bool {
		return a.shown(address) == "web-1-2 on host-b" && last.shown(address) == "web-1-2 on host-b"
	})
	Eventually(t, directoryLimit, "each host tells of its three endpoints of the service with their ports", func() bool {
		for _, e := range c.Engines {
			var parts []struct {
				Value struct {
					Node      string
					Endpoints []struct {
						Address, Container string
						Ports              []port
					}
				}
			}
			if e.askPlugin("/v1/kv/ringlet/state/services/v1/ringlet/shop/web", &parts) != nil || len(parts) != 3 {
				return false
			}
			for _, p := range parts {
				if len(p.Value.Endpoints) != 3 {
					return false
				}
				for _, e := range p.Value.Endpoints {
					if !slices.Equal(e.Ports, ports) {
						return false
					}
				}
			}
		}
		return true
	})
	fmt.Fprintln(t.Output(), last.Ringlet("kv", "get", "ringlet/state/services/v1/ringlet/shop/web"))
	fmt.Fprintln(t.Output(), a.Ringlet("who", address))
	fmt.Fprintln(t.Output(), a.Ringlet("kv", "get", "ringlet/state/nodes/v1/ringlet/host-c"))
	begun := time.Now()
	b.Docker("run", "--detach", "--name", "late", "--network", "lan", Demo)
	started := time.Now()
	late := b.Address("late", "lan").String()
	Eventually(t, directoryLimit, "a container that has just started is seen on the others", func() bool {
		return a.shown(late) == "late on host-b" && last.shown(late) == "late on host-b"
	})
	fmt.Fprintf(t.Output(), "a start that took %v was seen on the others %v later\n", started.Sub(begun).Round(time.Millisecond), time.Since(started).Round(time.Millisecond))
	b.Docker("rm", "--force", "late", "web-1-2")
	stopped := time.Now()
	alike("what has ended is gone on all hosts", 8)
	fmt.Fprintf(t.Output(), "two ends were seen on all %v later\n", time.Since(stopped).Round(time.Millisecond))

	// A host that is cut off is told of what it missed when it is back.
	c.Cut(last)
	a.Docker("run", "--detach", "--name", "missed", "--network", "lan", Demo)
	b.Docker("rm", "--force", "web-1-1")
	missed := a.Address("missed", "lan").String()
	Eventually(t, directoryLimit, "the other host is told", func() bool { return b.shown(missed) == "missed on host-a" })
	if got := last.shown(missed); got != "" {
		t.Errorf("the host that is cut off knows of %q", got)
	}
	c.Heal(last)
	c.AwaitReady(c.Engines...)
	alike("the host that was cut off has what it missed", 8)
}

// W3: who had an address at a past time is answered on each host, by the journal of the host that had it. A host that does
// not answer is named, also where it is its journal that knows.
func TestClusterPast(t *testing.T) {
	t.Parallel()
	c := NewCluster(t, 3)
	c.Install()
	for _, e := range c.Engines {
		e.lan("lan", lanSubnet, "--gateway", lanGateway)
	}
	a, b, last := c.Engines[0], c.Engines[1], c.Engines[2]
	b.Docker("run", "--detach", "--name", "web", "--network", "lan", Demo)
	address := b.Address("web", "lan").String()
	Eventually(t, directoryLimit, "the name is known", func() bool { return a.shown(address) == "web on host-b" })
	then := time.Now().UTC().Format(time.RFC3339Nano)
	b.Docker("rm", "--force", "web")
	type answer struct {
		Peer, State string
		Holder      struct{ Name string }
		Until       time.Time
		Silent      []string
	}
	who := func(e *Engine, code int) (out answer) {
		t.Helper()
		begun := time.Now()
		text, err := e.TryRinglet("who", address, "--at", then, "-o", "json")
		if got := ExitCode(err); got != code {
			t.Errorf("on %s: exit code %d, want %d: %s", e.Name, got, code, text)
		}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		fmt.Fprintf(t.Output(), "%s after %v: %+v\n", e.Name, time.Since(begun).Round(time.Millisecond), out)
		return out
	}
	Eventually(t, directoryLimit, "all hosts tell", func() bool {
		for _, e := range c.Engines {
			if got := who(e, 0); got.Peer != "host-b" || got.State != "held" || got.Holder.Name != "web" || got.Until.IsZero() || len(got.Silent) > 0 {
				return false
			}
		}
		return true
	})
	fmt.Fprintln(t.Output(), a.Ringlet("who", address, "--at", then))
	c.Cut(last)
	if got := who(a, 0); got.Peer != "host-b" || got.State != "held" || !slices.Equal(got.Silent, []string{"host-c"}) {
		t.Errorf("without host-c: %+v", got)
	}
	c.Heal(last)
	c.AwaitReady(c.Engines...)
	c.Cut(b)
	if got := who(a, 3); got.State == "held" || !slices.Equal(got.Silent, []string{"host-b"}) {
		t.Errorf("without the host that knows: %+v", got)
	}
	text, _ := a.TryRinglet("who", address, "--at", then)
	fmt.Fprintln(t.Output(), text)
	c.Heal(b)
	c.AwaitReady(c.Engines...)
	if got := who(last, 0); got.State != "held" || len(got.Silent) > 0 {
		t.Errorf("with all again: %+v", got)
	}
}
