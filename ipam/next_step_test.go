package ipam_test

import (
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/wire"
)

// nextStep is an advice that the status gives, with what an operator did who followed it.
type nextStep struct {
	code   string // of the problem
	advice string // as it is printed, with HOST for the name of a host
	ran    string // what the test did, as a command or a step of an operator
	// scene has the problem. It returns the status of the peer that prints the advice, and what follows the advice, after which the
	// status has to be without the problem.
	scene func(t *testing.T) (status func() ipam.Status, follow func())
}

const (
	adviceAway    = "start or reconnect that host; if it is off for good, release its addresses with ringlet evict HOST and then ringlet forget HOST"
	adviceCutOff  = "start or reconnect those hosts; if they are gone for good, ringlet recover --help says how this host continues alone"
	adviceKept    = "bring that host back, with its data removed if this cluster was recovered without it; if it is gone for good, run ringlet forget HOST"
	adviceRejoin  = "run ringlet rejoin on this host: it starts over as a new peer, and its containers run on"
	adviceFound   = "set RINGLET_JOIN to another host of the cluster, also on the first host; if no host still has its data, set RINGLET_BOOTSTRAP=1 on one host, and let the others join it"
	adviceAlone   = "if it was the only host of its cluster, set RINGLET_BOOTSTRAP=1, so that it founds the cluster again; else set RINGLET_JOIN to another host of the cluster"
	adviceHesitat = "check that the engine answers docker network ls, and see the plugin's log; with RINGLET_BOOTSTRAP=1 it founds a cluster without the list"
	adviceRenamed = "bring that host back; if it is gone for good, for example because this one was reinstalled under another name, stop those containers, then evict and forget it with ringlet evict and ringlet forget"
	adviceZones   = "run ringlet on more hosts in the other zones, or set another RINGLET_ZONE on those hosts of this zone that do not fail together with the rest"
	adviceDevices = "exclude those addresses with ringlet exclude add, or give the devices other addresses and free these with ringlet release; ringlet tries each again after an hour"
)

