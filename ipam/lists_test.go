package ipam_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// lost is a cluster of which all databases were lost while containers ran, and
// which an operator has had begin again on its first host.
type lost struct {
	*lockstep
	cidr     netip.Prefix
	networks []ipam.InventoryNetwork // by host
	holder   map[netip.Addr]int      // what containers have, by host
}

func newLost(t *testing.T) *lost {
	t.Helper()
	c, cidr := lab(t)
	l := &lost{c, cidr, make([]ipam.InventoryNetwork, len(c.peers)), map[netip.Addr]int{}}
	for i, a := 0, cidr.Addr().Next().Next(); i < 4*len(c.peers); i, a = i+1, a.Next() {
		host := i % len(c.peers)
		l.holder[a] = host
		l.networks[host] = on(cidr.String(), append(l.networks[host].Endpoints, listed(a.String(), fmt.Sprint("c", i), byte(i+1)))...)
	}
	for i := range c.peers {
		c.reinstall(i, func(cfg *ipam.Config) {
			cfg.Formation, cfg.Join, cfg.Hesitate, cfg.AwaitInventory = ipam.Formation{}, true, true, true
		})
	}
	for i := range c.peers {
		l.list(i)
	}
	first := c.peers[0]
	first.cfg.Join, first.cfg.FoundAlone = false, true
	c.start(0)
	return l
}

// list has the engine of a host list what it has, again and again for a while.
func (l *lost) list(i int) {
	for range 3 { // the first may come before there is a pool
		l.call(i, &ipam.Inventory{Networks: l.networks[i : i+1]})
		l.wait(time.Second)
	}
}

// newBegun is newLost when all have joined, and all but the last host have taken in
// what their engines list.
func newBegun(t *testing.T) *lost {
	t.Helper()
	l := newLost(t)
	l.run(time.Minute, l.agreed)
	for _, i := range []int{0, 1, 0, 1} {
		l.list(i)
	}
	return l
}

// start has a host start a container, whose address must be nobody else's.
func (l *lost) start(i int) {
	l.t.Helper()
	r := l.ask(i, docker(l.cidr))
	a := r.Address.Address.Addr()
	if other, taken := l.holder[a]; r.Err != nil || taken {
		l.t.Errorf("%s hands out %v, which host-%d has: %v", l.name(i), a, other, r.Err)
	}
	l.holder[a] = i
}

// The engine of the first host answers at once, those of the others take their
// time, so that nobody but them knows which addresses of the pool their containers
// have: none of these is handed out, by the first host or by one that listed before
// the last.
func TestOthersHaveYetToList(t *testing.T) {
	l := newLost(t)
	l.run(time.Minute, l.agreed)
	l.list(0)
	l.list(1)
	l.lockstep.start(1) // what it waited for, it waits for after its next start
	l.list(1)
	if got := problemCodes(l.status(0)); !slices.Equal(got, []string{"others-unlisted"}) {
		t.Errorf("the first host has the problems %v, want others-unlisted", got)
	}
	for i := range 2 {
		if r := l.ask(i, docker(l.cidr)); !errors.Is(r.Err, ipam.ErrNotReady) || !strings.Contains(r.Err.Error(), l.name(2)) {
			t.Errorf("%s: got %v, %v before %s has told what its containers have", l.name(i), r.Address.Address, r.Err, l.name(2))
		}
	}
	if err := l.ip(0, l.cidr, l.networks[2].Endpoints[0].Address); !errors.Is(err, ipam.ErrNotReady) {
		t.Errorf("asked for an address of %s: got %v", l.name(2), err)
	}
	if r := l.ask(0, &ipam.PoolRequest{Space: ipam.Local}); !errors.Is(r.Err, ipam.ErrNotReady) {
		t.Errorf("asked for any subnet, which %s may have: got %v, %v", l.name(2), r.Pool, r.Err)
	}
	for range 3 {
		for i := range l.peers {
			l.list(i)
		}
	}
	for i := range l.peers {
		if got := problemCodes(l.status(i)); len(got) > 0 {
			t.Errorf("%s has the problems %v, want none", l.name(i), got)
		}
		for range 3 {
			l.start(i)
		}
	}
	l.oneCluster()
}

