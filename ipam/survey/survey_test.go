package survey_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
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
	"github.com/ringlet/ringlet/ipam/sentence"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/start"
	"github.com/ringlet/ringlet/ipam/survey"
	"github.com/ringlet/ringlet/ipam/warning"
)

const grace = 20 * time.Second

var (
	cidr = netip.MustParsePrefix("10.0.0.0/24")
	own  = addr.Range{Start: 0, End: 128}
)

// A host owns the lower half of one pool; another peer owns the upper half, and answers nothing.
type host struct {
	now    time.Time
	fx     effect.Out
	out    effect.Writer
	parts  pool.Parts
	pools  *pool.Pools
	pool   *pool.Pool
	survey *survey.Survey
	kept   []addr.Offset // what was to be reserved for networks
}

var errWait = sentence.Wait(errors.New("wait"))

func newHost() *host {
	h := &host{now: time.Unix(1000, 0)}
	h.out = effect.NewWriter(&h.fx)
	h.step(0)
	e, me, edition := engine.New(&h.out), start.New(&h.out), uint64(1)
	h.parts = pool.Parts{
		Out: &h.out, Me: me, Engine: e, Doubts: doubt.New(&h.out, e), Conflicts: conflict.New(),
		Warnings: warning.New(&h.out), Database: newdb.New(&h.out, e, me), State: &chronicle.State{}, Edition: &edition,
	}
	e.Configure(engine.Config{Lists: true, Grace: grace})
	h.parts.Me.Begin(rand.New(rand.NewPCG(1, 1)))
	e.Start(h.parts.Me.Nonce())
	h.pools = pool.New(h.parts)
	h.pools.Configure(pool.Config{Name: "host-a", Grace: grace, CallTime: grace, NameOf: peer.ID.Short, Changed: func() {}})
	self := h.parts.Me.ID()
	h.parts.State.Apply([]chronicle.Command{{Author: self, Number: 1, Action: chronicle.Found{Cluster: [16]byte{7}, Peers: []chronicle.Founder{{ID: self, Name: "host-a", Boot: 1}}}}})
	h.parts.State.Apply([]chronicle.Command{{Author: self, Number: 2, Action: chronicle.CreatePool{CIDR: cidr, Deal: chronicle.DealNone}}})
	cp := h.parts.State.Pools[0]
	cp.Ring.Assign(own, self, 9)
	cp.Ring.Assign(addr.Range{Start: own.End, End: 256}, peer.ID{9}, 9)
	h.pool = h.pools.For(cp)
	_ = h.pool.FollowRing()
	h.survey = survey.New(h.pools, survey.Acts{
		Join: func(netip.Prefix) (*pool.Pool, error) { return h.pool, nil },
		Borrow: func(p *pool.Pool, o addr.Offset, _ *chronicle.Reservation) error {
			if p.Space.Mine(o) {
				return nil
			}
			return errWait
		},
		Take:        func(p *pool.Pool, o addr.Offset, h *space.Holder) error { return p.Take(o, h, new(call.AddressGrant)) },
		KeepBack:    func(_ *pool.Pool, o addr.Offset, _ chronicle.Kind) error { h.kept = append(h.kept, o); return nil },
		LeaveUnused: func(*pool.Pool) {},
		HasPlace:    func() bool { return true },
		IsLive:      func(peer.ID) bool { return true },
		GivesUp:     func(*pool.Pool) bool { return false },
		StillOthers: func(_ *pool.Pool, _ addr.Offset, err error) bool { return errors.Is(err, errWait) },
		OthersUse:   func(_ *pool.Pool, _ addr.Offset, err error) (why, other string) { return err.Error(), "" },
	})
	return h
}

// step begins another step, so much later.
func (h *host) step(later time.Duration) {
	h.now = h.now.Add(later)
	h.out.Reset(h.now)
}

// list has a complete list be taken in that has those addresses, and begins now.
func (h *host) list(at ...addr.Offset) time.Duration {
	n := call.InventoryNetwork{Name: "net", Subnets: []netip.Prefix{cidr}}
	for _, o := range at {
		n.Endpoints = append(n.Endpoints, call.InventoryEndpoint{Address: addr.Nth(cidr, o), Container: fmt.Sprintf("c%d", o)})
	}
	return h.survey.TakeList(&call.Inventory{After: h.parts.Engine.Mark(h.now), Networks: []call.InventoryNetwork{n}})
}