// nextSteps has every advice of the golden problems.txt that a test can follow.
func nextSteps() []nextStep {
	return []nextStep{
		{"forming", "start ringlet on the other hosts, with the same RINGLET_JOIN and RINGLET_BOOTSTRAP", "ringlet serve on the other hosts", forming},
		{"formation-mismatch", "set the same RINGLET_JOIN and RINGLET_BOOTSTRAP on all hosts that found the cluster", "RINGLET_JOIN on HOST as here", mismatched},
		{"joining", "check that ringlet runs on the hosts in RINGLET_JOIN; the first host of all has RINGLET_JOIN empty, or all hosts have the same list with themselves in it", "ringlet serve on the hosts in RINGLET_JOIN", joining},
		{"joining", "list the other hosts in RINGLET_JOIN, too; on the first host of all leave it empty", "RINGLET_JOIN=HOST", joiningItself},
		{"joining", adviceAlone, "RINGLET_BOOTSTRAP=1", lostAlone(true)},
		{"joining", adviceAlone, "RINGLET_JOIN=HOST", lostAlone(false)},
		{"joining", adviceHesitat, "docker network ls, after the engine was started", hesitates(false)},
		{"joining", adviceHesitat, "RINGLET_BOOTSTRAP=1", hesitates(true)},
		{"joining", "wait a minute", "sleep 60", foundsSoon},
		{"database-lost", adviceFound, "RINGLET_JOIN=HOST", databaseLost(false)},
		{"database-lost", adviceFound, "RINGLET_BOOTSTRAP=1", databaseLost(true)},
		{"peer-unreachable", adviceAway, "ringlet serve on HOST", oneAway(func(c *lockstep) { c.heal() })},
		{"peer-unreachable", adviceAway, "ringlet evict HOST; ringlet forget HOST", oneAway(func(c *lockstep) { c.giveUp(0, 2) })},
		{"zone-majority", adviceZones, "RINGLET_ZONE=rack-4 ringlet serve on HOST", ruled("rack-1", anotherZone)},
		{"zone-majority", adviceZones, "ringlet serve on another host", ruled("rack-1", moreHosts)},
		{"zone-majority", "set RINGLET_ZONE on the hosts for which ringlet peers shows no zone", "RINGLET_ZONE=rack-4 ringlet serve on HOST", ruled("", anotherZone)},
		{"quarantine", adviceKept, "ringlet serve on HOST", evicted(func(c *lockstep) { c.heal() })},
		{"quarantine", adviceKept, "ringlet forget HOST", evicted(func(c *lockstep) { c.mustAsk(0, &ipam.ForgetRequest{Peer: "host-2"}) })},
		{"cut-off", adviceCutOff, "ringlet serve on the other hosts", cutOff(func(c *lockstep) { c.heal() })},
		{"cut-off", adviceCutOff, "ringlet recover --i-know-the-others-are-gone", cutOff(func(c *lockstep) { c.mustAsk(0, &ipam.RecoverRequest{}) })},
		{"joining", "check that a majority of the other hosts runs and is reachable", "ringlet serve on the other hosts", waitsForAdmission},
		{"suspended", adviceRejoin, "ringlet rejoin", forgotten(2)},
		{"given-up-host", "run ringlet rejoin on that host: it starts over as a new peer, and its containers run on", "ringlet rejoin on HOST", forgotten(0)},
		{"left", "remove the plugin, or only its data to join again", "rm DATA/ringlet.db; ringlet serve with RINGLET_JOIN=HOST", hasLeft},
		{"checking", "if this lasts, start or reconnect the other hosts", "ringlet serve on the other hosts", bootedAlone(0)},
		{"booted-alone", "start or reconnect the other hosts", "ringlet serve on the other hosts", bootedAlone(time.Minute)},
		{"no-agreement", "check whether the network between the hosts loses packets, and whether TCP and UDP port 7950 are open both ways", "port 7950 opened", losesPackets},
		{"foreign-cluster", "decide which cluster stays; on each host of the other one, remove the plugin's data and set RINGLET_JOIN, or set another RINGLET_CLUSTER", "rm DATA/ringlet.db; ringlet serve with RINGLET_JOIN=HOST", foreignCluster},
		{"suspended", "disable the plugin here; on another host of the cluster run ringlet recover --i-know-the-others-are-gone, because the cluster decides nothing without this host; then enable the plugin here, and run ringlet rejoin", "the plugin disabled; ringlet recover on HOST; the plugin enabled; ringlet rejoin", oldFirst},
		{"suspended", "on the host whose database is the copy, run ringlet rejoin; then start the plugin on the other one again", "ringlet rejoin on the copy; docker plugin enable here", copied},
		{"outdated", "upgrade ringlet on this host", "docker plugin upgrade", outdated},
		{"older-release", "upgrade ringlet on those hosts", "docker plugin upgrade on HOST", olderRelease},
		{"inventory-awaited", adviceRenamed, "ringlet serve on HOST", reinstalledElsewhere(false)},
		{"inventory-awaited", adviceRenamed, "docker rm -f; ringlet evict HOST; ringlet forget HOST", reinstalledElsewhere(true)},
		{"inventory-awaited", "wait half a minute; if it stays, check that a majority of the other hosts runs and is reachable", "sleep 30", takesOver},
		{"inventory-awaited", "wait a moment; if it stays, check that the engine answers docker network ls, and see the plugin's log", "docker network ls, after the engine was started", awaitsList},
		{"short-of-space", "remove containers, or move to a larger network", "docker rm -f of two containers", shortOfSpace},
		{"pool-full", "remove containers, or move to a larger network", "docker rm -f", fullPool},
		{"stranger", adviceDevices, "ringlet exclude add", strangers(func(h *machinetest.Host, a netip.Addr) ipam.Request {
			return exclude(a.String(), a.String())
		})},
		{"stranger", adviceDevices, "ringlet release", strangers(func(_ *machinetest.Host, a netip.Addr) ipam.Request { return &ipam.FreeRequest{Address: a} })},
		{"conflict", "stop that container, or run ringlet free --for printer-3 10.50.0.9", "docker rm -f", usedTwice(false)},
		{"conflict", "stop that container, or run ringlet free --for printer-3 10.50.0.9", "ringlet free --for printer-3 10.50.0.9", usedTwice(true)},
		{"others-unlisted", "wait two minutes at most, and see ringlet status on those hosts: each must be in this cluster, and reach its engine", "the engine of HOST started", othersUnlisted},
	}
}

// unfollowed are the advices after which nobody can see a problem end: they ask for a report.
var unfollowed = []string{
	"keep both databases, and report it",
	"keep the database, and report the output of ringlet check",
}

