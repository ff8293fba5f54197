package ipam_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/wire"
)

// control is a schedule that breaks the promise without a rule, and nothing with it.
type control struct {
	name  string
	rule  ipam.Rule
	apply func(*chronicle.State, []chronicle.Command) []chronicle.Outcome
	play  func(p *play) (breach string)
}

// playEach plays schedules with all rules, and without the one that each is of.
func playEach(t *testing.T, controls []control) {
	t.Helper()
	for _, tc := range controls {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if breach := tc.play(&play{T: t}); breach != "" {
				t.Errorf("with all rules: %s", breach)
			}
			breach := tc.play(&play{T: t, rule: tc.rule, apply: tc.apply})
			if breach == "" {
				t.Error("without the rule nothing is broken")
			}
			t.Log(breach)
		})
	}
}

// TestRequestWithoutARule is [TestScheduleWithoutARule] for rules about what an engine, an operator or a start of the process asks
// for and lists.
func TestRequestWithoutARule(t *testing.T) {
	playEach(t, []control{
		{"a list tells of later grants", ipam.RuleLater, nil, listsAreSlow},
		{"one list frees", ipam.RuleTwoLists, nil, listsWhileOneStarts},
		{"a withdrawal ignores what came since", ipam.RuleConfirmed, nil, asksAgain},
		{"serials without a nonce", ipam.RuleNonce, nil, listsAcrossAStart},
		{"grants are ordered by the clock", ipam.RuleSerials, nil, listsAcrossAClockStep},
		{"opposites cross", ipam.RuleOpposite, nil, drainsAndDoesNot},
		{"unuse leaves at once", ipam.RuleIdle, nil, comesAgain},
		{"the state says used", ipam.RuleParting, nil, startsAsItSaysThat},
		{"numbers are not on disk", ipam.RuleNumbers, nil, startsAsItSaysThat},
		{"a pool goes before the list", ipam.RuleListed, nil, losesAPool},
		{"freed before it is set aside", ipam.RuleFreedAside, nil, givesAPoolUp},
		{"an unmarked request gets all", ipam.RuleUnmarked, nil, namesWhatAContainerHas},
		{"a grant is no evidence", ipam.RuleStanding, nil, hasTheAddressOnAnInterface},
		{"a replayed address is not withheld", ipam.RuleWithheld, nil, replaysBeforeItIsAdmitted},
	})
}

// host returns a peer that is alone, and that the engine lists what it has.
func (p *play) host() *machinetest.Host {
	p.Helper()
	return machinetest.NewHost(p.T, p.without(ipam.Config{AwaitInventory: true}))
}

// second has another container ask for an address that one has.
func second(h *machinetest.Host, n ipam.Network, has string) (breach string) {
	if r, answered := h.Try(asking(n, "second", 99, has)); answered && r.Err == nil {
		return has + " has been handed out twice"
	}
	return ""
}

// An engine takes a minute for each list. A container gets an address when two lists have begun.
func listsAreSlow(p *play) string {
	h := p.host()
	look(h)
	n := network(p.T, h, "10.50.0.0/24")
	early := ipam.Inventory{After: h.Mark(), Networks: []ipam.InventoryNetwork{on("10.50.0.0/24")}}
	if err := claim(h, n, "10.50.0.7", "web"); err != nil {
		p.Fatal(err)
	}
	for range 2 {
		h.Now = h.Now.Add(time.Minute)
		list := early
		h.Call(&list)
	}
	return second(h, n, "10.50.0.7")
}

// A container gets its address half a minute before the engine shows its endpoint. One list comes meanwhile.
func listsWhileOneStarts(p *play) string {
	h := p.host()
	look(h)
	n := network(p.T, h, "10.50.0.0/24")
	if err := claim(h, n, "10.50.0.7", "web"); err != nil {
		p.Fatal(err)
	}
	h.Now = h.Now.Add(25 * time.Second)
	look(h, on("10.50.0.0/24"))
	return second(h, n, "10.50.0.7")
}

// A network asks for its gateway, and the answer is lost. The engine asks again and is answered before the first grant is taken back.
func asksAgain(p *play) string {
	h := p.host()
	look(h)
	n := network(p.T, h, "10.50.0.0/24")
	gateway := &ipam.AddressRequest{Network: n, Purpose: ipam.ForGateway}
	lost := h.Call(gateway)
	again := h.Call(gateway)
	if lost.Err != nil || again.Err != nil || lost.Address.Address != again.Address.Address {
		p.Fatal(lost, again)
	}
	h.Call(&ipam.Withdrawal{Ticket: lost.Address.Ticket})
	return second(h, n, lost.Address.Address.Addr().String())
}