// take has a container have an address.
func (h *host) take(o addr.Offset) {
	_ = h.pool.Take(o, &space.Holder{Kind: space.Container, Name: "web", Key: pool.KeyOf(poolid.StickyNone, &space.Holder{})}, new(call.AddressGrant))
}

func (h *host) isHeld(o addr.Offset) bool {
	_, held := h.pool.Space.Holds(o)
	return held
}

// A list shows a container of which this peer knew nothing. Two lists without it free its address.
func Example() {
	h := newHost()
	for _, shown := range [][]addr.Offset{{7}, {}, {}} {
		h.step(time.Minute)
		fmt.Println(h.list(shown...), h.isHeld(7))
	}
	// Output:
	// 0s true
	// 20s true
	// 0s false
}

// What a list tells of an address that is held, and of one that is not.
func TestLists(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		do       func(*host)
		at       addr.Offset
		held     bool
		again    time.Duration
		conflict bool
	}{
		{"younger than the grace", func(h *host) { h.take(7); h.step(grace / 2) }, 7, true, grace, false},
		{"older, and one list lacks it", func(h *host) { h.take(7); h.step(time.Minute) }, 7, true, grace, false},
		{"listed, and another peer's", func(h *host) { h.list(200) }, 200, false, 0, false},
		{"listed, and a client's", func(h *host) {
			_ = h.pool.Take(7, &space.Holder{Kind: space.Client, Ref: "vm"}, new(call.AddressGrant))
			h.list(7)
		}, 7, true, 0, true},
	} {
		h := newHost()
		c.do(h)
		again := time.Duration(0)
		if c.again > 0 {
			again = h.list()
		}
		if h.isHeld(c.at) != c.held || again != c.again || h.parts.Conflicts.Has(h.pool.Place(c.at)) != c.conflict {
			t.Errorf("%s: held %v, again in %v, conflict %v", c.name, h.isHeld(c.at), again, h.parts.Conflicts.Has(h.pool.Place(c.at)))
		}
	}
}

// What another peer owns, and this host's engine lists, is asked for by each list.
func TestIncomplete(t *testing.T) {
	t.Parallel()
	h := newHost()
	if again := h.list(200); again != time.Second {
		t.Errorf("the next list is useful in %v", again)
	}
}

// Only a list of this start counts, and none that was begun before the last one.
func TestCounts(t *testing.T) {
	t.Parallel()
	h := newHost()
	of, late := h.parts.Engine.Mark(h.now), h.parts.Engine.Mark(h.now.Add(-time.Second))
	h.list()
	other := of
	other.Nonce++
	for _, c := range []struct {
		name  string
		after engine.Mark
		again time.Duration
		want  bool
	}{{"this one", of, 0, true}, {"another start", other, time.Second, false}, {"late", late, 0, false}} {
		if again, counts := h.survey.Counts(c.after); again != c.again || counts != c.want {
			t.Errorf("%s: %v, %v", c.name, again, counts)
		}
	}
}

// The host holds what it has itself, until it has that no more. A container that it has, too, is a conflict.
func TestHost(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.take(8)
	h.parts.Engine.TakeHost([]netip.Prefix{netip.PrefixFrom(addr.Nth(cidr, 7), 24), netip.PrefixFrom(addr.Nth(cidr, 8), 24)}, nil)
	h.survey.TakeHost(h.now)
	if kind, _ := h.pool.Space.Holds(7); kind != space.Host || !h.parts.Conflicts.Has(h.pool.Place(8)) {
		t.Errorf("7 is held by %v, conflict about 8: %v", kind, h.parts.Conflicts.Has(h.pool.Place(8)))
	}
	h.parts.Engine.TakeHost(nil, nil)
	for range 2 {
		h.survey.TakeHost(h.now)
		h.step(grace)
	}
	h.survey.TakeHost(h.now)
	if h.isHeld(7) || !h.isHeld(8) {
		t.Errorf("7 is held: %v, 8 is: %v", h.isHeld(7), h.isHeld(8))
	}
}

// What a network keeps back is to be reserved.
func TestKeepsBack(t *testing.T) {
	t.Parallel()
	h := newHost()
	h.survey.TakeList(&call.Inventory{After: h.parts.Engine.Mark(h.now), Networks: []call.InventoryNetwork{
		{Subnets: []netip.Prefix{cidr}, Auxiliary: []netip.Addr{addr.Nth(cidr, 9)}},
	}})
	if len(h.kept) != 1 || h.kept[0] != 9 || !h.pool.Keeps(9) {
		t.Errorf("to be reserved: %v", h.kept)
	}
}