// Whoever does what the status says sees the problem end. Each advice that the status has is followed.
func TestNextSteps(t *testing.T) {
	anyHost := regexp.MustCompile(`host-\d`)
	tried := map[string]bool{}
	steps := nextSteps()
	for _, c := range clashes() {
		for way, ran := range c.ran {
			steps = append(steps, nextStep{"conflict", c.advice, ran, func(t *testing.T) (func() ipam.Status, func()) {
				t.Helper()
				return c.scene(t, way)
			}})
		}
	}
	for _, step := range steps {
		tried[step.code+": "+step.advice] = true
		t.Run(step.code+"/"+step.ran, func(t *testing.T) {
			status, follow := step.scene(t)
			advice := ""
			for _, p := range status().Problems {
				if next := anyHost.ReplaceAllString(p.Next, "HOST"); p.Code == step.code && next == step.advice {
					advice = next
				}
			}
			if advice == "" {
				t.Fatalf("the status does not advise that: %+v", status().Problems)
			}
			follow()
			for _, p := range status().Problems {
				if p.Code == step.code {
					t.Errorf("the problem stays: %+v", p)
				}
			}
		})
	}
	text, err := os.ReadFile("testdata/problems.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^  (?:degraded|failed), ([a-z-]+): .*\n    next: (.*)$`).FindAllStringSubmatch(string(text), -1) {
		next := anyHost.ReplaceAllString(m[2], "HOST")
		if !tried[m[1]+": "+next] && !strings.Contains(strings.Join(unfollowed, "\n"), next) {
			t.Errorf("nobody follows the advice of %s: %q", m[1], next)
		}
	}
}

// mustAsk has a peer serve a request, which has to be granted.
func (c *lockstep) mustAsk(i int, r ipam.Request) {
	c.t.Helper()
	if err := c.ask(i, r).Err; err != nil {
		c.t.Fatal(err)
	}
}

// at returns the status of a peer, for [nextStep].
func (c *lockstep) at(i int) func() ipam.Status { return func() ipam.Status { return c.status(i) } }

// then does something, and lets a minute pass.
func (c *lockstep) then(do func(c *lockstep)) func() {
	return func() {
		c.t.Helper()
		do(c)
		if len(c.peers) == 1 { // it has nothing to wait for
			c.now = c.now.Add(time.Minute)
			c.step(0, ipam.Tick{})
			return
		}
		c.wait(time.Minute)
	}
}

func forming(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c := newLockstep(t, 3)
	c.silence(1, 2)
	c.queue = nil
	for _, i := range []int{1, 2} {
		c.step(0, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	c.wait(10 * time.Second)
	return c.at(0), c.then((*lockstep).heal)
}

func mismatched(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c := newLockstep(t, 3)
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation.Size, cfg.Formation.List = 5, 2 })
	c.silence(1)
	c.queue = nil
	for _, i := range []int{0, 2} {
		c.step(i, &ipam.Presence{Peer: c.peers[1].machine.Self()})
	}
	c.wait(10 * time.Second)
	return c.at(0), c.then(func(c *lockstep) {
		c.peers[2].cfg.Formation.Size, c.peers[2].cfg.Formation.List = 3, 1
		c.start(2)
		c.heal()
	})
}

// alone3 is a cluster of three whose third host has lost its data, and hears nobody.
func alone3(t *testing.T) *lockstep {
	t.Helper()
	c, _ := lab(t)
	c.silence(0, 1)
	c.queue = nil
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	return c
}

func joining(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c := alone3(t)
	return c.at(2), c.then((*lockstep).heal)
}

func joiningItself(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c := alone3(t)
	c.step(2, &ipam.Presence{Self: true, Seat: 1})
	return c.at(2), c.then(func(c *lockstep) {
		c.start(2)
		c.heal()
	})
}

// lostAlone is a host whose database was lost, and whose settings name no other host.
func lostAlone(bootstrap bool) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c := alone3(t)
		c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation, cfg.Join = ipam.Formation{NamesNobody: true}, true })
		return c.at(2), c.then(func(c *lockstep) {
			cfg := &c.peers[2].cfg
			cfg.Formation, cfg.FoundAlone, cfg.Join = ipam.Formation{}, bootstrap, !bootstrap
			c.start(2)
			if !bootstrap {
				c.heal()
			}
		})
	}
}

// hesitates is a first host whose engine has not listed its networks.
func hesitates(bootstrap bool) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c := newLockstepWith(t, 1, func(c *lockstep) {
			cfg := &c.peers[0].cfg
			cfg.Hesitate, cfg.AwaitInventory, cfg.Join, cfg.Formation = true, true, false, ipam.Formation{}
		})
		return c.at(0), c.then(func(c *lockstep) {
			if bootstrap {
				c.peers[0].cfg.FoundAlone = true
				c.start(0)
				return
			}
			c.call(0, &ipam.Inventory{})
		})
	}
}

func foundsSoon(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	l := newLost(t)
	return l.at(0), l.then(func(*lockstep) {})
}

