package engine_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/effect"
	"github.com/ringlet/ringlet/ipam/engine"
	"github.com/ringlet/ringlet/ipam/poolid"
)

// bench is an engine whose time a test sets.
type bench struct {
	*engine.Engine
	w   effect.Writer
	out effect.Out
	now time.Time
	on  *engine.Subnet
	net poolid.Network
}

func newBench(lists bool) *bench {
	b := &bench{now: time.Unix(1000, 0)}
	b.w = effect.NewWriter(&b.out)
	b.w.Reset(b.now)
	b.Engine = engine.New(&b.w)
	b.Configure(engine.Config{Lists: lists, Grace: 20 * time.Second})
	b.Start(7)
	b.Greet()
	subnet := netip.MustParsePrefix("10.50.0.0/24")
	b.on, b.net = b.On(subnet), poolid.Network{Space: poolid.Local, Pool: subnet, Range: subnet}
	return b
}

func (b *bench) after(d time.Duration) { b.now = b.now.Add(d); b.w.Reset(b.now) }

// list shows so many networks on the subnet.
func (b *bench) list(n int) {
	mark := b.Mark(b.now)
	b.Answers(mark)
	b.ListNetworks(map[netip.Prefix]int{b.net.Pool: n}, mark)
}

// A network in the making is on no list yet: a minute after the last request for a part of it, a list tells.
func TestInTheMaking(t *testing.T) {
	b := newBench(true)
	b.list(0)
	b.Enter(b.net, false)
	for range 3 {
		b.after(40 * time.Second)
		b.AskPart(b.net.ID())
		if b.list(0); !b.on.Has() {
			t.Fatal("a network in the making is gone")
		}
	}
	b.after(time.Minute)
	if b.list(0); b.on.Has() {
		t.Error("a network is there that was never made")
	}
}

// A network that the driver refuses is released, and gone with the next list; but not in the first minute of the peer, in
// which that may be the release of an earlier one.
func TestRefused(t *testing.T) {
	for _, young := range []bool{false, true} {
		b := newBench(true)
		if !young {
			b.after(time.Minute)
		}
		b.list(0)
		b.Enter(b.net, false)
		b.Release(b.net)
		if b.list(0); b.on.Has() != young {
			t.Errorf("young %t: a refused network is there: %t", young, b.on.Has())
		}
	}
}

// A second network is in the making beside one that goes: a list that shows none does not end it.
func TestSecondInTheMaking(t *testing.T) {
	b := newBench(true)
	b.after(time.Minute)
	b.Enter(b.net, false)
	b.list(1)
	other := b.net
	other.Gateway = poolid.GatewayNone
	b.after(time.Second)
	b.Enter(other, false)
	b.list(1)
	b.Release(b.net)
	b.after(time.Second)
	if b.list(0); b.Network(b.net.ID()) != nil || b.Network(other.ID()) == nil {
		t.Errorf("the first is there: %t, the second: %t", b.Network(b.net.ID()) != nil, b.Network(other.ID()) != nil)
	}
}

// Without lists, releases are believed, as many as there were requests.
func TestWithoutLists(t *testing.T) {
	b := newBench(false)
	b.StartsContainers(false)
	for range 2 {
		b.Enter(b.net, false)
	}
	for i, gone := range []bool{false, true} {
		if b.Release(b.net) {
			b.Believe(b.on)
		}
		if b.on.Has() == gone {
			t.Errorf("after release %d a network is there: %t", i+1, b.on.Has())
		}
	}
}

// What is on disk is the set.
func TestRestore(t *testing.T) {
	b, c := newBench(true), newBench(true)
	b.Enter(b.net, false)
	for _, r := range b.out.Save {
		if err := c.Restore(r.Key, r.Value); err != nil {
			t.Fatal(err)
		}
	}
	if ids := c.IDs(); len(ids) != 1 || ids[0] != b.net.ID() {
		t.Errorf("restored %v", ids)
	}
	for _, value := range [][]byte{nil, {2, 1}, {1, 0}, {1, 1, 2}} {
		if c.Restore([]byte(b.net.ID()), value) == nil {
			t.Errorf("the record %v is read", value)
		}
	}
}
