package e2e

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// zonesPool is the pool that all peers of [TestClusterZones] share.
const zonesPool = "10.50.0.0/16"

// A site is a zone of [TestClusterZones]: hosts on a switch of their own, and the port of that switch on the one that joins all.
type site struct {
	name  string
	port  string
	peers []*zoned
}

// zoned is a peer of that test: the plugin of an engine, or a process of its own on a host without one.
type zoned struct {
	*Host
	engine *Engine // nil: a process
	site   *site
	at     netip.Addr
	join   string
	key    string
	proc   *process
}

// zones are three sites with nine peers, five of them in the first, and one engine in each.
type zones struct {
	t     *testing.T
	core  *Switch
	sites []*site
	peers []*zoned
}

// The first of three zones has the most hosts, and they came first. Without the setting their loss stops what needs a decision.
// With it any one zone may be lost, and the others go on: pools, containers, claims and evictions.
func TestClusterZones(t *testing.T) {
	t.Parallel()
	z := newZones(t, 5, 2, 2)
	for _, p := range z.peers {
		z.install(p)
	}
	z.awaitPeers("all are in one cluster", z.peers, len(z.peers))
	z.command(z.peers[0], "pool", "create", zonesPool)
	for k, p := range z.peers { // until each has found what a new database looks for
		Eventually(t, readyLimit, p.Name+" makes a pool", func() bool {
			_, err := z.try(p, "pool", "create", fmt.Sprintf("10.59.%d.0/24", k))
			return err == nil
		})
	}
	for _, s := range z.sites {
		s.engine().lan("lan", zonesPool)
	}

	first := z.sites[0]
	z.unplug(first)
	rest := z.but(first)
	z.awaitState("the rest has no majority", rest, "cut-off")
	var calls []func() error
	for k, p := range rest {
		calls = append(calls, func() error {
			_, err := z.try(p, "pool", "create", fmt.Sprintf("10.60.%d.0/24", k))
			return err
		})
	}
	for _, err := range atOnce(calls...) {
		refused(t, err, "agreement")
	}
	rest[0].engine.Docker("run", "--detach", "--name", "still", "--network", "lan", Demo) // it hands out what it has
	z.await("nobody is evicted", rest, func(_ *zoned, st zoneStatus) string {
		if i := slices.IndexFunc(st.Peers, func(q zonePeer) bool { return q.State == "evicted" }); i >= 0 {
			return st.Peers[i].Name + " is"
		}
		return ""
	})
	z.plug(first)
	z.awaitPeers("all are back", z.peers, len(z.peers))

	for _, p := range z.peers {
		z.tellZone(p)
	}
	z.awaitPeers("all have named their zones", z.peers, len(z.peers))
	z.awaitVotes()
	for i, s := range z.sites {
		z.goesOnWithout(i, s)
	}
}

// goesOnWithout unplugs a zone. The others can do everything, and evict its hosts. Those can do nothing that needs a decision, and
// come back with what they have.
func (z *zones) goesOnWithout(i int, lost *site) {
	t := z.t
	t.Helper()
	z.unplug(lost)
	decides := make(chan error, 1)
	go func() { // ends with its command
		_, err := z.try(lost.peers[0], "pool", "create", fmt.Sprintf("10.80.%d.0/24", i))
		decides <- err
	}()
	rest := z.but(lost)
	for k, p := range rest {
		z.command(p, "pool", "create", fmt.Sprintf("10.%d.%d.0/24", 70+i, k))
		name := fmt.Sprintf("claim-%d-%d", i, k)
		address := fmt.Sprintf("10.50.%d.%d", 240+i, 10+k)
		if got := z.command(p, "alloc", "--pool", zonesPool, "--for", name, "--ip", address); strings.TrimSpace(got) != address {
			t.Errorf("%s claims %s and gets %s", p.Name, address, got)
		}
		if p.engine != nil {
			p.engine.Docker("run", "--detach", "--name", fmt.Sprint("without-", lost.name), "--network", "lan", Demo)
		}
	}
	z.awaitPeers("the hosts of "+lost.name+" are evicted", rest, len(rest))
	refused(t, <-decides, "agreement")
	z.plug(lost)
	z.awaitPeers("all are back", z.peers, len(z.peers))
	z.heldOnce()
}