// databaseLost is a host that has lost its database, and has networks.
func databaseLost(bootstrap bool) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c := alone3(t)
		c.reinstall(2, func(cfg *ipam.Config) {
			cfg.Hesitate, cfg.AwaitInventory, cfg.Join = true, true, false
		})
		c.call(2, lan("10.50.0.0/24"))
		return c.at(2), c.then(func(c *lockstep) {
			if bootstrap {
				c.peers[2].cfg.FoundAlone = true
				c.start(2)
				c.wait(time.Minute)
			} else {
				c.peers[2].cfg.Join = true
				c.start(2)
				c.heal()
			}
			for range 3 {
				c.call(2, lan("10.50.0.0/24"))
				c.wait(12 * time.Second)
			}
		})
	}
}

func oneAway(do func(*lockstep)) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c, _ := lab(t)
		c.die(2)
		return c.at(0), c.then(do)
	}
}

func evicted(do func(*lockstep)) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c, _ := lab(t)
		c.die(2)
		c.mustAsk(0, &ipam.EvictRequest{Peer: "host-2"})
		return c.at(0), c.then(do)
	}
}

func cutOff(do func(*lockstep)) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c, _ := lab(t)
		c.die(1, 2)
		c.wait(time.Minute)
		return c.at(0), c.then(do)
	}
}

func waitsForAdmission(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, _ := lab(t)
	order := c.order()
	c.die(order[2])
	c.mustAsk(order[1], &ipam.EvictRequest{Peer: c.name(order[2])})
	c.heal()
	c.die(order[0])
	c.ask(order[2], &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")})
	return c.at(order[2]), c.then((*lockstep).heal)
}

// forgotten is a cluster whose last host was forgotten, and is back; the advice is that of a peer.
func forgotten(at int) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c, cidr := lab(t)
		c.ask(2, docker(cidr))
		c.die(2)
		c.giveUp(0, 2)
		c.learnsLoss(0)
		c.wait(time.Second)
		return c.at(at), c.then(func(c *lockstep) {
			old := c.peers[2].machine.Self()
			c.rejoin(2)
			for i := range c.peers {
				c.step(i, &ipam.Presence{Peer: old})
			}
		})
	}
}

func hasLeft(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, cidr := lab(t)
	c.vacate(1, cidr)
	c.call(1, &ipam.LeaveRequest{})
	c.run(20*time.Minute, func() bool { return c.status(1).State == ipam.Left })
	return c.at(1), c.then(func(c *lockstep) {
		c.reinstall(1, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
		c.heal()
	})
}

// bootedAlone is a host that was started while the others were off, after that time.
func bootedAlone(after time.Duration) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c, _ := lab(t)
		c.die(1, 2)
		c.peers[0].cfg.HostBoot.ID, c.peers[0].cfg.BootAlone = "another", true
		c.start(0)
		for _, i := range []int{1, 2} {
			c.step(0, &ipam.Presence{Peer: c.peers[i].machine.Self()})
		}
		if after > 0 {
			c.wait(after)
		}
		return c.at(0), c.then((*lockstep).heal)
	}
}

func losesPackets(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, _ := lab(t)
	c.silence(1, 2)
	c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")})
	return c.at(0), c.then((*lockstep).heal)
}

// foreignCluster is a host that was installed again, and founded a cluster of its own with the same key.
func foreignCluster(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, _ := lab(t)
	c.silence(2)
	c.queue = nil
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation, cfg.Join, cfg.FoundAlone = ipam.Formation{}, false, true })
	c.wait(time.Minute)
	c.heal()
	c.say(0, 2, wire.Beat{}, func(*wire.Header) {})
	return c.at(0), c.then(func(c *lockstep) {
		c.reinstall(2, func(cfg *ipam.Config) { cfg.Join, cfg.FoundAlone = true, false })
		c.heal()
		c.wait(5 * time.Minute)
	})
}

func oldFirst(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c := newLockstep(t, 2)
	c.run(time.Minute, c.agreed)
	first, other := c.order()[0], c.order()[1]
	c.hearsOfItself(first)
	c.forked = true // the first one has made something of a slot that the other has not
	return c.at(first), c.then(func(c *lockstep) {
		c.die(first)
		c.mustAsk(other, &ipam.RecoverRequest{})
		c.dead = nil
		c.start(first)
		c.rejoin(first)
	})
}

func copied(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, _ := lab(t)
	c.say(0, 0, wire.Beat{}, func(h *wire.Header) { h.Boot++ })
	return c.at(0), c.then(func(c *lockstep) { // the copy is a new peer from now on, and says no more
		c.start(0)
		c.heal()
	})
}

func outdated(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, old, _, _ := behind(t)
	return c.at(old), c.then(func(c *lockstep) { c.upgrade(old, newer) })
}

