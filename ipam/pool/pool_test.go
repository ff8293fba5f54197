package pool_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/call"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/conflict"
	"github.com/ringlet/ringlet/ipam/doubt"
	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/newdb"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/pool"
	"github.com/ringlet/ringlet/ipam/poolid"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/warning"
)

// A host is what a peer holds in one pool of 256 addresses, of which it owns all but the first and the last.
type host struct {
	now     time.Time
	fx      effect.Out
	out     effect.Writer
	edition uint64
	parts   pool.Parts
	pools   *pool.Pools
	pool    *pool.Pool
	network poolid.Network
	changed int
}

func newHost(actions ...chronicle.Action) *host {
	h := &host{now: time.Unix(1000, 0), edition: 1}
	h.out = effect.NewWriter(&h.fx)
	h.step(0)
	e, me := engine.New(&h.out), start.New(&h.out)
	h.parts = pool.Parts{
		Out: &h.out, Me: me, Engine: e, Doubts: doubt.New(&h.out, e), Conflicts: conflict.New(),
		Warnings: warning.New(&h.out), Database: newdb.New(&h.out, e, me), State: &chronicle.State{}, Edition: &h.edition,
	}
	e.Configure(engine.Config{Lists: true, Grace: 20 * time.Second})
	e.Start(7)
	h.parts.Me.Begin(rand.New(rand.NewPCG(1, 1)))
	h.pools = pool.New(h.parts)
	h.pools.Configure(pool.Config{
		Name: "host-a", Grace: 20 * time.Second, CallTime: 20 * time.Second, NameOf: peer.ID.Short, Changed: func() { h.changed++ },
	})
	self := h.parts.Me.ID()
	cidr := netip.MustParsePrefix("10.0.0.0/24")
	h.network = poolid.Network{Space: poolid.Local, Pool: cidr, Range: cidr}
	h.apply(chronicle.Found{Cluster: [16]byte{7}, Peers: []chronicle.Founder{{ID: self, Name: "host-a", Boot: 1}}})
	h.apply(chronicle.CreatePool{CIDR: cidr, Deal: chronicle.DealAll, Reserved: []chronicle.Reservation{
		{Range: addr.One(0), Kind: chronicle.KindNetwork}, {Range: addr.One(255), Kind: chronicle.KindBroadcast},
	}})
	h.pool = h.pools.For(h.parts.State.Pools[0])
	for _, a := range actions {
		h.apply(a)
	}
	_ = h.pool.FollowRing()
	return h
}

// apply has a command be decided.
func (h *host) apply(a chronicle.Action) {
	id := h.parts.Me.ID()
	h.parts.State.Apply([]chronicle.Command{{Author: id, Number: h.parts.State.Number(id) + 1, Action: a}})
	h.edition++
}

// step begins another step, so much later.
func (h *host) step(later time.Duration) {
	h.now = h.now.Add(later)
	h.out.Reset(h.now)
}

// run has a container of that name start, which gets any address.
func (h *host) run(name string) call.AddressGrant {
	var g call.AddressGrant
	c := container(name)
	h.pool.TakeAny(addr.Whole(h.network.Pool), &c, 0, &g)
	return g
}

func container(name string) space.Holder {
	h := space.Holder{Kind: space.Container, Name: name}
	h.Key = pool.KeyOf(poolid.StickyName, &h)
	return h
}

// kindAt says what holds an address.
func (h *host) kindAt(o addr.Offset) string {
	if kind, held := h.pool.Space.Holds(o); held {
		return kind.String()
	}
	return "free"
}

// A container gets an address. Its name leads back to it once the engine has released it.
func Example() {
	h := newHost()
	web := container("web")
	fmt.Println(h.run("web").Address, h.fx.Note[0].Use.Name)
	h.step(time.Minute)
	fmt.Println(h.pool.Release(1, &h.network), h.pool.TraceOf(poolid.StickyName, &web).Former)
	// Output:
	// 10.0.0.1/24 web
	// true 1
}