// newZones starts so many hosts in each zone, of which the first has an engine.
func newZones(t *testing.T, sizes ...int) *zones {
	t.Helper()
	z := &zones{t: t, core: NewSwitch(t)}
	key := NewKey()
	for i, size := range sizes {
		s := &site{name: fmt.Sprint("rack-", i+1), port: fmt.Sprint("rack", i+1)}
		z.sites = append(z.sites, s)
		sw := NewSwitch(t)
		z.core.Join(sw, s.port)
		z.plug(s)
		for range size {
			n := len(z.peers)
			p := &zoned{site: s, at: hostAt(n), key: key}
			if n > 0 {
				p.join = z.peers[0].at.String()
			}
			name, address := fmt.Sprint("host-", string(rune('a'+n))), netip.PrefixFrom(p.at, 24)
			if len(s.peers) == 0 {
				p.engine = Start(t, Config{Name: name, Switch: sw, Address: address})
				p.Host = p.engine.Host
			} else {
				p.Host = NewHost(t, name)
				sw.Plug(p.Host, address)
			}
			s.peers, z.peers = append(s.peers, p), append(z.peers, p)
		}
	}
	return z
}

func (s *site) engine() *Engine { return s.peers[0].engine }

// unplug pulls the cable of a zone: its hosts reach each other, and nobody else.
func (z *zones) unplug(s *site) {
	z.t.Helper()
	z.core.Run("ip", "link", "set", s.port, "nomaster")
}

func (z *zones) plug(s *site) {
	z.t.Helper()
	z.core.Run("ip", "link", "set", s.port, "master", "br0")
}

// but returns the peers of the other zones.
func (z *zones) but(s *site) []*zoned {
	return slices.DeleteFunc(slices.Clone(z.peers), func(p *zoned) bool { return p.site == s })
}

// settings are those of a peer, as NAME=value.
func (p *zoned) settings(more ...string) []string {
	return append(more, "RINGLET_KEY="+p.key, "RINGLET_JOIN="+p.join, "RINGLET_EVICT_AFTER=10s", "RINGLET_TIMEOUT=10s")
}

// install starts a peer without a zone, and returns when it is in the cluster: the order of the roster is that of the peers.
func (z *zones) install(p *zoned) {
	z.t.Helper()
	if p.engine != nil {
		p.engine.InstallPlugin(p.settings()...)
		p.engine.ImportDemo()
	} else {
		z.serve(p)
	}
	z.awaitState(p.Name+" is admitted", []*zoned{p}, "ready", "alone")
}

// serve starts the process of a peer.
func (z *zones) serve(p *zoned, more ...string) {
	z.t.Helper()
	args := slices.Concat([]string{"-"}, p.settings(more...), []string{Built(z.t, "ringlet"), "serve", "--data", filepath.Join(p.Dir(), "data"), "--admin-socket", p.socket()})
	proc, err := p.spawn(newLog(), "env", args...)
	if err != nil {
		z.t.Fatal(err)
	}
	p.proc = proc
}

// socket is where the process of a peer is asked.
func (p *zoned) socket() string { return filepath.Join(p.Dir(), "admin.sock") }

// tellZone has a peer start again with its zone.
func (z *zones) tellZone(p *zoned) {
	z.t.Helper()
	zone := "RINGLET_ZONE=" + p.site.name
	if p.engine != nil {
		p.engine.Docker("plugin", "disable", "--force", Plugin)
		p.engine.Docker("plugin", "set", Plugin, zone)
		p.engine.Docker("plugin", "enable", Plugin)
	} else {
		if err := p.proc.end("TERM"); err != nil {
			z.t.Fatal(err)
		}
		z.serve(p, zone)
	}
	z.awaitState(p.Name+" is back", []*zoned{p}, "ready")
}

