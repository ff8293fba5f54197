package ipam_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/golden"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// Every sentence about other hosts that people can read in their terminal,
// with what they did to get it.
func TestClusterSentences(t *testing.T) {
	s := &transcript{t: t}
	for _, scene := range []func(*transcript){
		sayAlone, sayFounding, sayJoining, sayTogether, sayFull, saySilent, sayLost, sayEvicted, sayReturned, sayMajorityLost, sayReinstalled, sayOrphaned, sayStarted, sayLeaving, saySuspended, sayOutdated,
	} {
		scene(s)
	}
	golden.Check(t, "sentences-cluster.txt", []byte(s.b.String()))
}

// Every sentence of the files that are about other hosts is in one of the
// goldens.
func TestNoSentenceIsForgotten(t *testing.T) {
	var shown strings.Builder
	for _, name := range []string{"sentences.txt", "sentences-cluster.txt"} {
		text, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		shown.Write(text)
	}
	// What is refused while a decision is on its way, which no test can time, and what only a defect brings about.
	seldom := []string{
		"%s cannot leave its cluster: %s", "the state of %s cannot be used: %v", "pool %s cannot be removed: %s",
		"ringlet on %s has stopped handing out addresses, because its own records contradict each other (%v): see ringlet status",
	}
	n := 0
	for _, name := range []string{"sentence.go", "members.go", "operator.go", "membership/depart.go", "membership/standing.go", "sentence/address.go", "sentence/pool.go", "sentence/host.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(node ast.Node) bool {
			call, ok := node.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			name := ""
			switch f := call.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			at, refuses := map[string]int{"failf": 1, "Errorf": 1, "passing": 0}[name]
			if !refuses {
				return true
			}
			lit, ok := call.Args[at].(*ast.BasicLit)
			if !ok {
				return true
			}
			format, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			n++
			pattern := regexp.MustCompile(`%[a-z]`).ReplaceAllString(regexp.QuoteMeta(format), ".+")
			if format != "%v" && !slices.Contains(seldom, format) && !regexp.MustCompile(": "+pattern+"(; your request is done .*)?\n").MatchString(shown.String()) {
				t.Errorf("%s: %q is in no golden", name, format)
			}
			return true
		})
	}
	if n < 40 {
		t.Errorf("only %d sentences were looked at", n)
	}
}

// order returns the peers of a cluster in the order of its roster: the first
// is the one with two votes where their number is even.
func (c *lockstep) order() []int {
	var out []int
	for _, member := range c.peers[0].machine.State().Roster {
		out = append(out, c.byID[member.ID])
	}
	return out
}

func (c *lockstep) name(i int) string { return string(c.peers[i].cfg.Name) }

// silence takes peers off without anybody noticing that they are gone.
func (c *lockstep) silence(dead ...int) {
	c.dead = map[int]bool{}
	for _, i := range dead {
		c.dead[i] = true
	}
}

// reinstall makes a peer anew without its disk.
func (c *lockstep) reinstall(i int, change func(*ipam.Config)) {
	change(&c.peers[i].cfg)
	c.peers[i].disk, c.peers[i].machine = machinetest.Disk{}, nil
	c.start(i)
	for j := range c.peers {
		if j != i {
			c.step(j, &ipam.Presence{Peer: c.peers[i].machine.Self(), Alive: !c.dead[j] && !c.dead[i], Name: c.peers[i].cfg.Name})
		}
	}
}

