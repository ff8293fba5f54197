package chronicle_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// wantKept fails the test where a range that is somebody's, other than self, if the batch was decided,
// is not kept from self in the supposed state.
func wantKept(t *testing.T, w *world, batch []chronicle.Command, self peer.ID) {
	t.Helper()
	truth, err := chronicle.DecodeState(w.s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	truth.Apply(batch)
	s, err := w.s.Supposing(batch, self)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for _, p := range truth.Pools {
		q := s.PoolOf(p.CIDR)
		if q == nil {
			t.Errorf("pool %v, which others may have, is not there: %d pools", p.CIDR, len(s.Pools))
			continue
		}
		for r, tok := range p.Ring.All() {
			if tok.Owner == self || tok.Owner == ring.Free || tok.Owner == ring.Reserved {
				continue
			}
			for rr, got := range q.Ring.Within(r) {
				if got.Owner == self || got.Owner == ring.Free {
					t.Errorf("%v of %v is %v's if it was decided, and %v's as supposed", rr, p.CIDR, tok.Owner, got.Owner)
				}
			}
		}
		for _, u := range p.Users {
			if u != self && !q.UsedBy(u) {
				t.Errorf("%v uses %v if it was decided, and does not as supposed", u, p.CIDR)
			}
		}
	}
}

// The survivor and another open in one slot: which block the other gets depends on what the survivor got.
func TestSupposingOpenBehindOwnOpen(t *testing.T) {
	w := found(t, a, b, c)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	for range 15 {
		w.ok(c, chronicle.Open{Pool: k, Range: span(0, 240), Size: 16})
	}
	w.ok(c, chronicle.Close{Pool: k, Range: span(64, 80)}) // free: [64,80) [240,256)
	wantKept(t, w, []chronicle.Command{
		{Author: a, Number: 100, Action: chronicle.Open{Pool: k, Range: span(0, 256), Size: 16}},
		{Author: b, Number: 100, Action: chronicle.Open{Pool: k, Range: span(0, 256), Size: 16}},
	}, a)
}

// Another closes a range and a third opens it in one slot.
func TestSupposingOpenBehindClose(t *testing.T) {
	w := found(t, a, b, c)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	for range 16 {
		w.ok(a, chronicle.Open{Pool: k, Range: span(0, 256), Size: 16})
	}
	wantKept(t, w, []chronicle.Command{
		{Author: a, Number: 100, Action: chronicle.Close{Pool: k, Range: span(64, 80)}},
		{Author: b, Number: 100, Action: chronicle.Open{Pool: k, Range: span(0, 256), Size: 16}},
	}, a)
}

// A pool makes room for a wider one, which is what docker network create does.
func TestSupposingAPoolThatMakesRoom(t *testing.T) {
	w := found(t, a, b, c)
	k := w.pool(b, "10.0.0.0/24", chronicle.DealNone)
	wantKept(t, w, []chronicle.Command{
		{Author: b, Number: 100, Action: chronicle.Unuse{Pool: k}},
		{Author: b, Number: 101, Action: chronicle.DeletePool{Pool: k}},
		{Author: b, Number: 102, Action: chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/16"), Deal: chronicle.DealHalf}},
	}, a)
}

// A peer is evicted and a pool made in one slot: the deal is another one.
func TestSupposingADealWithoutTheEvicted(t *testing.T) {
	w := found(t, a, b, c)
	wantKept(t, w, []chronicle.Command{
		{Author: b, Number: 100, Action: chronicle.Evict{Peer: c}},
		{Author: b, Number: 101, Action: chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Deal: chronicle.DealHalf}},
	}, a)
}

// Another says that it uses a pool, and shares what is reserved there.
func TestSupposingAUse(t *testing.T) {
	w := found(t, a, b, c)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealHalf)
	wantKept(t, w, []chronicle.Command{
		{Author: b, Number: 100, Action: chronicle.Use{Pool: k}},
		{Author: b, Number: 101, Action: chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: span(200, 201), Kind: chronicle.KindGateway}}},
	}, a)
}

// What the survivor was about to free, and of which another has a part as supposed, is not the survivor's.
func TestForgoBehindSupposing(t *testing.T) {
	w := found(t, a, b, c)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	for range 16 {
		w.ok(a, chronicle.Open{Pool: k, Range: span(0, 256), Size: 16})
	}
	batch := []chronicle.Command{
		{Author: a, Number: 100, Action: chronicle.Close{Pool: k, Range: span(64, 80)}},
		{Author: b, Number: 100, Action: chronicle.Open{Pool: k, Range: span(0, 256), Size: 8}},
	}
	s, err := w.s.Supposing(batch, a)
	if err != nil {
		t.Fatal(err)
	}
	if s, err = s.Refound([16]byte{9}, chronicle.Founder{ID: a, Name: "h"}); err != nil {
		t.Fatal(err)
	}
	s.Forgo(a, []chronicle.Action{batch[0].Action})
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for r, tok := range s.Pool(k).Ring.Within(span(64, 80)) {
		if tok.Owner == a {
			t.Errorf("%v is the survivor's", r)
		}
	}
}

// Random histories, and a batch behind each that may have been decided: what others have by it, and had before,
// is not the survivor's, and all that is somebody's can be forgotten, so that nothing is lost.
func TestSupposingRandom(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 77))
		ids := []peer.ID{a, b, c}
		w := found(t, ids...)
		pick := func() peer.ID { return ids[rnd.IntN(len(ids))] }
		number := uint64(1000)
		draw := func(n int) (batch []chronicle.Command) {
			for range n {
				number++
				batch = append(batch, chronicle.Command{Author: pick(), Number: number, Action: randomAction(rnd, w.s, pick)})
			}
			return batch
		}
		for range rnd.IntN(40) {
			w.s.Apply(draw(1 + rnd.IntN(3)))
		}
		if w.s.Member(a) == nil {
			continue
		}
		batch := draw(1 + rnd.IntN(5))
		wantKept(t, w, batch, a)
		s, err := w.s.Supposing(batch, a)
		if err == nil {
			s, err = s.Refound([16]byte{9}, chronicle.Founder{ID: a, Name: "h"})
		}
		if err == nil {
			err = s.Check()
		}
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, p := range w.s.Pools {
			q := s.Pool(p.Key)
			for r, had := range p.Ring.All() {
				if q == nil || had.Owner == a || had.Owner == ring.Free || had.Owner == ring.Reserved {
					continue
				}
				for part, has := range q.Ring.Within(r) {
					if has.Owner == a || has.Owner == ring.Free {
						t.Errorf("seed %d: %v of %v was %v's, and is %v's", seed, part, p.CIDR, had.Owner, has.Owner)
					}
				}
			}
		}
		for _, g := range slices.Clone(s.Former) {
			number++
			s.Apply([]chronicle.Command{{Author: a, Number: number, Action: chronicle.Forget{Peer: g.ID, Evicted: g.Evicted}}})
		}
		for _, p := range s.Pools {
			for r, has := range p.Ring.All() {
				if has.Owner != a && has.Owner != ring.Free && has.Owner != ring.Reserved {
					t.Errorf("seed %d: %v of %v stays %v's", seed, r, p.CIDR, has.Owner)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d: %v", seed, batch)
		}
	}
}
