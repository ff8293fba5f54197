package ipam_test

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Every problem that the status can have, with the state of its peer and the
// next step.
func TestProblems(t *testing.T) {
	s := &transcript{t: t}
	seen := map[string]bool{}
	show := func(when string, st ipam.Status) {
		fmt.Fprintf(&s.b, "%s: %s, %s\n", when, st.State, st.Verdict)
		for _, p := range st.Problems {
			fmt.Fprintf(&s.b, "  %s, %s: %s\n    next: %s\n", p.Level, p.Code, p.Text, p.Next)
			s.look(when, p.Text)
			s.look(when, p.Next)
			seen[p.Code] = true
		}
		fmt.Fprintln(&s.b)
		if len(st.Problems) == 0 {
			t.Errorf("%s: there is no problem", when)
		}
	}
	for _, scene := range []func(*testing.T, func(string, ipam.Status)){
		showFormation, showMembers, showStarted, showMet, showStopped, showReleases, showSuccessor, showSpace, showEngine,
	} {
		scene(t, show)
	}
	golden.Check(t, "problems.txt", []byte(s.b.String()))

	text, err := os.ReadFile("report/problem.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := regexp.MustCompile(`(?:Failed|Degraded), "([a-z-]+)"`).FindAllStringSubmatch(string(text), -1)
	for _, m := range codes {
		if !seen[m[1]] {
			t.Errorf("the problem %s is not shown", m[1])
		}
	}
	if len(codes) < 25 {
		t.Errorf("only %d rows of problems were read", len(codes))
	}
	if len(seen) < 18 {
		t.Errorf("only %d problems were shown", len(seen))
	}
}

func (c *lockstep) status(i int) ipam.Status { return c.peers[i].machine.Status(c.now) }

// say has a peer hear what another would send: the header is the other's but
// for what change does.
func (c *lockstep) say(to, from int, body wire.Body, change func(*wire.Header)) {
	id, state := c.peers[from].machine.Identity(), c.peers[from].machine.State()
	h := wire.Header{
		Cluster: state.Cluster, From: id.ID, To: c.peers[to].machine.Self(), Boot: id.Boot, Nonce: id.Nonce,
		Slot: state.Slot, Digest: state.Digest(),
	}
	change(&h)
	c.step(to, &ipam.Message{Frame: &wire.Frame{Header: h, Body: body}, Seat: from + 1})
}

func showFormation(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	c := newLockstep(t, 3)
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation.Size, cfg.Formation.List = 5, 2 })
	c.silence(1)
	c.queue = nil
	for _, i := range []int{0, 2} {
		c.step(i, &ipam.Presence{Peer: c.peers[1].machine.Self()})
	}
	c.wait(10 * time.Second)
	show("three hosts found a cluster, one is missing and one has another list", c.status(0))

	d := newLockstep(t, 2)
	d.silence(0)
	d.reinstall(1, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	show("no host in RINGLET_JOIN answers", d.status(1))
	d.step(1, &ipam.Presence{Self: true, Seat: 1})
	show("RINGLET_JOIN lists nobody else", d.status(1))
	d.reinstall(1, func(cfg *ipam.Config) { cfg.Formation, cfg.Join = ipam.Formation{NamesNobody: true}, true })
	show("a database was lost, and RINGLET_JOIN is empty", d.status(1))

	h := machinetest.NewHost(t, ipam.Config{Hesitate: true, AwaitInventory: true})
	show("a first host, new, before its engine has listed anything", h.Machine().Status(h.Now))
	h.Call(lan("10.50.0.0/24"))
	show("its engine has a network", h.Machine().Status(h.Now))
}

func showSuccessor(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	c, look := renamed(t)
	look(3)
	show("installed anew under another name, above containers that run", c.status(2))

	d, kept, _, list, inherited := rebuilt(t, "web")
	d.run(time.Minute, func() bool { return d.status(2).State == ipam.Ready })
	d.call(2, list(listed(kept.String(), "web", 9)))
	if inherited() {
		t.Fatal("it has taken over already")
	}
	show("installed anew with its name, in its first seconds", d.status(2))
}

// renamed is a cluster whose third host was installed anew under another name. Look has
// its engine list a container that has had its address since before.
func renamed(t *testing.T) (c *lockstep, look func(times int)) {
	t.Helper()
	c = newAwaiting(t)
	c.found()
	cidr := prefix("10.50.0.0/24")
	for range 3 {
		for i := range c.peers {
			c.call(i, lan(cidr.String()))
		}
		c.wait(2 * time.Second)
	}
	held := c.ask(2, docker(cidr)).Address.Address.Addr()
	old := c.peers[2].machine.Self()
	former := *c.peers[2]
	c.former = &former
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation, cfg.Name = ipam.Formation{}, "renamed" })
	for _, i := range []int{0, 1} {
		c.step(i, &ipam.Presence{Peer: old})
	}
	c.run(time.Minute, func() bool { return len(c.peers[2].machine.State().Roster) == 4 })
	return c, func(times int) {
		for range times {
			inv := lan(cidr.String())
			inv.Networks[0].Endpoints = []ipam.InventoryEndpoint{{Address: held, Container: "c1", Name: "web"}}
			c.call(2, inv)
			c.wait(12 * time.Second)
		}
	}
}