// The others are seen, and fall silent before they have joined, or told anything:
// they are not waited for longer than others notice that they are gone.
func TestOthersFallSilent(t *testing.T) {
	l := newLost(t)
	l.run(time.Minute, func() bool { return l.peers[0].machine.State().Slot > 0 })
	l.silence(1, 2)
	l.queue = nil
	l.list(0)
	asked := l.call(0, docker(l.cidr))
	if r, answered := l.peers[0].replies[asked]; answered {
		t.Errorf("got %v, %v at once", r.Address.Address, r.Err)
	}
	l.wait(9 * time.Second)
	if r, answered := l.peers[0].replies[asked]; !answered || r.Err != nil {
		t.Errorf("answered %t: %v", answered, r.Err)
	}
}

// A host that has just started again, and sees one of which it has heard nothing
// since, waits for it.
func TestOthersNotHeardYet(t *testing.T) {
	l := newBegun(t)
	l.lose = func(f flight) bool { return f.from == 2 && f.to == 1 }
	l.lockstep.start(1)
	l.list(1)
	asked := l.call(1, docker(l.cidr))
	l.wait(3 * time.Second)
	if r, answered := l.peers[1].replies[asked]; answered {
		t.Errorf("got %v, %v before the others have told what their containers have", r.Address.Address, r.Err)
	}
}

// Who cannot tell what its containers have is not waited for.
func TestOthersThatCannotList(t *testing.T) {
	for name, away := range map[string]func(l *lost){
		"its engine does not answer": func(l *lost) { l.call(2, &ipam.Blindness{}) },
		"it is gone":                 func(l *lost) { l.die(2) },
		"it does not answer":         func(l *lost) { l.silence(2) },
	} {
		t.Run(name, func(t *testing.T) {
			l := newBegun(t)
			away(l)
			l.wait(15 * time.Second)
			for i := range 2 {
				if r := l.ask(i, docker(l.cidr)); r.Err != nil {
					t.Errorf("%s: %v", l.name(i), r.Err)
				}
			}
		})
	}
}

// A host that has just been installed, in whose engine is nothing, is waited for by
// nobody, also while it is in no cluster yet.
func TestNewHostIsNotWaitedFor(t *testing.T) {
	l := newLost(t)
	l.lose = func(f flight) bool {
		_, hello := f.frame.Body.(wire.Hello)
		_, welcome := f.frame.Body.(wire.Welcome)
		return f.from == 2 && !hello && !welcome // it is seen, and never admitted
	}
	for _, i := range []int{0, 1, 0, 1, 0} {
		l.list(i)
		l.call(2, &ipam.Inventory{})
	}
	l.wait(time.Second)
	if r := l.ask(0, docker(l.cidr)); r.Err != nil {
		t.Error(r.Err)
	}
	if l.peers[2].machine.State().Slot > 0 {
		t.Error("the new host has joined, and was to be kept from it")
	}
}

func problemCodes(s ipam.Status) (codes []string) {
	for _, p := range s.Problems {
		codes = append(codes, p.Code)
	}
	return codes
}

// foreign has a host ask for three addresses, and returns how many it was given,
// and how many of these a container of another host has.
func (l *lost) foreign(i int) (given, taken int) {
	for range 3 {
		call := l.call(i, docker(l.cidr))
		l.wait(time.Second)
		r, answered := l.peers[i].replies[call]
		if !answered || r.Err != nil {
			continue
		}
		given++
		if of, has := l.holder[r.Address.Address.Addr()]; has && of != i {
			taken++
		}
	}
	return given, taken
}

// wantNone asserts that a host hands out nothing now.
func (l *lost) wantNone(i int, when string) {
	l.t.Helper()
	if given, taken := l.foreign(i); given > 0 {
		l.t.Errorf("%s: %s hands out %d addresses, of which others have %d", when, l.name(i), given, taken)
	}
}