// What is freed goes to the strongest of those who are known to have it (R64).
func TestSettles(t *testing.T) {
	t.Parallel()
	const at = 7
	a := addr.Nth(netip.MustParsePrefix("10.0.0.0/24"), at)
	keep := chronicle.Reserve{Pool: chronicle.PoolKey{Slot: 2}, Reservation: chronicle.Reservation{Range: addr.One(at), Kind: chronicle.KindKeptForName, Note: "db"}}
	for _, c := range []struct {
		name    string
		actions []chronicle.Action
		known   func(*host)
		want    space.Kind
	}{
		{"a list has a container", nil, func(h *host) { h.pool.Seen = map[addr.Offset]string{at: "c1"} }, space.Container},
		{"the host has it", nil, func(h *host) { h.parts.Engine.TakeHost([]netip.Prefix{netip.PrefixFrom(a, 24)}, nil) }, space.Host},
		{"a peer warns of it", nil, func(h *host) { h.parts.Warnings.Take(a, peer.ID{9}, h.parts.Me.ID()) }, space.Stranger},
		{"a list, and the host", nil, func(h *host) {
			h.pool.Seen = map[addr.Offset]string{at: "c1"}
			h.parts.Engine.TakeHost([]netip.Prefix{netip.PrefixFrom(a, 24)}, nil)
		}, space.Container},
		{"it is kept for a name", []chronicle.Action{keep, chronicle.Borrow{Pool: keep.Pool, At: at}}, func(*host) {}, space.Kept},
		{"it is kept for a name, and a peer warns of it", []chronicle.Action{keep, chronicle.Borrow{Pool: keep.Pool, At: at}}, func(h *host) {
			h.parts.Warnings.Take(a, peer.ID{9}, h.parts.Me.ID())
		}, space.Stranger},
	} {
		h := newHost(c.actions...)
		c.known(h)
		h.pool.SettleAt(addr.One(at))
		if got := h.kindAt(at); got != c.want.String() {
			t.Errorf("%s: it is %s, want %v", c.name, got, c.want)
		}
	}
}

// The space follows the ring: what another peer owns by now cannot be handed out, and nothing of it stays on disk.
func TestFollowsTheRing(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.run("web")
	h.step(time.Minute)
	h.pool.Release(1, &h.network)
	h.step(0)
	h.pool.Ring.Assign(addr.Range{Start: 0, End: 128}, peer.ID{9}, 9)
	if err := h.pool.FollowRing(); err != nil {
		t.Fatal(err)
	}
	if h.pool.Space.Mine(1) || !h.pool.Space.Mine(200) || len(h.fx.Save) != 1 || h.fx.Save[0].Value != nil {
		t.Errorf("1 is mine: %v, 200 is: %v, written: %v", h.pool.Space.Mine(1), h.pool.Space.Mine(200), h.fx.Save)
	}
	h.run("db")
	h.pool.Ring.Assign(addr.Range{Start: 128, End: 256}, peer.ID{9}, 9)
	if err := h.pool.FollowRing(); err == nil {
		t.Error("what a container has went to another peer, and nobody noticed")
	}
}

// A release behind a holder that ended without one frees nothing (R31).
func TestDoubtfulRelease(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.run("web")
	h.pool.Free(1)
	db := container("db")
	var g call.AddressGrant
	if err := h.pool.Take(1, &db, &g); err != nil {
		t.Fatal(err)
	}
	if h.pool.Release(1, &h.network) || h.kindAt(1) != "container" {
		t.Error("the release of web has freed the address of db")
	}
}

// A grant goes back if it was not delivered, unless something has confirmed it since (R52).
func TestWithdraws(t *testing.T) {
	t.Parallel()
	for _, confirmed := range []bool{false, true} {
		h := newHost()
		g := h.run("web")
		if confirmed {
			h.pool.Confirm(1, container("web"))
		}
		if got := h.pool.Withdraw(&g.Ticket); got == confirmed {
			t.Errorf("confirmed %v: withdrawn %v", confirmed, got)
		}
	}
}