// rebuild has a peer lose its database and join the others anew, who hear of its former
// self, which it returns, that it is gone.
func (c *lockstep) rebuild(i int) peer.ID {
	before := c.peers[i].machine.Self()
	c.reinstall(i, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	for j := range c.peers {
		c.step(j, &ipam.Presence{Peer: before})
	}
	return before
}

// wait lets time pass.
func (c *lockstep) wait(d time.Duration) {
	end := c.now.Add(d)
	c.run(d+time.Minute, func() bool { return !c.now.Before(end) })
}

// full has a peer run containers until it is refused.
func (c *lockstep) full(i int, cidr netip.Prefix) error {
	for range 256 {
		if r := c.ask(i, docker(cidr)); r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// docker is what a docker run without a name asks for.
func docker(cidr netip.Prefix) *ipam.AddressRequest {
	return &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer}
}

// ip is the docker run --ip of an address.
func (c *lockstep) ip(i int, cidr netip.Prefix, a netip.Addr) error {
	return c.ask(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Address: a}).Err
}

// ipAs is ip for a container with a name and a MAC, as listed has it.
func (c *lockstep) ipAs(i int, cidr netip.Prefix, a netip.Addr, name string, mac byte) error {
	return c.ask(i, &ipam.AddressRequest{Network: local(cidr), Purpose: ipam.ForContainer, Name: name, Address: a, MAC: ipam.MAC{2, 0, 0, 0, 0, mac}}).Err
}

// stop removes the containers of a peer.
func (c *lockstep) stop(i int, cidr netip.Prefix) {
	c.t.Helper()
	list, err := c.peers[i].machine.Addresses(c.now, "")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, a := range list {
		c.ask(i, &ipam.AddressRelease{Network: local(cidr), Address: a.Address})
	}
}

// vacate removes the containers of a peer, and its network.
func (c *lockstep) vacate(i int, cidr netip.Prefix) {
	c.t.Helper()
	c.stop(i, cidr)
	c.ask(i, &ipam.PoolRelease{Network: local(cidr)})
}

// heldBy returns the lowest address that a peer holds.
func (c *lockstep) heldBy(i int) netip.Addr {
	c.t.Helper()
	list, err := c.peers[i].machine.Addresses(c.now, "")
	if err != nil {
		c.t.Fatal(err)
	}
	for _, a := range list {
		if a.State == "held" {
			return a.Address
		}
	}
	c.t.Fatalf("%s holds nothing", c.name(i))
	return netip.Addr{}
}

// sayOutdated is what a host says whose cluster was upgraded without it.
func sayOutdated(s *transcript) {
	c, old, _, cidr := behind(s.t)
	s.said("docker run, with an older release than the cluster uses", c.ask(old, docker(cidr)).Err)
}

func sayAlone(s *transcript) {
	h := machinetest.NewHost(s.t, ipam.Config{})
	s.said("ringlet drain, alone", h.Call(&ipam.DrainRequest{}).Err)
	s.said("ringlet leave, alone", h.Call(&ipam.LeaveRequest{}).Err)
	s.said("ringlet evict host-z", h.Call(&ipam.EvictRequest{Peer: "host-z"}).Err)
	s.said("ringlet evict host-a, on host-a", h.Call(&ipam.EvictRequest{Peer: "host-a"}).Err)
	s.said("ringlet forget host-z", h.Call(&ipam.ForgetRequest{Peer: "host-z"}).Err)
}

func sayFounding(s *transcript) {
	c := newLockstep(s.t, 3)
	c.die(1, 2)
	cidr := netip.MustParsePrefix("10.50.0.0/24")
	s.said("docker network create, while the others that found the cluster are missing", c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Err)
	s.said("ringlet recover, in no cluster", c.ask(0, &ipam.RecoverRequest{}).Err)
}

func sayJoining(s *transcript) {
	c := newLockstep(s.t, 2)
	c.silence(0, 1)
	c.reinstall(1, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	s.said("docker network create, while no host in RINGLET_JOIN answers", c.ask(1, &ipam.PoolRequest{Space: ipam.Local}).Err)
	c.reinstall(1, func(cfg *ipam.Config) { cfg.Formation, cfg.Join = ipam.Formation{NamesNobody: true}, true })
	s.said("docker network create, where a lone host has lost its database", c.ask(1, &ipam.PoolRequest{Space: ipam.Local}).Err)
}

// sayTogether is what three hosts say that reach one another.
func sayTogether(s *transcript) {
	c, cidr := lab(s.t)
	s.said("docker run --ip, held on another host", c.ip(0, cidr, c.heldBy(1)))
	s.said("ringlet pool rm, in use on this host", c.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}).Err)
	c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24"), Name: "lab"})
	c.ask(1, &ipam.ClientRequest{Pool: "lab", ID: "vm"})
	s.said("ringlet pool rm, in use on another host", c.ask(0, &ipam.PoolRemoval{Pool: "lab"}).Err)
	s.said("ringlet evict host-1, which is well", c.ask(0, &ipam.EvictRequest{Peer: "host-1"}).Err)
	s.said("ringlet forget host-1, which is well", c.ask(0, &ipam.ForgetRequest{Peer: "host-1"}).Err)
	s.said("ringlet recover, with all others well", c.ask(0, &ipam.RecoverRequest{}).Err)
	s.said("ringlet leave, with containers", c.ask(1, &ipam.LeaveRequest{}).Err)
	c.ask(1, &ipam.FreeRequest{ID: "vm"})
	c.stop(1, cidr)
	s.said("ringlet leave, with networks", c.ask(1, &ipam.LeaveRequest{}).Err)
	c.vacate(2, cidr)
	c.wait(time.Second)
	call := c.call(2, &ipam.LeaveRequest{})
	c.ask(2, &ipam.DrainRequest{Undo: true})
	c.wait(time.Minute)
	s.said("ringlet leave, undone while it waited", c.peers[2].replies[call].Err)
}

