package ipam_test

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/wire"
)

// given is a cluster of three whose last host was given up with a network and containers, and has not heard of it.
type given struct {
	*lockstep
	back, other int
	cidr        netip.Prefix
	n           ipam.Network
	web, db     ipam.InventoryEndpoint
	vm          netip.Addr
}

func newGiven(t *testing.T, sockets bool) *given {
	t.Helper()
	c := newLockstepWith(t, 3, func(c *lockstep) {
		onOwnMachines(c)
		for _, p := range c.peers {
			p.cfg.AwaitInventory = sockets
		}
	})
	c.run(time.Minute, c.agreed)
	g := &given{lockstep: c, back: c.order()[2], other: c.order()[0], cidr: prefix("10.60.0.0/24")}
	g.web, g.db = listed("10.60.0.99", "web", 7), listed("10.60.0.100", "db", 8)
	g.look()
	g.look()
	g.n = c.network(g.back, g.cidr)
	for _, e := range []ipam.InventoryEndpoint{g.web, g.db} {
		if r := c.ask(g.back, g.start(e)); r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	g.vm = c.ask(g.back, &ipam.ClientRequest{Pool: g.cidr.String(), ID: "vm"}).Address.Address.Addr()
	c.wait(time.Minute)
	g.look(g.web, g.db)
	g.look(g.web, g.db)
	c.die(g.back)
	c.giveUp(g.other, g.back)
	c.network(g.other, g.cidr)
	return g
}

// start is what the engine asks for a container with a fixed address.
func (g *given) start(e ipam.InventoryEndpoint) *ipam.AddressRequest {
	return &ipam.AddressRequest{Network: g.n, Purpose: ipam.ForContainer, Name: e.Name, MAC: e.MAC, Address: e.Address}
}

// look has all engines list what they have, where they have sockets.
func (g *given) look(endpoints ...ipam.InventoryEndpoint) {
	if g.peers[g.back].cfg.AwaitInventory {
		g.listed(g.back, g.cidr, endpoints...)
	}
	g.wait(2 * time.Second)
}

// A host that was given up is back. It is suspended, keeps what it knew, and does what an engine needs that starts, and nothing new.
func TestGivenUpHostIsSuspended(t *testing.T) {
	for _, whole := range []bool{false, true} {
		g := newGiven(t, true)
		slot := g.peers[g.back].machine.State().Slot
		if whole {
			g.forgetSlots(g.back)
		}
		g.learnsLoss(g.other)
		for range 2 {
			s := g.status(g.back)
			if s.State != ipam.Suspended || s.Verdict != ipam.Failed || len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Next, "ringlet rejoin") || !strings.Contains(s.Problems[0].Text, "ringlet forget") {
				t.Fatalf("as a whole %t: it says %+v", whole, s.Problems)
			}
			if held := g.holds(g.back, g.cidr); held != 3 {
				t.Errorf("as a whole %t: it holds %d addresses", whole, held)
			}
			if got := g.peers[g.back].machine.State(); got.Gone(g.peers[g.back].machine.Self()) != nil && got.Gone(g.peers[g.back].machine.Self()).Forgotten || got.Slot < slot {
				t.Errorf("as a whole %t: it has applied the slot that gives it up", whole)
			}
			wantErr(t, g.ask(g.back, docker(g.cidr)).Err, ipam.ErrSuspended, "ringlet forget")
			wantErr(t, g.ask(g.back, &ipam.TrustRequest{}).Err, ipam.ErrBadRequest, "ringlet rejoin")
			g.ask(g.back, &ipam.Greeting{})
			for _, q := range []ipam.Request{
				&ipam.PoolRequest{Space: g.n.Space, Pool: g.cidr, Gateway: g.n.Gateway},
				&ipam.AddressRequest{Network: g.n, Purpose: ipam.ForUnmarked, Address: g.web.Address},
			} {
				if err := g.ask(g.back, q).Err; err != nil {
					t.Errorf("as a whole %t: its engine starts, and is refused %T: %v", whole, q, err)
				}
			}
			if i := slices.IndexFunc(g.status(g.other).Problems, func(p ipam.Problem) bool { return p.Code == "given-up-host" }); i < 0 {
				t.Errorf("as a whole %t: another host says %+v", whole, g.status(g.other).Problems)
			} else if p := g.status(g.other).Problems[i]; !strings.Contains(p.Text, g.name(g.back)) || !strings.Contains(p.Next, "ringlet rejoin") {
				t.Errorf("as a whole %t: another host says %+v", whole, p)
			}
			g.lockstep.start(g.back)
			g.heal()
			g.wait(2 * time.Second)
		}
		g.ask(g.back, &ipam.AddressRelease{Network: g.n, Address: g.web.Address})
		if held := g.holds(g.back, g.cidr); held != 2 {
			t.Errorf("as a whole %t: one is released, and it holds %d addresses", whole, held)
		}
		g.check()
	}
}