// A container ends unseen. Much is asked for, a list begins, and the process ends and begins again: it numbers anew. Another container
// gets the address, and a list that is not complete shows it. The release of the first comes late, and then the list that began in
// the former process.
func listsAcrossAStart(p *play) string {
	const cidr, at = "10.50.0.0/24", "10.50.0.7"
	h := p.host()
	look(h)
	n := network(p.T, h, cidr)
	mustAsk(p.T, h, n, "old", 1, at)
	for _, has := range [][]ipam.InventoryEndpoint{{listed(at, "old", 1)}, nil, nil} {
		h.Now = h.Now.Add(time.Minute)
		look(h, on(cidr, has...))
	}
	for range 10 {
		network(p.T, h, cidr)
	}
	early := &ipam.Inventory{After: h.Mark(), Networks: []ipam.InventoryNetwork{on(cidr)}}
	h.Restart()
	mustAsk(p.T, h, n, "new", 2, at)
	h.Call(&ipam.Inventory{Partial: true, Networks: []ipam.InventoryNetwork{on(cidr, listed(at, "new", 2))}})
	release(h, n, address(at))
	h.Call(early)
	return second(h, n, at)
}

// Two lists begin, and the engine takes its time. Somebody sets the clock back, and a container gets an address. The clock shows the
// same time once more before the lists come, which seem to be younger than the grant.
func listsAcrossAClockStep(p *play) string {
	const cidr, at = "10.50.0.0/24", "10.50.0.7"
	h := p.host()
	look(h)
	n := network(p.T, h, cidr)
	var lists []*ipam.Inventory
	for range 2 {
		h.Now = h.Now.Add(time.Minute)
		lists = append(lists, &ipam.Inventory{After: h.Mark(), Networks: []ipam.InventoryNetwork{on(cidr)}})
	}
	h.SetClock(-2*time.Minute, true)
	mustAsk(p.T, h, n, "web", 1, at)
	for range 4 {
		h.Now = h.Now.Add(time.Minute)
		h.Tick()
	}
	for _, list := range lists {
		h.Call(list)
	}
	return second(h, n, at)
}

// A host is to drain, which is not decided yet. Then it is not to drain.
func drainsAndDoesNot(p *play) string {
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	i := c.order()[2]
	c.lose = func(flight) bool { return true }
	c.call(i, &ipam.DrainRequest{})
	undo := c.call(i, &ipam.DrainRequest{Undo: true})
	c.lose = func(flight) bool { return false }
	c.wait(30 * time.Second)
	if r, answered := c.peers[i].replies[undo]; !answered || r.Err != nil {
		p.Fatal(answered, r.Err)
	}
	if phase := c.peers[i].machine.State().Member(c.peers[i].machine.Self()).Phase; phase == chronicle.Draining {
		return "it drains, and has said that it does not"
	}
	return ""
}

// The last network with a router goes, and is made again some seconds later. Meanwhile a container on another host asks for the address
// of the router.
func comesAgain(p *play) string {
	cidr, router := prefix("10.60.0.0/24"), address("10.60.0.1")
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, host := order[0], order[2]
	q := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst}
	n := c.ask(host, q).Pool.Network
	c.wait(5 * time.Second)
	p.ask(c, host, &ipam.PoolRelease{Network: n})
	c.wait(5 * time.Second)
	if c.ip(first, cidr, router) == nil {
		return "a network goes and comes again, and its router is a container's"
	}
	p.ask(c, host, q)
	return ""
}

// A host says that it uses a pool no more, and the decision takes a while. Its process ends and begins again, and it makes a network
// that shares the router. Then it is decided.
func startsAsItSaysThat(p *play) string {
	cidr, router := prefix("10.60.0.0/24"), address("10.60.0.1")
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, host := order[0], order[2]
	q := &ipam.PoolRequest{Space: ipam.Local, Pool: cidr, Gateway: ipam.GatewayFirst}
	p.ask(c, host, &ipam.PoolRelease{Network: c.ask(host, q).Pool.Network})
	said := false
	c.lose = func(f flight) bool {
		_, submits := f.frame.Body.(wire.Submit)
		_, accepted := f.frame.Body.(wire.Accepted)
		said = said || submits && f.from == host
		return accepted
	}
	c.run(3*time.Minute, func() bool { return said })
	c.wait(100 * time.Millisecond)
	c.start(host)
	c.heal()
	c.wait(5 * time.Second)
	call := c.call(host, q)
	c.wait(time.Second)
	_, early := c.peers[host].replies[call]
	c.lose = func(flight) bool { return false }
	c.wait(5 * time.Second)
	if early && c.ip(first, cidr, router) == nil {
		return "a network has a router, which is a container's"
	}
	return ""
}

