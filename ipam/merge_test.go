package ipam_test

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/wire"
)

// teller is a founder that tells what it knows, and the last slot it reached.
type teller struct {
	*machinetest.Host
	last uint64
}

// newTeller returns a founder that has decided some slots.
func newTeller(tb testing.TB) *teller {
	tb.Helper()
	h := machinetest.NewHost(tb, ipam.Config{Name: "host-a"})
	for _, cidr := range []string{"10.1.0.0/28", "10.2.0.0/24", "10.3.0.0/16", "fd00:1::/64"} {
		p := h.Call(&ipam.PoolRequest{Space: ipam.Local, Pool: netip.MustParsePrefix(cidr), Gateway: ipam.GatewayLast})
		for range 20 {
			h.Call(&ipam.AddressRequest{Network: p.Pool.Network, Purpose: ipam.ForContainer})
		}
	}
	h.Call(&ipam.PoolCreation{CIDR: netip.MustParsePrefix("10.4.0.0/24"), Name: "lab"})
	h.Call(&ipam.PoolRemoval{Pool: "lab"})
	return &teller{h, h.Machine().State().Slot}
}

// page returns the frames that answer a peer which knows the slots up to after.
func (s *teller) page(after uint64) []*wire.Frame {
	id := s.Machine().Identity()
	ask := &wire.Frame{
		Header: wire.Header{Cluster: s.Machine().State().Cluster, From: peer.ID{9}, To: id.ID, Boot: 1},
		Body:   wire.Pull{After: after},
	}
	var out []*wire.Frame
	for _, send := range s.Machine().Step(s.Now, &ipam.Message{Frame: ask}).Send {
		if f, err := wire.Decode(send.Frame); err == nil {
			out = append(out, f)
		}
	}
	return out
}

// TestMergeInAnyOrder gives a joiner the slots that were decided, one by one,
// in pages, or as whole states, in any order and any number of times: its
// state is a function of the last slot that it knows, and in the end that of
// the others.
func TestMergeInAnyOrder(t *testing.T) {
	src := newTeller(t)
	states := map[uint64]uint64{} // digest by slot, as a reader of the slots in order has it
	all := src.page(0)
	if len(all) == 0 {
		t.Fatal("the founder tells nothing")
	}
	whole, ok := all[0].Body.(wire.Decided)
	if !ok || uint64(len(whole.Values)) != src.last {
		t.Fatalf("the founder tells %T, want all %d slots", all[0].Body, src.last)
	}
	joiner := func(seed uint64) *ipam.Machine {
		m, err := ipam.New(ipam.Config{Name: "host-b", Join: true, Rand: rand.New(rand.NewPCG(seed, 77))})
		if err != nil {
			t.Fatal(err)
		}
		m.Step(machinetest.Start, ipam.Tick{})
		return m
	}
	tell := func(m *ipam.Machine, body wire.Body, slot, digest uint64) {
		h := all[0].Header
		h.To, h.Slot, h.Digest = m.Self(), slot, digest
		m.Step(machinetest.Start, &ipam.Message{Frame: &wire.Frame{Header: h, Body: body}})
	}
	reader := joiner(1)
	snapshots := map[uint64][]byte{}
	for i, v := range whole.Values {
		slot := uint64(i + 1)
		tell(reader, wire.Decided{First: slot, Values: [][]byte{v}}, 0, 0)
		states[slot], snapshots[slot] = reader.State().Digest(), reader.State().Encode()
	}
	if states[src.last] != src.Machine().State().Digest() {
		t.Fatalf("read in order, the slots make another state than the founder's: slot %d of %d", reader.State().Slot, src.last)
	}
	rapid.Check(t, func(rt *rapid.T) {
		m := joiner(2)
		for range rapid.IntRange(0, 40).Draw(rt, "messages") {
			first := rapid.Uint64Range(1, src.last).Draw(rt, "first")
			if rapid.Bool().Draw(rt, "snapshot") {
				tell(m, wire.Snapshot{State: snapshots[first]}, first, states[first])
			} else {
				last := rapid.Uint64Range(first, min(first+5, src.last)).Draw(rt, "last")
				tell(m, wire.Decided{First: first, Values: whole.Values[first-1 : last]}, last, states[last])
			}
			if slot := m.State().Slot; slot > 0 && m.State().Digest() != states[slot] {
				rt.Fatalf("at slot %d the state is not that of the others", slot)
			}
			for _, err := range m.Check(machinetest.Start) {
				rt.Fatal(err)
			}
		}
		tell(m, whole, src.last, states[src.last])
		if s := m.State(); s.Slot != src.last || s.Digest() != states[src.last] {
			rt.Fatalf("in the end slot %d, want %d", s.Slot, src.last)
		}
	})
}

// TestForeignAndStale gives a peer frames that must change nothing.
func TestForeignAndStale(t *testing.T) {
	src := newTeller(t)
	id, state := src.Machine().Identity(), src.Machine().State()
	good := wire.Header{Cluster: state.Cluster, From: peer.ID{7}, To: id.ID, Boot: 5, Nonce: 1, Slot: state.Slot, Digest: state.Digest()}
	send := func(h wire.Header, body wire.Body) *ipam.Effects {
		return src.Machine().Step(src.Now, &ipam.Message{Frame: &wire.Frame{Header: h, Body: body}})
	}
	send(good, wire.Beat{})
	foreign, stale, double := good, good, good
	foreign.Cluster[0]++
	stale.Boot, double.Nonce = 4, 2
	later := wire.Decided{First: state.Slot + 1, Values: [][]byte{{0}}}
	for name, h := range map[string]wire.Header{"another cluster": foreign, "an earlier start": stale, "another of the same boot": double} {
		send(h, later)
		if src.Machine().State().Slot != src.last {
			t.Errorf("a frame of %s was believed", name)
		}
	}
	for name, h := range map[string]wire.Header{"an earlier start": stale, "another of the same boot": double} {
		told := false
		for _, s := range send(h, wire.Beat{}).Send {
			f, err := wire.Decode(s.Frame)
			_, copied := f.Body.(wire.Copied)
			told = told || err == nil && copied
		}
		if !told {
			t.Errorf("%s is not told that there is a later one", name)
		}
	}
}

// TestCopyStops lets a peer hear that there is a later start of itself: it
// hands out nothing any more, and says so.
func TestCopyStops(t *testing.T) {
	src := newTeller(t)
	id, state := src.Machine().Identity(), src.Machine().State()
	h := wire.Header{Cluster: state.Cluster, From: peer.ID{7}, To: id.ID, Boot: 5, Slot: state.Slot, Digest: state.Digest()}
	src.Machine().Step(src.Now, &ipam.Message{Frame: &wire.Frame{Header: h, Body: wire.Copied{
		Boot: id.Boot, Nonce: id.Nonce, KnownBoot: id.Boot + 3, KnownNonce: 1,
	}}})
	if s := src.Machine().Status(src.Now); s.State != ipam.Suspended || s.Verdict != ipam.Failed {
		t.Fatalf("state %s, verdict %s", s.State, s.Verdict)
	}
	reply := src.Call(&ipam.AddressRequest{
		Network: ipam.Network{Space: ipam.Local, Pool: netip.MustParsePrefix("10.2.0.0/24"), Range: netip.MustParsePrefix("10.2.0.0/24")},
		Purpose: ipam.ForContainer,
	})
	if ipam.Code(reply.Err) != "suspended" {
		t.Fatalf("got %v", reply.Err)
	}
	src.Now = src.Now.Add(time.Hour)
	src.Restart() // a new start is asked about anew
}