// The list of a host comes long after it has last heard from the others, whose
// engines are slower still.
func TestOwnListIsLate(t *testing.T) {
	for _, late := range []time.Duration{0, 9 * time.Second, 12 * time.Second, 3 * time.Minute} {
		l := newLost(t)
		l.run(time.Minute, l.agreed)
		l.wait(late)
		l.list(0)
		l.list(0)
		l.wantNone(0, fmt.Sprintf("its list came after %v", late))
	}
}

// The engine of another host starts with it, and does not answer for a while.
func TestOthersHaveListedNothing(t *testing.T) {
	for _, blind := range []bool{false, true} {
		l := newBegun(t)
		if l.lockstep.start(2); blind {
			l.call(2, &ipam.Blindness{})
		}
		l.wait(15 * time.Second)
		l.wantNone(0, fmt.Sprintf("blind %t", blind))
	}
}

// A host starts again while it waits for another one, which it sees only a moment
// later.
func TestOthersAreSeenAfterTheNextStart(t *testing.T) {
	l := newBegun(t)
	l.peers[0].cfg.FoundAlone = false // as the manual says
	l.silence(2)
	l.lockstep.start(0)
	l.step(0, &ipam.Presence{Peer: l.peers[2].machine.Self()})
	l.list(0)
	l.heal()
	l.wantNone(0, "started again")
}

// A host that was alone in a cluster of its own, with nothing on it, gives way to
// the one that has begun again, and waits with those that are there, however long
// it was alone.
func TestGivesWayToWhoHasLost(t *testing.T) {
	for _, alone := range []time.Duration{10 * time.Second, 3 * time.Minute} {
		t.Run(alone.String(), func(t *testing.T) { givesWay(t, alone) })
	}
}

func givesWay(t *testing.T, alone time.Duration) {
	t.Helper()
	l := newLost(t)
	l.silence(2)
	for i := range 2 {
		l.step(i, &ipam.Presence{Peer: l.peers[2].machine.Self()})
	}
	l.reinstall(2, func(cfg *ipam.Config) { cfg.Join = false })
	for _, i := range []int{0, 1} {
		l.step(2, &ipam.Presence{Peer: l.peers[i].machine.Self()})
	}
	l.call(2, &ipam.Inventory{})
	if l.peers[2].machine.State().Slot == 0 {
		t.Fatal("it has founded no cluster")
	}
	l.wait(alone)
	l.list(0)
	l.heal()
	l.run(time.Minute, func() bool {
		l.call(2, &ipam.Inventory{})
		l.say(2, 0, wire.Beat{}, func(*wire.Header) {}) // as gossip brings it
		return l.agreed()
	})
	l.list(0)
	l.call(2, &ipam.Inventory{})
	l.wantNone(2, "joined")
}

// Who does not get ahead with its list is waited for, and not for ever.
func TestOthersNeverTakeIn(t *testing.T) {
	l := newBegun(t)
	l.wait(90 * time.Second)
	if given, _ := l.foreign(0); given > 0 {
		t.Errorf("after a minute and a half it does not wait any more")
	}
	l.wait(time.Minute)
	if r := l.ask(0, docker(l.cidr)); r.Err != nil {
		t.Errorf("after two and a half it waits still: %v", r.Err)
	}
}

// A cluster is new, and its containers are to come. The engine of one host never
// lists anything: that keeps no other host waiting.
func TestNewClusterWithABrokenEngine(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	for range 2 {
		for _, i := range []int{0, 1} {
			c.call(i, &ipam.Inventory{})
		}
		c.wait(time.Second)
	}
	cidr := prefix("10.50.0.0/24")
	if r := c.ask(0, &ipam.PoolRequest{Space: ipam.Local, Pool: cidr}); r.Err != nil {
		t.Fatal(r.Err)
	}
	begun := c.now
	for range 2 { // the second time their engines have listed the network
		for i := range 2 {
			if r := c.ask(i, docker(cidr)); r.Err != nil || c.now.Sub(begun) > 5*time.Second {
				t.Errorf("%s: %v, after %v", c.name(i), r.Err, c.now.Sub(begun))
			}
			c.call(i, lan(cidr.String()))
		}
	}
}