func showReleases(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	c, old, _, _ := behind(t)
	show("its cluster was upgraded while it was away", c.status(old))
	c.reinstall(old, func(cfg *ipam.Config) { cfg.Formation, cfg.Join = ipam.Formation{}, true })
	c.heal()
	c.wait(10 * time.Second)
	show("a new host with an older release", c.status(old))

	d, _ := lab(t)
	for i := range d.peers {
		d.upgrade(i, newer)
	}
	d.run(time.Minute, func() bool { return d.level() == newer })
	d.say(0, 1, wire.Hello{Name: "host-1", Spoken: chronicle.Spoken}, func(*wire.Header) {})
	show("a host has gone back to an older release", d.status(0))
}

func showMembers(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	c, _ := lab(t)
	c.die(2)
	show("one host of three is gone", c.status(0))
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	show("it was evicted", c.status(0))

	d, _ := lab(t)
	order := d.order()
	a, b := order[1], order[2]
	d.die(b)
	if err := d.ask(a, &ipam.EvictRequest{Peer: d.name(b)}).Err; err != nil {
		t.Fatal(err)
	}
	d.heal()
	d.die(order[0])
	d.ask(b, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")})
	show("two of three are gone, or were evicted", d.status(a))
	show("that one is back", d.status(b))

	g, labs := lab(t)
	g.ask(2, docker(labs))
	g.die(2)
	g.giveUp(0, 2)
	g.learnsLoss(0)
	g.wait(time.Second)
	show("a host that was forgotten is back", g.status(2))
	show("another host of its cluster", g.status(0))

	zones, _ := ruled("rack-1", anotherZone)(t)
	show("three of five hosts are in one of three zones", zones())
	zones, _ = ruled("", anotherZone)(t)
	show("three of five hosts have named no zone", zones())

	two := newLockstep(t, 2)
	two.run(time.Minute, func() bool { return two.agreed() && two.peers[0].machine.State().Slot > 0 })
	first := two.order()[0]
	two.die(1 - first)
	show("the second of two hosts is gone", two.status(first))
	two = newLockstep(t, 2)
	two.run(time.Minute, func() bool { return two.agreed() && two.peers[0].machine.State().Slot > 0 })
	two.die(first)
	show("the first of two hosts is gone", two.status(1-first))

	e, cidr := lab(t)
	e.vacate(1, cidr)
	e.call(1, &ipam.LeaveRequest{})
	e.run(20*time.Minute, func() bool { return e.status(1).State == ipam.Left })
	show("a host has left", e.status(1))
}

func showStarted(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	c, _ := lab(t)
	c.die(1, 2)
	c.peers[0].cfg.HostBoot.ID, c.peers[0].cfg.BootAlone = "another", true
	c.start(0)
	for _, i := range []int{1, 2} {
		c.step(0, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	show("a host was started, and has asked nobody yet", c.status(0))
	c.wait(time.Minute)
	show("nobody has answered", c.status(0))

	d, _ := lab(t)
	d.silence(1, 2)
	d.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")})
	show("packets are lost between hosts that believe each other to be there", d.status(0))
}

// showMet is what a peer makes of others that are not as they should be.
func showMet(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	c, _ := lab(t)
	c.say(0, 1, wire.Beat{}, func(*wire.Header) {})
	c.say(0, 2, wire.Beat{}, func(h *wire.Header) { h.Digest++ })
	show("another host's state differs", c.status(0))
	d, _ := lab(t)
	d.say(0, 2, wire.Beat{}, func(h *wire.Header) { h.Cluster, h.From = [16]byte{0xab, 0xcd}, peer.ID{9} })
	show("a host of another cluster is there", d.status(0))

	e, _ := lab(t)
	e.say(0, 2, wire.Beat{}, func(h *wire.Header) { h.Cluster = [16]byte{0xab, 0xcd} })
	e.say(0, 2, wire.Beat{}, func(*wire.Header) {})
	if p := e.status(0).Problems; len(p) > 0 {
		t.Errorf("a host of this cluster sent something late from the one before: %v", p)
	}
}

// showStopped is what makes a peer hand out nothing.
func showStopped(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	c, _ := lab(t)
	old := maps.Clone(c.peers[2].disk)
	c.start(2)
	c.wait(5 * time.Second)
	c.peers[2].disk = old
	c.start(2)
	c.wait(5 * time.Second)
	show("an old database was put back", c.status(2))

	g, _ := lab(t)
	g.hearsOfItself(2)
	show("an old database of the last start was put back", g.status(2))
	two := newLockstep(t, 2)
	two.run(time.Minute, two.agreed)
	two.hearsOfItself(two.order()[0])
	show("the same on the first of two hosts", two.status(two.order()[0]))

	d, _ := lab(t)
	d.say(0, 0, wire.Beat{}, func(h *wire.Header) { h.Boot++ })
	show("another host has a copy of the database", d.status(0))
	e, _ := lab(t)
	for _, i := range []int{1, 2} {
		e.say(0, i, wire.Beat{}, func(h *wire.Header) { h.Digest++ })
	}
	show("the own state differs from that of others", e.status(0))
	f, _ := lab(t)
	f.say(0, 1, wire.Decided{First: f.status(0).Slot + 1, Values: [][]byte{{0xff}}}, func(*wire.Header) {})
	show("what was decided cannot be read", f.status(0))
}

func showSpace(t *testing.T, show func(string, ipam.Status)) {
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
	for s := c.status(0); s.Pools[1].Mine > 0 || s.Pools[1].Free > 0; s = c.status(0) {
		if err := c.ask(0, docker(cidr)).Err; err != nil {
			t.Fatal(err)
		}
	}
	show("what is left of a pool is with others", c.status(0))

	h := machinetest.NewHost(t, ipam.Config{})
	full := network(t, h, "10.61.0.0/30")
	run(t, h, full, "a")
	run(t, h, full, "b")
	wide := network(t, h, "10.62.0.0/24")
	for i := range 6 {
		g := h.Call(&ipam.AddressRequest{Network: wide, Purpose: ipam.ForContainer}).Address
		h.Call(&ipam.Stranger{Ticket: g.Ticket, MAC: ipam.MAC{0x0a, 0, 0, 0, 0, byte(i)}})
	}
	show("a pool is full, and in another there are strangers", h.Machine().Status(h.Now))

	six := machinetest.NewHost(t, ipam.Config{})
	large := network(t, six, "fd00:50::/64")
	run(t, six, large, "a") // it gets ::1
	run(t, six, large, "b")
	six.Call(exclude("fd00:50::3", "fd00:50::ffff:ffff:ffff:ffff"))
	show("all of an IPv6 pool but two addresses is excluded", six.Machine().Status(six.Now))

	tiny := machinetest.NewHost(t, ipam.Config{})
	run(t, tiny, network(t, tiny, "10.63.0.0/32"), "a")
	pair := network(t, tiny, "10.63.0.2/31")
	run(t, tiny, pair, "b")
	run(t, tiny, pair, "c")
	run(t, tiny, network(t, tiny, "10.63.0.4/30"), "d")
	tiny.Call(exclude("10.63.0.6", "10.63.0.6"))
	if p := tiny.Machine().Status(tiny.Now).Problems; len(p) > 0 {
		t.Errorf("pools of one or two addresses, and one with a single one that is not reserved, are full on purpose: %+v", p)
	}
}

func showEngine(t *testing.T, show func(string, ipam.Status)) {
	t.Helper()
	h := machinetest.NewHost(t, ipam.Config{AwaitInventory: true})
	n := network(t, h, "10.50.0.0/24")
	show("a new database waits for the engine's list", h.Machine().Status(h.Now))
	h.Call(inventory(h, n))
	h.Call(&ipam.ClientRequest{Pool: "10.50.0.0/24", ID: "printer-3", Address: address("10.50.0.9")})
	h.Now = h.Now.Add(time.Minute)
	h.Call(inventory(h, n, ipam.InventoryEndpoint{Address: address("10.50.0.9"), Container: "4f3a", Name: "web"}))
	show("a container has what somebody else holds", h.Machine().Status(h.Now))

	for _, c := range clashes() {
		status, _ := c.scene(t, 0)
		show("a container has "+c.what, status())
	}

	l := newLost(t)
	show("all databases were lost, and the cluster begins again here, in a moment", l.status(0))
	l = newBegun(t)
	show("all databases were lost, and one engine has not answered yet", l.status(0))
}

// Each state in which a peer can have a problem is shown with one.
func TestEveryStateIsShown(t *testing.T) {
	shown := slices.Collect(func(yield func(string) bool) {
		text, err := os.ReadFile("testdata/problems.txt")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\S.*: ([a-z-]+), [a-z]+$`).FindAllStringSubmatch(string(text), -1) {
			if !yield(m[1]) {
				return
			}
		}
	})
	for _, state := range []ipam.State{ipam.Alone, ipam.Forming, ipam.Joining, ipam.Checking, ipam.Ready, ipam.CutOff, ipam.Left, ipam.Suspended} {
		if !slices.Contains(shown, string(state)) {
			t.Errorf("no problem is shown in the state %s", state)
		}
	}
}