// try gives a command of ringlet on a peer's host.
func (z *zones) try(p *zoned, args ...string) (string, error) {
	if p.engine == nil {
		args = append(args, "--socket="+p.socket())
	}
	return p.Try(Built(z.t, "ringlet"), args...)
}

func (z *zones) command(p *zoned, args ...string) string {
	z.t.Helper()
	out, err := z.try(p, args...)
	if err != nil {
		z.t.Fatal(err)
	}
	return out
}

// zoneStatus is what the test reads of ringlet status -o json.
type zoneStatus struct {
	State string
	Slot  uint64
	Peers []zonePeer
}

type zonePeer struct {
	ID, Name, State, Zone string
	Voter, Reachable      bool
}

func (z *zones) status(p *zoned) (st zoneStatus, err error) {
	out, err := z.try(p, "status", "-o", "json")
	if out == "" && err != nil {
		return st, err
	}
	return st, json.Unmarshal([]byte(out), &st) // a status with problems has an exit code of its own
}

// await looks at the status of peers until it is right.
func (z *zones) await(what string, peers []*zoned, wrong func(p *zoned, st zoneStatus) string) {
	z.t.Helper()
	problem := ""
	deadline := time.Now().Add(readyLimit)
	for time.Now().Before(deadline) {
		problem = ""
		for _, p := range peers {
			st, err := z.status(p)
			if err != nil {
				problem = err.Error()
			} else if w := wrong(p, st); w != "" {
				problem = p.Name + ": " + w
			}
			if problem != "" {
				break
			}
		}
		if problem == "" {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	z.t.Fatalf("not within %v: %s: %s", readyLimit, what, problem)
}

func (z *zones) awaitState(what string, peers []*zoned, states ...string) {
	z.t.Helper()
	z.await(what, peers, func(_ *zoned, st zoneStatus) string {
		if slices.Contains(states, st.State) {
			return ""
		}
		return "it is " + st.State
	})
}

// awaitPeers returns when so many peers are in the cluster, and all of these reach all of them.
func (z *zones) awaitPeers(what string, peers []*zoned, n int) {
	z.t.Helper()
	z.await(what, peers, func(p *zoned, st zoneStatus) string {
		in := 0
		for _, q := range st.Peers {
			if q.State == "evicted" {
				continue
			}
			if in++; !q.Reachable && q.Name != p.Name {
				return "it does not reach " + q.Name
			}
		}
		if in != n || st.State != "ready" {
			return fmt.Sprintf("it is %s, and knows %d peers", st.State, in)
		}
		return ""
	})
}

// awaitVotes returns when the votes are spread over the zones.
func (z *zones) awaitVotes() {
	z.t.Helper()
	z.await("three, two and two hosts vote", z.peers, func(_ *zoned, st zoneStatus) string {
		votes := map[string]int{}
		for _, q := range st.Peers {
			if q.Voter {
				votes[q.Zone]++
			}
		}
		if votes["rack-1"] != 3 || votes["rack-2"] != 2 || votes["rack-3"] != 2 {
			return fmt.Sprint("the voters are ", votes)
		}
		return ""
	})
}

// heldOnce checks that no address is held on two hosts, and that each engine's containers have what its peer says.
func (z *zones) heldOnce() {
	z.t.Helper()
	at := map[string]string{}
	for _, p := range z.peers {
		var held []struct{ Address, State string }
		if err := json.Unmarshal([]byte(z.command(p, "ip", "ls", "-o", "json")), &held); err != nil {
			z.t.Fatal(err)
		}
		for _, h := range held {
			if other, twice := at[h.Address]; twice && h.State == "held" {
				z.t.Errorf("%s is held on %s and on %s", h.Address, other, p.Name)
			}
			at[h.Address] = p.Name
		}
		if p.engine != nil {
			same(p.engine, "after a zone was lost")
		}
	}
}