// Once the engine answers, a network that is made again is a new one: a suspended host grants it nothing, whatever it knows of the
// one before. What that kept back may be another host's by now (seed 3258450424342505386 of TestSim).
func TestNetworkMadeAgainOnASuspendedHost(t *testing.T) {
	g := newGiven(t, true)
	g.learnsLoss(g.other)
	g.look(g.web, g.db)
	g.ask(g.back, &ipam.PoolRelease{Network: g.n})
	wantErr(t, g.ask(g.back, &ipam.PoolRequest{Space: g.n.Space, Pool: g.cidr, Gateway: g.n.Gateway}).Err, ipam.ErrSuspended, "ringlet forget")
	wantErr(t, g.ask(g.back, &ipam.AddressRequest{Network: g.n, Purpose: ipam.ForGateway, Address: g.web.Address}).Err, ipam.ErrSuspended)
	wantErr(t, g.ask(g.back, &ipam.AddressRequest{Network: g.n, Purpose: ipam.ForUnmarked, Address: g.web.Address}).Err, ipam.ErrSuspended)
	g.check()
}

// While the engine starts a container gets back what it had, if a list has shown it with that since this process started; no other one.
func TestSuspendedHostAndAContainerThatStarts(t *testing.T) {
	g := newGiven(t, true)
	g.learnsLoss(g.other)
	g.ask(g.back, &ipam.Greeting{})
	if r := g.ask(g.back, g.start(g.web)); r.Err != nil || r.Address.Address.Addr() != g.web.Address {
		t.Errorf("got %v, %v", r.Address.Address, r.Err)
	}
	wantErr(t, g.ask(g.back, g.start(listed(g.web.Address.String(), "other", 9))).Err, ipam.ErrSuspended)
	g.lockstep.start(g.back)
	g.ask(g.back, &ipam.Greeting{})
	wantErr(t, g.ask(g.back, g.start(g.web)).Err, ipam.ErrSuspended)
}

// What the containers of such a host use nobody else gets, whatever is asked for: it was the host's, is nobody's, or another's by now.
// Without its warning they get it. Ten minutes after the last warning it is free.
func TestWarningOfAGivenUpHost(t *testing.T) {
	for _, sockets := range []bool{true, false} {
		g := newGiven(t, sockets)
		g.learnsLoss(g.other)
		g.wait(2 * time.Second)
		third := g.order()[1]
		refuses := func(when string) {
			t.Helper()
			for _, i := range []int{g.other, third} {
				for _, a := range []netip.Addr{g.web.Address, g.db.Address, g.vm} {
					err := g.ip(i, g.cidr, a)
					if err == nil || ipam.Code(err) != "address-in-use" || !strings.Contains(err.Error(), g.name(g.back)) {
						t.Errorf("%s, sockets %t: %v on %s: %v", when, sockets, a, g.name(i), err)
					}
				}
			}
		}
		refuses("at once")
		_ = g.full(g.other, g.cidr)
		for a := range g.containersOf(g.other, g.cidr) {
			if a == g.web.Address || a == g.db.Address || a == g.vm {
				t.Errorf("sockets %t: %v is handed out", sockets, a)
			}
		}
		g.lockstep.start(third)
		g.heal()
		g.wait(15 * time.Minute)
		refuses("a while later")
		g.die(g.back)
		g.wait(12 * time.Minute)
		if err := g.ip(third, g.cidr, g.web.Address); err != nil {
			t.Errorf("sockets %t: nobody warns any more: %v", sockets, err)
		}
	}
}