// What answered a probe keeps its address for an hour.
func TestStrangers(t *testing.T) {
	t.Parallel()
	h := newHost()
	g := h.run("web")
	if !h.pool.TakeStranger(&g.Ticket, addr.MAC{2}) || h.kindAt(1) != "stranger" {
		t.Fatalf("it is %s", h.kindAt(1))
	}
	h.step(pool.StrangerTime - time.Second)
	h.pools.FreeStrangers()
	before := h.kindAt(1)
	h.step(time.Second)
	h.pools.FreeStrangers()
	if after := h.kindAt(1); before != "stranger" || after != "free" || h.changed != 1 || !h.pools.StrangersUntil().IsZero() {
		t.Errorf("it is %s, then %s; %d changes, until %v", before, after, h.changed, h.pools.StrangersUntil())
	}
}

// Who comes back to an address that is held.
func TestReturns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, as string
		listed   bool
		want     pool.Return
	}{
		{"another name", "db", false, pool.IsOther},
		{"its name, and no list since", "web", false, pool.IsOther},
		{"its name, and a list lacks it", "web", true, pool.BackOnceTold},
	} {
		h := newHost()
		h.parts.Engine.Enter(h.network, false)
		w := container("web")
		w.Network = pool.NetworkKey(h.network.ID())
		if err := h.pool.Take(1, &w, new(call.AddressGrant)); err != nil {
			t.Fatal(err)
		}
		h.step(time.Second)
		if c.listed {
			h.parts.Engine.SetComplete(h.parts.Engine.Mark(h.now))
		}
		as := container(c.as)
		if got := h.pool.Retried(&h.network, 1, &as); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What a range has, when an operator excludes it: what is free is reserved, the rest is told.
func TestExcludes(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.run("web")
	h.run("db")
	found := h.pool.Collisions()
	actions := found.Exclude(addr.Range{Start: 0, End: 5}, "racks", nil)
	if len(actions) != 1 || actions[0].(chronicle.Reserve).Range != (addr.Range{Start: 3, End: 5}) {
		t.Errorf("to be reserved: %v", actions)
	}
	if len(found.List) != 2 || found.List[0].First != addr.Nth(h.network.Pool, 1) {
		t.Errorf("collisions: %v", found.List)
	}
	h.apply(actions[0])
	if ends, n := h.pool.Unreserving(addr.Range{Start: 4, End: 9}, chronicle.KindExcluded); n != 1 || len(ends) != 1 {
		t.Errorf("%v would free %d addresses", ends, n)
	}
}

// What an operator, or another peer, may be given of what is held.
func TestAsked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		holder  space.Holder
		frees   bool
		gives   bool
		reserve bool
	}{
		{space.Holder{Kind: space.Container, Name: "web"}, false, false, false},
		{space.Holder{Kind: space.Client, Ref: "vm"}, true, false, false},
		{space.Holder{Kind: space.Host}, false, false, true},
		{space.Holder{Kind: space.Kept, Name: "web"}, false, true, true},
	} {
		h := newHost()
		if err := h.pool.Take(7, &c.holder, new(call.AddressGrant)); err != nil {
			t.Fatal(err)
		}
		frees := false
		for o, rec := range h.pool.Meant(netip.Addr{}, func(space.Holder) bool { return true }) {
			frees = h.pool.MayFree(o, rec) == nil
		}
		gives, reserve := h.pool.HeldFrom(peer.ID{9}, 7, false) == "", h.pool.HeldFrom(peer.ID{9}, 7, true) == ""
		if frees != c.frees || gives != c.gives || reserve != c.reserve {
			t.Errorf("%v: freed by hand %v, given %v, reserved %v", c.holder.Kind, frees, gives, reserve)
		}
	}
}