func sayFull(s *transcript) {
	c := newLockstep(s.t, 3)
	c.found()
	cidr := netip.MustParsePrefix("10.60.0.0/28")
	for i := range c.peers {
		c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr})
	}
	c.ask(1, docker(cidr))
	s.said("docker run, with nothing left on any host", c.full(0, cidr))
	other := prefix("10.61.0.0/28")
	for i := range c.peers {
		c.ask(i, &ipam.PoolRequest{Space: ipam.Local, Pool: other})
	}
	if err := c.ipAs(1, other, address("10.61.0.9"), "web", 9); err != nil {
		s.t.Fatal(err)
	}
	one := c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: other, Range: prefix("10.61.0.9/32")}).Pool.Network
	s.said("docker run, with the only address of the --ip-range in use on another host", c.ask(0, &ipam.AddressRequest{Network: one, Purpose: ipam.ForContainer, Name: "c"}).Err)
}

// saySilent is what is said while a host does not answer and nobody knows yet
// that it is gone.
func saySilent(s *transcript) {
	c, cidr := lab(s.t)
	held := c.heldBy(2)
	c.silence(2)
	s.said("docker run --ip, of a host that does not answer", c.ip(0, cidr, held))
	c.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.61.0.0/24"), Name: "lab"})
	s.said("ringlet pool rm, with a host that does not answer", c.ask(0, &ipam.PoolRemoval{Pool: "lab"}).Err)
	d, _ := lab(s.t)
	d.silence(1, 2)
	s.said("ringlet pool create, while the others do not answer", d.ask(0, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.62.0.0/24")}).Err)
}

// sayLost is what is said once hosts are known to be gone.
func sayLost(s *transcript) {
	c, cidr := lab(s.t)
	held := c.heldBy(2)
	c.die(2)
	s.said("docker run --ip, of a host that is gone", c.ip(0, cidr, held))
	c.full(1, cidr)
	s.said("docker run, with space left only on a host that is gone", c.full(0, cidr))
	c.silence(1, 2)
	s.said("ringlet evict, while nobody answers", c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err)
	s.said("ringlet drain, with too little free for what is in use here", c.ask(0, &ipam.DrainRequest{}).Err)
	s.said("ringlet drain --also, while nobody answers", c.ask(0, &ipam.DrainRequest{Also: true}).Err)
	d, _ := lab(s.t)
	order := d.order()
	d.ask(order[1], &ipam.DrainRequest{})
	s.said("ringlet drain, while another host drains", d.ask(order[2], &ipam.DrainRequest{}).Err)
	d.ask(order[1], &ipam.DrainRequest{Undo: true})
	d.die(order[1], order[2])
	s.said("ringlet drain, with containers, while no other host can be reached", d.ask(order[0], &ipam.DrainRequest{}).Err)
	s.said("docker run, cut off, with the own space used up", d.full(order[0], cidr))
}

// sayEvicted is what is said of a host that was evicted.
func sayEvicted(s *transcript) {
	c, cidr := lab(s.t)
	held := c.heldBy(2)
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		s.t.Fatal(err)
	}
	s.said("docker run --ip, of a host that was evicted", c.ip(0, cidr, held))
	c.ask(1, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.63.0.0/24"), Name: "lab"})
	c.lose = func(f flight) bool { _, is := f.frame.Body.(wire.Report); return is }
	s.said("ringlet forget host-2, with another host that does not answer", c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err)
	c.lose = func(flight) bool { return false }
	c.step(1, &ipam.Presence{Peer: c.peers[2].machine.Self(), Alive: true})
	s.said("ringlet forget host-2, from which host-1 hears", c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err)
	c.step(0, &ipam.Presence{Peer: c.peers[2].machine.Self(), Alive: true})
	s.said("ringlet forget host-2, from which this one hears", c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err)

	l := newAwaiting(s.t)
	l.run(time.Minute, l.agreed)
	l.die(2)
	l.ask(0, &ipam.EvictRequest{Peer: "host-2"})
	l.start(0)
	l.part(0, 2)
	s.said("ringlet forget host-2, before the engine has listed anything", l.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err)

	d, cidr := lab(s.t)
	d.die(2)
	if err := d.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		s.t.Fatal(err)
	}
	d.full(1, cidr)
	s.said("docker run, with nothing left but what a host has that was evicted", d.full(0, cidr))
	d.vacate(0, cidr)
	d.vacate(1, cidr)
	s.said("ringlet pool rm, with space of a host that was evicted", d.ask(0, &ipam.PoolRemoval{Pool: cidr.String()}).Err)
}

// sayReturned is what is said where a host is back under its name with a new
// database, and its former self is evicted.
func sayReturned(s *transcript) {
	c, cidr := lab(s.t)
	held := c.heldBy(2)
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		s.t.Fatal(err)
	}
	c.dead = nil
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	c.run(time.Minute, c.agreed)
	s.said("ringlet evict host-2, a name that another had before", c.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err)
	s.said("docker run --ip, of the former one", c.ip(0, cidr, held))
	c.die(2)
	if err := c.ask(0, &ipam.EvictRequest{Peer: c.peers[2].machine.Self().String()}).Err; err != nil {
		s.t.Fatal(err)
	}
	r, look := renamed(s.t)
	look(1)
	if err := r.ask(0, &ipam.EvictRequest{Peer: "host-2"}).Err; err != nil {
		s.t.Fatal(err)
	}
	look(1)
	for _, i := range []int{0, 2} {
		s.said("ringlet forget host-2, which is there again under another name, with containers, on "+r.name(i), r.ask(i, &ipam.ForgetRequest{Peer: "host-2"}).Err)
	}
	s.said("ringlet forget host-2, a name that two had", c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err)

	b, labs := lab(s.t)
	used := b.ask(2, docker(labs)).Address.Address.Addr()
	b.die(2)
	b.giveUp(0, 2)
	b.learnsLoss(0)
	b.wait(time.Second)
	s.said("docker run, on a host that was forgotten and is back", b.ask(2, docker(labs)).Err)
	s.said("docker run --ip, of what a container on such a host has, on another host", b.ip(0, labs, used))
	s.said("ringlet trust, on such a host", b.ask(2, &ipam.TrustRequest{}).Err)
	b.rejoin(2)
	b.run(time.Minute, b.agreed)
	s.said("docker run --ip of it there, after ringlet rejoin", b.ip(2, labs, used))
	b.wait(time.Minute)
	s.said("docker run --ip of it on another host, after ringlet rejoin", b.ip(0, labs, used))
	s.said("ringlet trust, there", b.ask(2, &ipam.TrustRequest{}).Err)
}