// containersOf returns the addresses that containers on a host hold.
func (c *lockstep) containersOf(i int, cidr netip.Prefix) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	list, _ := c.peers[i].machine.Addresses(c.now, cidr.String())
	for _, a := range list {
		if a.State == "held" {
			out[a.Address] = true
		}
	}
	return out
}

// Somebody got an address before the host was back. Both say so, and it stays with the one that got it, until one of the two is gone.
func TestConflictWithAGivenUpHost(t *testing.T) {
	g := newGiven(t, true)
	if err := g.ip(g.other, g.cidr, g.web.Address); err != nil {
		t.Fatal(err)
	}
	g.learnsLoss(g.other)
	g.wait(2 * time.Second)
	if got := g.conflicts(g.other); !slices.Equal(got, []netip.Addr{g.web.Address}) {
		t.Errorf("conflicts about %v: %+v", got, g.status(g.other).Problems)
	}
	g.rejoin(g.back)
	g.run(time.Minute, g.agreed)
	for range 4 {
		g.look(g.web, g.db)
	}
	if got := g.conflicts(g.back); !slices.Equal(got, []netip.Addr{g.web.Address}) {
		t.Errorf("the host tells of conflicts about %v: %+v", got, g.status(g.back).Problems)
	}
	wantErr(t, g.ip(g.other, g.cidr, g.db.Address), ipam.ErrAddressInUse, g.name(g.back))
	g.ask(g.other, &ipam.AddressRelease{Network: local(g.cidr), Address: g.web.Address})
	for range 4 {
		g.look(g.web, g.db)
	}
	if got := g.conflicts(g.back); len(got) > 0 {
		t.Errorf("conflicts about %v, which nobody else has", got)
	}
	wantErr(t, g.ip(g.other, g.cidr, g.web.Address), ipam.ErrAddressInUse, g.name(g.back))
	g.check()
}

// The host starts over: its containers are taken in, and its client claims what it had. Neither the host itself nor another one
// hands any of it out before that, with or without the engine's socket, also where the process ends in between.
func TestRejoinOfAGivenUpHost(t *testing.T) {
	for _, sockets := range []bool{true, false} {
		g := newGiven(t, sockets)
		g.learnsLoss(g.other)
		g.peers[g.back].cfg.Join, g.peers[g.back].cfg.FoundAlone = false, true
		g.peers[g.back].cfg.Formation = ipam.Formation{}
		was := g.peers[g.back].machine.Self()
		g.rejoin(g.back)
		g.lockstep.start(g.back)
		g.heal()
		g.run(time.Minute, g.agreed)
		if g.peers[g.back].machine.Self() == was {
			t.Fatal("it is the same peer")
		}
		if sockets {
			wantErr(t, g.ask(g.back, docker(g.cidr)).Err, ipam.ErrNotReady, "list")
		}
		for _, i := range []int{g.back, g.other} {
			for _, a := range []netip.Addr{g.web.Address, g.vm} {
				if err := g.ip(i, g.cidr, a); err == nil {
					t.Errorf("sockets %t: %v is handed out on %s", sockets, a, g.name(i))
				}
			}
		}
		unclaimed := g.peers[g.back].machine.Unclaimed()
		if want := []ipam.ClientRequest{{Pool: g.cidr.String(), Address: g.vm, ID: "vm"}}; !slices.Equal(unclaimed, want) {
			t.Fatalf("unclaimed are %+v", unclaimed)
		}
		for range 3 {
			g.look(g.web, g.db)
		}
		if r := g.ask(g.back, &unclaimed[0]); r.Err != nil || len(g.peers[g.back].machine.Unclaimed()) > 0 {
			t.Errorf("sockets %t: the client does not get %v again: %v", sockets, g.vm, r.Err)
		}
		want := uint64(1)
		if sockets {
			want = 3
		}
		if held := uint64(len(g.containersOf(g.back, g.cidr))); held != want {
			t.Errorf("sockets %t: it holds %d addresses", sockets, held)
		}
		g.wait(25 * time.Minute)
		for range 2 {
			g.look(g.web, g.db)
		}
		wantErr(t, g.ip(g.other, g.cidr, g.vm), ipam.ErrAddressInUse, "vm")
		if !sockets { // no list tells that its container is gone: the engine does, or an operator
			for _, i := range []int{g.back, g.other} {
				wantErr(t, g.ip(i, g.cidr, g.db.Address), ipam.ErrAddressInUse, g.name(g.back))
			}
			if r := g.ask(g.back, &ipam.FreeRequest{Address: g.db.Address}); r.Err != nil || len(r.Addresses) != 1 {
				t.Errorf("an operator frees %+v, %v", r.Addresses, r.Err)
			}
			g.ask(g.back, &ipam.AddressRelease{Network: g.n, Address: g.web.Address})
			g.wait(11 * time.Minute) // the others heed what was said last
			for _, a := range []netip.Addr{g.web.Address, g.db.Address} {
				if err := g.ip(g.back, g.cidr, a); err != nil {
					t.Errorf("%v, which nothing uses, is refused: %v", a, err)
				}
			}
		}
		if got := g.conflicts(g.back); len(got) > 0 {
			t.Errorf("sockets %t: conflicts about %v", sockets, got)
		}
		g.check()
	}
}