// What a host without an engine to ask has waited for once it does not wait for
// again at its next start, when another host is new.
func TestWaitsForOthersOnce(t *testing.T) {
	c, cidr := lab(t)
	c.wait(time.Minute)
	c.reinstall(2, func(cfg *ipam.Config) { cfg.AwaitInventory, cfg.Formation = true, ipam.Formation{} })
	c.wait(time.Minute)
	c.start(0)
	c.wait(5 * time.Second)
	begun := c.now
	if r := c.ask(0, docker(cidr)); r.Err != nil || c.now.Sub(begun) > time.Second {
		t.Errorf("got %v, after %v", r.Err, c.now.Sub(begun))
	}
}

// Two hosts with new databases have containers on the same two addresses, each of
// which lies in the space of one of them: both are told, and nobody waits for ever.
func TestCrosswiseDuplicates(t *testing.T) {
	c := newAwaiting(t)
	c.found()
	p := c.peers[0].machine.State().Pools[0]
	subnet := p.CIDR.String()
	networks := []ipam.InventoryNetwork{on(subnet), on(subnet), on(subnet)}
	for i := range 2 {
		for r := range p.Ring.OwnedBy(c.peers[i].machine.Self()) {
			in := addr.Nth(p.CIDR, r.Start+2).String()
			for j := range 2 {
				networks[j].Endpoints = append(networks[j].Endpoints, listed(in, fmt.Sprint("c", i, j), byte(4*i+j+1)))
			}
			break
		}
	}
	told := make([]bool, len(networks))
	for range 15 {
		for i := range networks {
			c.call(i, &ipam.Inventory{Networks: networks[i : i+1]})
		}
		c.wait(time.Second)
		for i := range networks {
			told[i] = told[i] || slices.Contains(problemCodes(c.status(i)), "conflict")
		}
	}
	for i := range networks {
		if r := c.ask(i, docker(p.CIDR)); r.Err != nil {
			t.Errorf("%s: %v", c.name(i), r.Err)
		}
		if told[i] != (i < 2) {
			t.Errorf("%s has told of a conflict: %t", c.name(i), told[i])
		}
	}
}

// What an operator keeps for a container may be what one on another host has.
func TestOthersMayHaveWhatIsReserved(t *testing.T) {
	l := newBegun(t)
	a := l.networks[2].Endpoints[0].Address
	if err := l.ask(0, &ipam.ReserveRequest{First: a, Last: a, Kind: chronicle.KindKeptForName, Note: "web"}).Err; !errors.Is(err, ipam.ErrNotReady) {
		t.Errorf("kept %v, which a container of %s has: got %v", a, l.name(2), err)
	}
}

// Peers ask one another no more than once a second how far they are.
func TestAskedOnceASecond(t *testing.T) {
	l := newBegun(t)
	for range 10 {
		l.call(0, docker(l.cidr))
	}
	hellos := 0
	l.lose = func(f flight) bool {
		if _, hello := f.frame.Body.(wire.Hello); hello && f.from == 0 {
			hellos++
		}
		return false
	}
	l.wait(10 * time.Second)
	if hellos < 9 || hellos > 12 {
		t.Errorf("host-2 was asked %d times in ten seconds", hellos)
	}
}

