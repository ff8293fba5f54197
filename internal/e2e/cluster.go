package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// readyLimit is how long peers may take to find each other, to be admitted and to check their databases. Each of the
// three is a matter of seconds; two halves of a cluster look for each other every 30 s.
const readyLimit = 4 * time.Minute

// patient is the setting of a host that has a new database, and is asked at once: until it has joined the others, taken over
// what it had and listed it takes ten to fifteen seconds, more on a busy machine. It is the longest that there may be.
const patient = "RINGLET_TIMEOUT=28s"

// A Cluster is several engines on one switch that share a key. Use [NewCluster]. Its methods belong to the goroutine
// of the test.
type Cluster struct {
	Switch  *Switch
	Engines []*Engine
	// Key is the value of RINGLET_KEY that [Cluster.Settings] gives all peers.
	Key string

	t    testing.TB
	cfg  Config   // of all engines, but for their names and places
	more []string // settings of all peers
}

// NewCluster starts engines, without plugins; all will have the settings, which have the form NAME=value. They end with
// the test.
func NewCluster(t testing.TB, engines int, settings ...string) *Cluster {
	t.Helper()
	return NewClusterOf(t, Config{}, engines, settings...)
}

// NewClusterOf is [NewCluster] with engines of that kind; their names and addresses are the cluster's.
func NewClusterOf(t testing.TB, kind Config, engines int, settings ...string) *Cluster {
	t.Helper()
	c := &Cluster{Switch: NewSwitch(t), Key: NewKey(), t: t, cfg: kind, more: settings}
	t.Cleanup(c.tell)
	for range engines {
		c.Add()
	}
	return c
}

// NewKey returns a random key as RINGLET_KEY takes it.
func NewKey() string {
	var key [32]byte
	_, _ = rand.Read(key[:]) // never fails
	return base64.StdEncoding.EncodeToString(key[:])
}

// Add starts one more engine, without the plugin: host-a, host-b and so on. The hosts know each other by name.
func (c *Cluster) Add() *Engine {
	c.t.Helper()
	i := len(c.Engines)
	e := c.start(i)
	for _, other := range c.Engines {
		other.knows(e, hostAt(i))
	}
	c.Engines = append(c.Engines, e)
	return e
}

// Replace ends an engine with all that it had and starts another one under its name and address, as a new machine.
func (c *Cluster) Replace(e *Engine) *Engine {
	c.t.Helper()
	i := slices.Index(c.Engines, e)
	e.Host.end()
	c.Engines[i] = c.start(i)
	return c.Engines[i]
}

// start starts the engine with that index, which knows the others.
func (c *Cluster) start(i int) *Engine {
	c.t.Helper()
	cfg := c.cfg
	cfg.Name, cfg.Switch, cfg.Address = "host-"+string(rune('a'+i)), c.Switch, netip.PrefixFrom(hostAt(i), 24)
	e := Start(c.t, cfg)
	for j, other := range c.Engines {
		if j != i {
			e.knows(other, hostAt(j))
		}
	}
	return e
}

// Others returns the engines but one, in order.
func (c *Cluster) Others(e *Engine) []*Engine {
	return slices.DeleteFunc(slices.Clone(c.Engines), func(other *Engine) bool { return other == e })
}