// A host that has left by force, and was forgotten then, stays out.
func TestForgottenAfterItLeft(t *testing.T) {
	c := newLockstep(t, 3)
	c.found()
	c.ask(2, docker(prefix("10.50.0.0/24")))
	if err := c.ask(2, &ipam.LeaveRequest{Force: true}).Err; err != nil {
		t.Fatal(err)
	}
	c.die(2)
	if err := c.ask(0, &ipam.ForgetRequest{Peer: "host-2"}).Err; err != nil {
		t.Fatal(err)
	}
	c.learnsLoss(0)
	for range 2 {
		c.wait(2 * time.Minute)
		if n := len(c.peers[0].machine.State().Roster); n != 2 || !c.isSuspended(2) {
			t.Errorf("the roster has %d peers, and it is %s", n, c.status(2).State)
		}
		c.start(2)
		c.heal()
	}
	c.rejoin(2)
	c.run(time.Minute, c.agreed)
}

// A database that an earlier release wrote, which applied the slot that gave its peer up, is that of a suspended peer. What holders
// have is not lost.
func TestDatabaseThatHasAppliedItsLoss(t *testing.T) {
	g := newGiven(t, true)
	p := g.peers[g.back]
	p.cfg = ipam.Without(p.cfg, ipam.RuleSuspend)
	keep := maps.Clone(p.disk)
	holdings := map[string][]byte{}
	for k, v := range p.disk {
		if strings.HasPrefix(k, "holding") {
			holdings[k] = v
		}
	}
	state := g.peers[g.other].machine.State()
	p.disk = keep
	p.disk.Commit([]ipam.Record{{Bucket: "chronicle", Key: []byte{0}, Value: state.Encode()}})
	for k := range p.disk {
		if strings.HasPrefix(k, "chronicle") && !strings.HasSuffix(k, "\x00\x00\x00") && k[len("chronicle")+2] == 1 {
			delete(p.disk, k)
		}
	}
	p.cfg = ipam.Without(ipam.Config{Name: p.cfg.Name, Join: true, HostBoot: ipam.HostBoot{ID: "same"}, AwaitInventory: true, Machine: p.cfg.Machine}, 0)
	g.dead = nil
	g.lockstep.start(g.back)
	g.heal()
	g.wait(2 * time.Second)
	if !g.isSuspended(g.back) {
		t.Fatalf("it is %s", g.status(g.back).State)
	}
	for k, v := range holdings {
		if string(p.disk[k]) != string(v) {
			t.Errorf("the record of %q is lost", k)
		}
	}
	remains, err := p.machine.Remains()
	if err != nil || len(remains.Clients) != 1 || !slices.Contains(remains.Used, g.web.Address) {
		t.Errorf("there remains %+v, %v", remains, err)
	}
	wantErr(t, g.ip(g.other, g.cidr, g.web.Address), ipam.ErrAddressInUse, g.name(g.back))
}