// sayMajorityLost is what is said without a majority.
func sayMajorityLost(s *transcript) {
	c := newLockstep(s.t, 5)
	c.found()
	order := c.order()
	a := order[1]
	c.die(order[0], order[3], order[4])
	s.said("ringlet pool create, without a majority", c.ask(a, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")}).Err)
	s.said("ringlet evict, with too many lost", c.ask(a, &ipam.EvictRequest{Peer: c.name(order[3])}).Err)
	s.said("ringlet recover, with another host left", c.ask(a, &ipam.RecoverRequest{}).Err)

	back := order[2]
	c.die(order[0], back, order[3], order[4])
	if r := c.ask(a, &ipam.RecoverRequest{}); r.Err != nil {
		s.t.Fatal(r.Err)
	}
	delete(c.dead, back)
	c.step(back, &ipam.Presence{Peer: c.peers[a].machine.Self(), Alive: true})
	c.say(back, a, wire.Beat{}, func(*wire.Header) {})
	s.said("ringlet recover, beside one that has recovered", c.ask(back, &ipam.RecoverRequest{}).Err)

	two := newLockstep(s.t, 2)
	two.run(time.Minute, two.agreed)
	order = two.order()
	two.die(order[0])
	s.said("docker network create, on the second of two hosts while the first is off", two.ask(order[1], &ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix("10.60.0.0/24")}).Err)
	s.said("ringlet evict, of the first of two", two.ask(order[1], &ipam.EvictRequest{Peer: two.name(order[0])}).Err)

	// The first, with two votes of three, is gone: one that was evicted learns
	// of that from the other, and cannot be admitted.
	d, _ := lab(s.t)
	order = d.order()
	a, b := order[1], order[2]
	d.die(b)
	if err := d.ask(a, &ipam.EvictRequest{Peer: d.name(b)}).Err; err != nil {
		s.t.Fatal(err)
	}
	d.heal()
	d.die(order[0])
	s.said("ringlet pool create, evicted and not admitted again", d.ask(b, &ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.60.0.0/24")}).Err)
}

func sayReinstalled(s *transcript) {
	c := newLockstep(s.t, 3)
	for i, p := range c.peers {
		p.cfg.Machine = uint64(i + 1)
		c.start(i)
	}
	c.found()
	cidr := netip.MustParsePrefix("10.50.0.0/24")
	r := c.ask(2, docker(cidr))
	if r.Err != nil {
		s.t.Fatal(r.Err)
	}
	c.reinstall(2, func(cfg *ipam.Config) { cfg.Formation = ipam.Formation{} })
	c.run(time.Minute, func() bool { return c.peers[2].machine.Status(c.now).State == ipam.Ready })
	c.silence(0, 1) // before it could take over its space
	s.said("docker run --ip, of a host that is installed anew and has not taken over its space yet", c.ip(2, cidr, r.Address.Address.Addr()))
}

// sayOrphaned is what a first host says that lost its database.
func sayOrphaned(s *transcript) {
	h := machinetest.NewHost(s.t, ipam.Config{Hesitate: true, AwaitInventory: true})
	h.Call(lan("10.50.0.0/24"))
	if _, answered := h.Try(docker(prefix("10.50.0.0/24"))); answered {
		s.t.Fatal("it hands out at once")
	}
	h.Now = h.Now.Add(time.Minute)
	r, _ := h.Tick()
	s.said("docker run, on a first host whose database is new while its engine has networks", r.Err)

	l := newLost(s.t)
	l.unseen()
	s.said("docker run, on a host that is to begin the cluster again, and looks for others first", l.ask(0, docker(l.cidr)).Err)
	l = newBegun(s.t)
	s.said("docker run, there, before the others have told what their containers have", l.ask(0, docker(l.cidr)).Err)
}

// sayStarted is what is said by a host that was started and reaches nobody.
func sayStarted(s *transcript) {
	c, cidr := lab(s.t)
	c.die(1, 2)
	c.peers[0].cfg.HostBoot.ID = "another"
	c.start(0)
	for _, i := range []int{1, 2} {
		c.step(0, &ipam.Presence{Peer: c.peers[i].machine.Self()})
	}
	s.said("docker run, right after the host has started, with no other there", c.ask(0, docker(cidr)).Err)
}

func sayLeaving(s *transcript) {
	c, cidr := lab(s.t)
	c.ask(0, &ipam.PoolRelease{Network: local(cidr)})
	c.vacate(1, cidr)
	c.vacate(2, cidr)
	s.said("ringlet leave, while addresses rest", c.ask(1, &ipam.LeaveRequest{}).Err)
	s.said("docker network create, on a host that is leaving", c.ask(1, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}).Err)
	vm := &ipam.ClientRequest{Pool: cidr.String(), ID: "vm"}
	s.said("ringlet alloc --for vm, on a host that is leaving", c.ask(1, vm).Err)
	c.run(20*time.Minute, func() bool { return len(c.peers[0].machine.State().Roster) == 2 })
	c.run(time.Minute, func() bool { return c.peers[1].machine.Status(c.now).State == ipam.Left })
	s.said("docker run, on a host that has left", c.ask(1, docker(cidr)).Err)
	s.said("ringlet alloc --for vm, on a host that has left", c.ask(1, vm).Err)

	e, _ := lab(s.t)
	e.ask(1, &ipam.DrainRequest{})
	s.said("docker run, on a host that drains, with nothing left there", e.full(1, cidr))

	d, _ := lab(s.t)
	order := d.order()
	call := d.call(order[0], &ipam.LeaveRequest{Force: true})
	d.run(time.Minute, func() bool { return d.peers[order[0]].machine.State().Member(d.peers[order[0]].machine.Self()) == nil })
	if r, ok := d.peers[order[0]].replies[call]; ok {
		s.t.Fatalf("leaving was answered with %v before the others could know", r.Err)
	}
	d.silence(order...)
	s.said("ringlet leave --force, with nobody known to know", d.ask(order[0], &ipam.LeaveRequest{}).Err)
}

// saySuspended is what a copy of a database says.
func saySuspended(s *transcript) {
	c, cidr := lab(s.t)
	old := maps.Clone(c.peers[2].disk)
	c.start(2)
	c.run(time.Minute, c.agreed)
	c.wait(5 * time.Second)
	c.peers[2].disk = old
	c.start(2)
	c.wait(5 * time.Second)
	s.said("docker run, on a host whose old database was put back", c.ask(2, docker(cidr)).Err)
	s.said("ringlet recover, on that host", c.ask(2, &ipam.RecoverRequest{}).Err)
}