// A pool that nobody uses goes, with what the host has there.
func TestGoes(t *testing.T) {
	t.Parallel()
	h := newHost()
	own := addr.Nth(h.network.Pool, 7)
	h.parts.Engine.TakeHost([]netip.Prefix{netip.PrefixFrom(own, 24)}, nil)
	h.pool.SettleAt(addr.Whole(h.network.Pool))
	if actions := h.pool.Deletion(); !h.pool.IsIdle() || len(actions) != 4 {
		t.Errorf("idle: %v, to be decided: %v", h.pool.IsIdle(), actions)
	}
	h.run("web")
	if h.pool.IsIdle() || h.pool.UseText() != "host-a has 2 addresses of it" {
		t.Errorf("idle: %v, %s", h.pool.IsIdle(), h.pool.UseText())
	}
	h.pool.FreeHost([]addr.Range{addr.Whole(h.network.Pool)})
	if h.kindAt(7) != "free" || h.kindAt(1) != "container" {
		t.Errorf("the host has %s, and web %s", h.kindAt(7), h.kindAt(1))
	}
}

// A network finds its pool again at once, until the state changes.
func TestServes(t *testing.T) {
	t.Parallel()
	h := newHost()
	if h.pools.ServedBefore(&h.network) != nil {
		t.Fatal("it was served before")
	}
	h.pools.Serve(h.pool, &h.network)
	s := h.pools.ServedBefore(&h.network)
	if s == nil || s.Pool != h.pool || !h.pools.IsCurrent(s) || h.pools.Serving(&h.network) != h.pool {
		t.Fatalf("served by %v", s)
	}
	h.edition++
	if h.pools.IsCurrent(s) {
		t.Error("it is current in another state")
	}
	h.pools.Drop(h.pool)
	if h.pools.Len() != 0 || h.pools.At(addr.Nth(h.network.Pool, 7)) != nil {
		t.Error("the pool is still there")
	}
}

// A database of records makes the pool that wrote them.
func TestRestores(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.run("web")
	saved := h.fx.Save
	fresh := newHost()
	r := fresh.pools.Restore()
	for _, rec := range saved {
		if rec.Bucket == "holding" {
			if err := r.Visit(rec.Key, rec.Value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := r.Finish(); err != nil || fresh.kindAt(1) != "container" {
		t.Errorf("%v, the address is %s", err, fresh.kindAt(1))
	}
	if err := r.Visit([]byte("x"), nil); err == nil {
		t.Error("a record that is none was restored")
	}
}

// What the state says, and will say, of the networks of this host, and what ends that.
func TestUse(t *testing.T) {
	t.Parallel()
	h := newHost()
	key := h.pool.Key
	use, end := chronicle.Use{Pool: key}, chronicle.Unuse{Pool: key}
	for _, c := range []struct {
		name        string
		underWay    []chronicle.Action
		told, parts bool
	}{
		{"nothing is under way", nil, true, false},
		{"it ends", []chronicle.Action{end}, false, true},
		{"it ends, and begins again", []chronicle.Action{end, use}, true, true},
		{"another pool goes", []chronicle.Action{chronicle.DeletePool{}}, true, false},
	} {
		all := c.underWay
		if told := h.pool.ToldUse(all); told != c.told {
			t.Errorf("%s: told %v", c.name, told)
		}
		if parts, earlier := h.pool.IsParting(all, false), h.pool.IsParting(all, true); parts != c.parts || !earlier {
			t.Errorf("%s: parting %v, and %v behind an earlier start", c.name, parts, earlier)
		}
	}
	if !h.pool.MayBeUsed() {
		t.Error("a pool is free of networks before the first list")
	}
}

// Why no address is left.
func TestFull(t *testing.T) {
	t.Parallel()
	h := newHost()
	for h.run("web").Address.IsValid() {
		h.step(0)
	}
	for want, text := range map[addr.Range]string{addr.Whole(h.network.Pool): "254", addr.One(7): "held by container web"} {
		if err := h.pool.ErrFull(want, h.network.Range, false); !strings.Contains(err.Error(), text) {
			t.Errorf("%v: %v", want, err)
		}
	}
}