// What a host has itself, or its network keeps back, lies in the space of another
// one that lists later: that does not hand it out in between.
func TestKeptBackByOthers(t *testing.T) {
	for what, keep := range map[string]func(c *lockstep, i int, n *ipam.InventoryNetwork, a netip.Addr){
		"an address of the host": func(c *lockstep, i int, _ *ipam.InventoryNetwork, a netip.Addr) {
			c.call(i, &ipam.HostAddresses{Addresses: []netip.Prefix{netip.PrefixFrom(a, 24)}})
		},
		"a gateway":            func(_ *lockstep, _ int, n *ipam.InventoryNetwork, a netip.Addr) { n.Gateways = []netip.Addr{a} },
		"an auxiliary address": func(_ *lockstep, _ int, n *ipam.InventoryNetwork, a netip.Addr) { n.Auxiliary = []netip.Addr{a} },
	} {
		t.Run(what, func(t *testing.T) {
			for later := time.Duration(0); later < 3*time.Second; later += 100 * time.Millisecond {
				c := newAwaiting(t)
				c.found()
				p := c.peers[0].machine.State().Pools[0]
				keeper, owner, third := c.order()[0], c.order()[1], c.order()[2]
				var next netip.Addr // that the owner would hand out
				for r := range p.Ring.OwnedBy(c.peers[owner].machine.Self()) {
					next = addr.Nth(p.CIDR, r.Start)
					break
				}
				list := func(i int) {
					n := on(p.CIDR.String())
					if i == keeper {
						keep(c, i, &n, next)
					}
					c.call(i, &ipam.Inventory{Networks: []ipam.InventoryNetwork{n}})
				}
				for range 3 {
					list(keeper)
					list(third)
					c.wait(time.Second)
				}
				c.wait(later)
				asked := c.call(owner, docker(p.CIDR))
				for range 5 {
					list(owner)
					c.wait(time.Second)
					list(keeper)
				}
				if r, answered := c.peers[owner].replies[asked]; !answered || r.Err != nil || r.Address.Address.Addr() == next {
					t.Errorf("the list came %v later: answered %t: %v, %v", later, answered, r.Address.Address, r.Err)
				}
			}
		})
	}
}

// The containers of a host have addresses of two other hosts, whose answers come in turn: each list finds one of them known
// and the other one asked for. Both are conflicts that are told, so the list is whole in the end, and frees what has gone.
func TestListWithAddressesOfTwoOthers(t *testing.T) {
	c := newAwaiting(t)
	c.run(time.Minute, c.agreed)
	cidr := prefix("10.60.0.0/24")
	order := c.order()
	host, others := order[0], order[1:]
	at := []netip.Addr{address("10.60.0.99"), address("10.60.0.199")}
	lists := make([][]ipam.InventoryEndpoint, len(c.peers))
	look := func() (again time.Duration) {
		for i := range c.peers {
			inv := &ipam.Inventory{Networks: []ipam.InventoryNetwork{on(cidr.String(), lists[i]...)}}
			if r := c.ask(i, inv); i == host {
				again = r.Again
			}
		}
		return again
	}
	for range 3 {
		look()
		c.wait(time.Second)
	}
	for i, other := range others {
		c.network(other, cidr)
		if err := c.ip(other, cidr, at[i]); err != nil {
			t.Fatal(err)
		}
		lists[other] = []ipam.InventoryEndpoint{listed(at[i].String(), "other", byte(i+1))}
	}
	c.network(host, cidr)
	gone := c.ask(host, docker(cidr))
	if gone.Err != nil {
		t.Fatal(gone.Err)
	}
	for i := range at { // the first one is asked a list earlier
		lists[host] = append(lists[host], listed(at[i].String(), "web", byte(i+7)))
		look()
		c.wait(time.Second)
	}
	lasts := 0
	for range 60 { // as the watcher does: a second later while something is open
		if again := look(); again != time.Second {
			break
		}
		lasts++
		c.wait(time.Second)
	}
	if lasts > 5 {
		t.Errorf("%d lists were not taken in", lasts)
	}
	for range 3 {
		look()
		c.wait(20 * time.Second)
	}
	look()
	if got := c.conflicts(host); len(got) != 2 {
		t.Errorf("the conflicts are about %v, want %v", got, at)
	}
	if use := c.containersOf(host, cidr); use[gone.Address.Address.Addr()] {
		t.Errorf("%v is held still", gone.Address.Address)
	}
}