// knows adds another host to the host's /etc/hosts, and so to its plugins'.
func (h *Host) knows(other *Engine, at netip.Addr) {
	h.t.Helper()
	f, err := os.OpenFile(filepath.Join(h.dir, "hosts"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintln(f, at, other.Name); err != nil {
		h.t.Fatal(err)
	}
}

// tell keeps the engines' logs beside the test's other artifacts and shows, when the test has failed, what the plugins
// wrote last.
func (c *Cluster) tell() {
	for _, e := range c.Engines {
		var lines []string
		var all strings.Builder
		for _, l := range e.Log.Lines() {
			fmt.Fprintln(&all, l.Raw)
			if l.Plugin != "" {
				lines = append(lines, l.Msg)
			}
		}
		if err := os.WriteFile(filepath.Join(c.t.ArtifactDir(), e.Name+".log"), []byte(all.String()), 0o600); err != nil {
			c.t.Error(err)
		}
		if !c.t.Failed() {
			continue
		}
		c.t.Logf("last lines of the plugin on %s:\n%s", e.Name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
}

// hostAt returns the address of the host with that index.
func hostAt(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 50, byte(i + 1)}) }

// Settings returns the plugin's settings on an engine: those of all peers, the key and, save on the first engine, the
// first one to join.
func (c *Cluster) Settings(e *Engine) []string {
	settings := append(slices.Clone(c.more), "RINGLET_KEY="+c.Key)
	if e != c.Engines[0] {
		settings = append(settings, "RINGLET_JOIN="+c.Engines[0].Name)
	}
	return settings
}

// SettingsAnew returns the plugin's settings on an engine that comes back without its data: it joins the others, also if it
// was the first.
func (c *Cluster) SettingsAnew(e *Engine) []string {
	var others []string
	for _, other := range c.Others(e) {
		others = append(others, other.Name)
	}
	return append(slices.Clone(c.more), "RINGLET_KEY="+c.Key, "RINGLET_JOIN="+strings.Join(others, ","))
}

// Install installs the plugin on all engines, one after the other, with their [Cluster.Settings], and returns when all
// are ready.
func (c *Cluster) Install() {
	c.t.Helper()
	for _, e := range c.Engines {
		e.InstallPlugin(c.Settings(e)...)
		e.ImportDemo()
	}
	c.AwaitReady(c.Engines...)
}

// Cut takes an engine off the switch, so that it reaches nobody while its host sees its link up.
func (c *Cluster) Cut(e *Engine) {
	c.t.Helper()
	c.Switch.Unplug(e.Host)
}

// Heal ends [Cluster.Cut].
func (c *Cluster) Heal(e *Engine) {
	c.t.Helper()
	c.Switch.Plug(e.Host, netip.Prefix{})
}

// PeerStatus is what tests read of ringlet status -o json.
type PeerStatus struct {
	Verdict, State, Cluster string
	Slot                    uint64
	Self                    struct{ ID, Name, State string }
	Peers                   []struct {
		ID, Name, State  string
		Voter, Reachable bool
		Slot             uint64
	}
	Pools    []PoolStatus
	Problems []Problem
}

// PoolStatus is what tests read of a pool.
type PoolStatus struct {
	Pool                                                    netip.Prefix
	Size, Held, Resting, Ready, Free, Reserved, Quarantined uint64
	Mine                                                    uint64
	NetworkNames                                            []string `json:"network_names"`
}

// A Problem is something that the plugin thinks somebody should do something about.
type Problem struct{ Code, Text, Next, Level string }

// Status returns what the plugin on the engine tells of itself; an error where it does not answer.
func (e *Engine) Status() (PeerStatus, error) {
	var st PeerStatus
	err := e.askPlugin("/v1/status", &st)
	return st, err
}

// passing are the problems of a cluster that is as it should be: a pool runs short or is used up, somebody had another key within
// the last minute, and the LAN of a test has no router.
var passing = []string{"short-of-space", "pool-full", "foreign-key", "elsewhere", "router-unnamed"}

// AwaitReady returns when each of the engines' plugins can do everything and has no problem that does not pass, reaches
// every peer of the cluster, and all know the same: these engines and nobody else.
func (c *Cluster) AwaitReady(engines ...*Engine) {
	c.t.Helper()
	c.Await("these peers are one cluster", engines, func(all []PeerStatus) string {
		for i, st := range all {
			st.Problems = slices.DeleteFunc(st.Problems, func(p Problem) bool { return p.Level == "fine" || slices.Contains(passing, p.Code) })
			if len(st.Problems) > 0 || st.State != "ready" && (st.State != "alone" || len(all) > 1) {
				return fmt.Sprintf("%s is %s, %s: %v", engines[i].Name, st.State, st.Verdict, st.Problems)
			}
			if st.Cluster != all[0].Cluster || st.Slot != all[0].Slot {
				return fmt.Sprintf("%s is at slot %d of %s, %s at %d of %s", engines[i].Name, st.Slot, st.Cluster, engines[0].Name, all[0].Slot, all[0].Cluster)
			}
			for _, p := range st.Peers {
				if !p.Reachable && p.ID != st.Self.ID {
					return fmt.Sprintf("%s does not reach %s", engines[i].Name, p.Name)
				}
			}
			if len(st.Peers) != len(all) {
				return fmt.Sprintf("%s knows %d peers, with those evicted", engines[i].Name, len(st.Peers))
			}
		}
		return ""
	})
}

// Await looks at the status of the engines' plugins until wrong says nothing about them; what names the state waited
// for.
func (c *Cluster) Await(what string, engines []*Engine, wrong func([]PeerStatus) string) {
	c.t.Helper()
	deadline := time.NewTimer(readyLimit)
	defer deadline.Stop()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		problem := ""
		all := make([]PeerStatus, len(engines))
		for i, e := range engines {
			var err error
			if all[i], err = e.Status(); err != nil {
				problem = err.Error()
			}
		}
		if problem == "" {
			problem = wrong(all)
		}
		if problem == "" {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			for _, e := range engines {
				out, _ := e.TryRinglet("status")
				c.t.Logf("status of %s:\n%s", e.Name, out)
			}
			c.t.Fatalf("not within %v: %s: %s", readyLimit, what, problem)
		case <-c.t.Context().Done():
			c.t.Fatalf("the test ended while waiting: %s", what)
		}
	}
}