// A database that lies at another place than it was written at is not used, until an operator says that it was moved.
func TestDatabaseAtAnotherPlace(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) { c.peers[2].cfg.Place = "here" })
	c.found()
	cidr := prefix("10.50.0.0/24")
	c.peers[2].cfg.Place = "there"
	for range 2 {
		c.start(2)
		c.wait(5 * time.Second)
		wantErr(t, c.ask(2, docker(cidr)).Err, ipam.ErrSuspended, "moved")
		if next := c.status(2).Problems[0].Next; !strings.Contains(next, "ringlet trust") || !strings.Contains(next, "ringlet rejoin") {
			t.Errorf("the next step is %q", next)
		}
	}
	c.peers[2].cfg.Place = "here" // it is started again where it was
	c.start(2)
	c.wait(5 * time.Second)
	if err := c.ask(2, docker(cidr)).Err; err != nil {
		t.Error(err)
	}
	c.peers[2].cfg.Place = "there"
	c.start(2)
	if err := c.ask(2, &ipam.TrustRequest{}).Err; err != nil {
		t.Fatal(err)
	}
	for range 2 {
		c.wait(5 * time.Second)
		if err := c.ask(2, docker(cidr)).Err; err != nil {
			t.Error(err)
		}
		wantErr(t, c.ask(2, &ipam.TrustRequest{}).Err, ipam.ErrBadRequest)
		c.start(2)
	}
}

// The data of a host that is alone was moved: after a rejoin the host would wait for others that there are not.
func TestMovedDatabaseWithoutOthers(t *testing.T) {
	c := newLockstepWith(t, 1, func(c *lockstep) { c.peers[0].cfg.Place = "here" })
	c.run(time.Minute, c.agreed)
	c.mustAsk(0, &ipam.PoolCreation{CIDR: lab50})
	c.peers[0].cfg.Place = "there"
	c.start(0)
	wantErr(t, c.ask(0, docker(lab50)).Err, ipam.ErrSuspended, "moved")
	if next := c.status(0).Problems[0].Next; !strings.Contains(next, "ringlet trust") || strings.Contains(next, "rejoin") {
		t.Errorf("the next step is %q", next)
	}
	_, err := c.peers[0].machine.Remains()
	wantErr(t, err, ipam.ErrBadRequest, "ringlet trust", "remove its data")
	c.mustAsk(0, &ipam.TrustRequest{})
	c.mustAsk(0, docker(lab50))
}

// It was given up while its data was moved: it hands out nothing before it knows.
func TestTrustedDatabaseOfAGivenUpHost(t *testing.T) {
	c := newLockstepWith(t, 3, func(c *lockstep) { c.peers[2].cfg.Place = "here" })
	c.found()
	c.die(2)
	c.giveUp(0, 2)
	c.peers[2].cfg.Place = "there"
	c.dead = nil
	c.start(2)
	c.ask(2, &ipam.TrustRequest{})
	if err := c.ask(2, docker(prefix("10.50.0.0/24"))).Err; err == nil {
		t.Error("it hands out what may be another's")
	}
	c.heal()
	c.run(time.Minute, func() bool { return strings.Contains(c.status(2).Problems[0].Text, "ringlet forget") })
}

// A command that would give a peer up, and has no effect, gives nothing up.
func TestForgetWithoutEffect(t *testing.T) {
	c, _ := lab(t)
	m := c.peers[2].machine
	slot, author := m.State().Slot+1, c.peers[0].machine.Self()
	batch := chronicle.EncodeBatch([]chronicle.Command{{Author: author, Number: m.State().Number(author) + 1, Action: chronicle.Forget{Peer: m.Self(), Evicted: 1}}})
	c.say(2, 0, wire.Decided{First: slot, Values: [][]byte{batch}}, func(h *wire.Header) { h.Slot, h.Digest = 0, 0 })
	if m.State().Slot != slot || c.isSuspended(2) {
		t.Errorf("it is at slot %d, suspended: %t", m.State().Slot, c.isSuspended(2))
	}
}