func olderRelease(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, _ := lab(t)
	for i := range c.peers {
		c.upgrade(i, newer)
	}
	c.run(time.Minute, func() bool { return c.level() == newer })
	c.upgrade(1, newer-1)
	c.wait(10 * time.Second)
	return c.at(0), c.then(func(c *lockstep) { c.upgrade(1, newer) })
}

// reinstalledElsewhere is a host that was installed again under another name, above containers of the former one.
func reinstalledElsewhere(gone bool) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		c, look := renamed(t)
		look(3)
		return c.at(2), c.then(func(c *lockstep) {
			if gone {
				c.call(2, lan("10.50.0.0/24"))
				c.wait(time.Minute)
				c.mustAsk(0, &ipam.EvictRequest{Peer: "host-2"})
				c.mustAsk(0, &ipam.ForgetRequest{Peer: "host-2"})
				for range 3 {
					c.call(2, lan("10.50.0.0/24"))
					c.wait(30 * time.Second)
				}
				return
			}
			c.peers = append(c.peers, c.former)
			c.byID[c.former.machine.Self()] = 3
			c.heal()
			look(3)
		})
	}
}

func takesOver(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c, kept, _, list, inherited := rebuilt(t, "web")
	c.run(time.Minute, func() bool { return c.status(2).State == ipam.Ready })
	c.call(2, list(listed(kept.String(), "web", 9)))
	return c.at(2), c.then(func(c *lockstep) {
		c.run(time.Minute, inherited)
		for range 3 {
			c.call(2, list(listed(kept.String(), "web", 9)))
			c.wait(time.Second)
		}
	})
}

func othersUnlisted(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	l := newBegun(t)
	return l.at(0), l.then(func(*lockstep) {
		for _, i := range []int{2, 0, 1, 2, 0} {
			l.list(i)
		}
	})
}

func shortOfSpace(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	c := newLockstep(t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/28")
	for i := range c.peers {
		c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
	}
	for range 5 {
		c.ask(1, docker(cidr))
	}
	var last netip.Addr
	for s := c.status(0); s.Pools[1].Mine > 0 || s.Pools[1].Free > 0; s = c.status(0) {
		r := c.ask(0, docker(cidr))
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		last = r.Address.Address.Addr()
	}
	return c.at(0), c.then(func(c *lockstep) { c.ask(0, &ipam.AddressRelease{Network: local(cidr), Address: last}) })
}

// host is a single one, for [nextStep].
func host(h *machinetest.Host, follow func()) (func() ipam.Status, func()) {
	return func() ipam.Status { return h.Machine().Status(h.Now) }, follow
}

func awaitsList(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	n := network(t, h, "10.50.0.0/24")
	return host(h, func() { h.Call(inventory(h, n)) })
}

func fullPool(t *testing.T) (func() ipam.Status, func()) {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{})
	n := network(t, h, "10.61.0.0/30")
	run(t, h, n, "a")
	last := run(t, h, n, "b")
	return host(h, func() { release(h, n, last) })
}

// strangers is a host with another device on its network, of whose address an operator asks for something.
func strangers(ask func(*machinetest.Host, netip.Addr) ipam.Request) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		h := machinetest.NewHost(t, ipam.Config{})
		g := h.Call(&ipam.AddressRequest{Network: network(t, h, "10.62.0.0/24"), Purpose: ipam.ForContainer}).Address
		h.Call(&ipam.Stranger{Ticket: g.Ticket, MAC: ipam.MAC{0x0a, 0, 0, 0, 0, 1}})
		return host(h, func() {
			if err := h.Call(ask(h, g.Address.Addr())).Err; err != nil {
				t.Fatal(err)
			}
		})
	}
}

// usedTwice is a container that has the address of a holder outside Docker.
func usedTwice(free bool) func(*testing.T) (func() ipam.Status, func()) {
	return func(t *testing.T) (func() ipam.Status, func()) {
		t.Helper()
		h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
		n := network(t, h, "10.50.0.0/24")
		h.Call(inventory(h, n))
		h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/24", ID: "printer-3", Address: address("10.50.0.9")})
		h.Now = h.Now.Add(time.Minute)
		web := ipam.InventoryEndpoint{Address: address("10.50.0.9"), Container: "4f3a", Name: "web"}
		h.Call(inventory(h, n, web))
		return host(h, func() {
			if free {
				if err := h.Call(&ipam.FreeRequest{ID: "printer-3", Address: web.Address}).Err; err != nil {
					t.Fatal(err)
				}
				h.Call(inventory(h, n, web))
				return
			}
			h.Call(inventory(h, n))
		})
	}
}