// A host has lost its database, and its engine has a network with a container. One that starts there makes its pool known. Before
// the engine lists what it has, a network with a larger subnet is asked for.
func losesAPool(p *play) string {
	const cidr, larger = "10.60.0.0/24", "10.60.0.0/16"
	h := p.host()
	h.Try(asking(plain(cidr), "db", 1, ""))
	h.Try(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix(larger)})
	for range 3 {
		look(h, on(cidr, listed("10.60.0.5", "web", 7)))
	}
	if h.Machine().State().PoolOf(prefix(cidr)) == nil {
		return "a network lives, and its pool is gone"
	}
	return ""
}

// A pool without networks is to make room for another host's. The host has an address of it on an interface. A container asks for
// that before the pool is given up.
func givesAPoolUp(p *play) string {
	cidr := prefix("10.60.0.0/24")
	c := p.cluster(3)
	c.found()
	c.wait(5 * time.Second)
	order := c.order()
	first, host := order[0], order[2]
	p.ask(c, host, &ipam.PoolRelease{Network: c.network(host, cidr)})
	c.wait(2 * time.Minute)
	at := c.ask(host, docker(cidr)).Address.Address
	p.ask(c, host, &ipam.AddressRelease{Network: local(cidr), Address: at.Addr()}, &ipam.HostAddresses{Addresses: []netip.Prefix{at}})
	c.wait(5 * time.Second)
	asked := false
	c.lose = func(f flight) bool {
		_, asks := f.frame.Body.(wire.Ask)
		asked = asked || asks && f.to == host
		return false
	}
	c.call(first, creation(prefix("10.60.0.0/16")))
	c.run(time.Minute, func() bool { return asked })
	c.wait(2 * time.Millisecond)
	if c.ip(host, cidr, at.Addr()) == nil {
		return at.String() + " is on an interface of a host, and was handed out"
	}
	return ""
}

// A container has an address that a new network names as its router's.
func namesWhatAContainerHas(p *play) string {
	h := p.host()
	look(h)
	n := network(p.T, h, "10.50.0.0/24")
	if err := claim(h, n, "10.50.0.7", "web"); err != nil {
		p.Fatal(err)
	}
	h.Now = h.Now.Add(time.Minute)
	look(h, on("10.50.0.0/24", listed("10.50.0.7", "web", 7)))
	half := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: prefix("10.50.0.0/24"), Range: prefix("10.50.0.128/25")}).Pool.Network
	if r, answered := h.Try(&ipam.AddressRequest{Network: half, Purpose: ipam.ForUnmarked, Address: address("10.50.0.7")}); answered && r.Err == nil {
		return "a network and a container have 10.50.0.7"
	}
	return ""
}

// A container has got an address a second ago, and no list has it yet. The host has it on an interface for a while.
func hasTheAddressOnAnInterface(p *play) string {
	h := p.host()
	look(h)
	n := network(p.T, h, "10.50.0.0/24")
	if err := claim(h, n, "10.50.0.7", "web"); err != nil {
		p.Fatal(err)
	}
	h.Now = h.Now.Add(time.Second)
	hostHas(h, "10.50.0.7/24")
	for range 2 {
		h.Now = h.Now.Add(21 * time.Second)
		hostHas(h)
	}
	return second(h, n, "10.50.0.7")
}

// A host loses its database, and an operator gives up its space although its containers run. Its engine starts before the host is
// admitted again. It asks for the address of a container that has lived on, and starts another one before it lists anything.
func replaysBeforeItIsAdmitted(p *play) string {
	c := p.cluster(3, everywhere(func(cfg *ipam.Config) { cfg.AwaitInventory = true }))
	c.run(time.Minute, c.agreed)
	c.lists(-1)
	order := c.order()
	first, back := order[0], order[2]
	n := c.network(back, lab50)
	at := c.ask(back, docker(lab50)).Address.Address.Addr()
	c.wait(5 * time.Second)
	c.die(back)
	c.giveUp(first, back)
	c.dead = nil
	c.lose = without(back)
	c.rebuild(back)
	c.part(back, order[0], order[1])
	p.ask(c, back, &ipam.Greeting{}, &ipam.Blindness{}, &ipam.PoolRequest{Space: ipam.Local, Pool: lab50})
	c.ask(back, &ipam.AddressRequest{Network: n, Purpose: ipam.ForUnmarked, Address: at})
	c.lose = without()
	c.heal()
	c.run(time.Minute, func() bool {
		m := c.peers[back].machine
		return m.State().Member(m.Self()) != nil
	})
	c.wait(5 * time.Second)
	if c.ip(back, lab50, at) == nil {
		return at.String() + " has been handed out twice"
	}
	return ""
}
