package chronicle_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

var (
	a = peer.ID{0xa}
	b = peer.ID{0xb}
	c = peer.ID{0xc}
)

// world applies commands one per slot, with numbers that rise by themselves.
type world struct {
	*testing.T
	s       *chronicle.State
	numbers map[peer.ID]uint64
}

func found(t *testing.T, peers ...peer.ID) *world {
	t.Helper()
	w := &world{t, &chronicle.State{}, map[peer.ID]uint64{}}
	f := chronicle.Found{Cluster: [16]byte{1}}
	for _, id := range peers {
		f.Peers = append(f.Peers, chronicle.Founder{ID: id, Name: "h", Machine: uint64(id[0])})
	}
	w.ok(peers[0], f)
	return w
}

func (w *world) do(author peer.ID, action chronicle.Action) chronicle.Outcome {
	w.Helper()
	w.numbers[author]++
	out := w.s.Apply([]chronicle.Command{{Author: author, Number: w.numbers[author], Action: action}})
	if err := w.s.Check(); err != nil {
		w.Fatalf("after %v: %v", action, err)
	}
	back, err := chronicle.DecodeState(w.s.Encode())
	if err != nil {
		w.Fatalf("after %v: %v", action, err)
	}
	if back.Digest() != w.s.Digest() {
		w.Fatalf("after %v: the state is not what was encoded", action)
	}
	return out[0]
}

func (w *world) ok(author peer.ID, action chronicle.Action) chronicle.Outcome {
	w.Helper()
	o := w.do(author, action)
	if o.Refused != "" {
		w.Fatalf("%v has no effect: %s", action, o.Refused)
	}
	return o
}

func (w *world) refused(author peer.ID, action chronicle.Action) {
	w.Helper()
	if o := w.do(author, action); o.Refused == "" {
		w.Fatalf("%v has an effect", action)
	}
}

func (w *world) pool(author peer.ID, cidr string, deal chronicle.Deal) chronicle.PoolKey {
	w.Helper()
	return w.ok(author, chronicle.CreatePool{CIDR: netip.MustParsePrefix(cidr), Deal: deal}).Pool
}

func (w *world) owns(k chronicle.PoolKey, id peer.ID) string {
	var out []addr.Range
	for r := range w.s.Pool(k).Ring.OwnedBy(id) {
		out = append(out, r)
	}
	return fmt.Sprint(out)
}

func (w *world) want(k chronicle.PoolKey, id peer.ID, ranges string) {
	w.Helper()
	if got := w.owns(k, id); got != ranges {
		w.Errorf("%v owns %s, want %s", id.Short(), got, ranges)
	}
}

func span(start, end addr.Offset) addr.Range { return addr.Range{Start: start, End: end} }

func TestRoster(t *testing.T) {
	w := found(t, a)
	w.refused(a, chronicle.Evict{Peer: a})
	w.refused(a, chronicle.Retire{Peer: a})
	w.ok(b, chronicle.Admit{Founder: chronicle.Founder{ID: b, Machine: 7}, Speaks: 1})
	w.refused(b, chronicle.Admit{Founder: chronicle.Founder{ID: b}, Speaks: 1})
	w.refused(b, chronicle.Admit{Founder: chronicle.Founder{ID: peer.ID{9}}}) // it speaks nothing
	w.refused(b, chronicle.Admit{Founder: chronicle.Founder{ID: ring.Reserved}, Speaks: 1})
	k := w.pool(a, "10.0.0.0/24", chronicle.DealAll)
	w.refused(a, chronicle.Retire{Peer: b})
	w.refused(a, chronicle.Forget{Peer: b, Evicted: w.s.Slot})
	w.ok(a, chronicle.Evict{Peer: b})
	evicted := w.s.Slot
	w.want(k, b, "[[128,256)]")
	w.refused(b, chronicle.Open{Pool: k, Range: span(0, 256), Size: 8})
	w.refused(a, chronicle.Forget{Peer: b, Evicted: evicted + 1})
	w.ok(b, chronicle.Close{Pool: k, Range: span(248, 256)}) // its own it may give back
	w.ok(b, chronicle.Admit{Founder: chronicle.Founder{ID: b, Machine: 7}, Speaks: 1})
	w.refused(a, chronicle.Forget{Peer: b, Evicted: evicted})
	w.want(k, b, "[[128,248)]")
	w.ok(a, chronicle.Evict{Peer: b})
	w.ok(c, chronicle.Admit{Founder: chronicle.Founder{ID: c, Machine: 7}, Speaks: 1})
	w.refused(a, chronicle.Inherit{Former: b}) // another machine
	w.ok(c, chronicle.Inherit{Former: b})
	w.want(k, c, "[[128,248)]")
	w.refused(c, chronicle.Inherit{Former: b})
	w.ok(a, chronicle.Evict{Peer: c})
	w.ok(a, chronicle.Forget{Peer: c, Evicted: w.s.Slot})
	w.want(k, ring.Free, "[[128,256)]")
	if got := w.s.Voters(); !cmp.Equal(got, []peer.ID{a}) {
		t.Errorf("voters %v", got)
	}
}

func TestNames(t *testing.T) {
	w := found(t, a)
	k, l := w.pool(a, "10.0.0.0/24", chronicle.DealNone), w.pool(a, "10.0.1.0/24", chronicle.DealNone)
	w.ok(a, chronicle.NamePool{Name: "lab", Pool: k})
	w.refused(a, chronicle.NamePool{Name: "lab", Pool: l})
	w.refused(a, chronicle.NamePool{Name: "plant", Pool: k})
	for _, name := range []string{"", "-x", "a b", "10.0.0.1", "fd00::1", "a/b", string(bytes.Repeat([]byte("x"), 64))} {
		w.refused(a, chronicle.NamePool{Name: name, Pool: l})
	}
	w.ok(a, chronicle.Unuse{Pool: k})
	w.ok(a, chronicle.DeletePool{Pool: k})
	w.ok(a, chronicle.NamePool{Name: "lab", Pool: l})
}

// I7: a command has effect at most once, and a later number settles all
// earlier ones.
func TestNumbers(t *testing.T) {
	w := found(t, a, b)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealAll)
	give := chronicle.Command{Author: a, Number: 10, Action: chronicle.Give{Pool: k, Range: span(0, 8), To: b}}
	back := chronicle.Command{Author: b, Number: 10, Action: chronicle.Give{Pool: k, Range: span(0, 8), To: a}}
	w.s.Apply([]chronicle.Command{give, give, back})
	w.want(k, b, "[[128,256)]")
	out := w.s.Apply([]chronicle.Command{give, {Author: a, Number: 9, Action: chronicle.Close{Pool: k, Range: span(64, 72)}}})
	if out[0].Refused == "" || out[1].Refused == "" {
		t.Errorf("old commands have effect: %+v", out)
	}
	w.want(k, a, "[[0,128)]")
	// A number counts even where the condition does not hold.
	w.s.Apply([]chronicle.Command{{Author: a, Number: 12, Action: chronicle.Close{Pool: k, Range: span(200, 208)}}})
	if out := w.s.Apply([]chronicle.Command{{Author: a, Number: 11, Action: chronicle.Close{Pool: k, Range: span(64, 72)}}}); out[0].Refused == "" {
		t.Error("a number below one that was refused has effect")
	}
}

func TestNothingBeforeTheCluster(t *testing.T) {
	s := &chronicle.State{}
	out := s.Apply([]chronicle.Command{{Author: a, Number: 1, Action: chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/24")}}})
	if out[0].Refused == "" || len(s.Pools) != 0 {
		t.Error("a pool without a cluster")
	}
	out = s.Apply([]chronicle.Command{{Author: a, Number: 2, Action: chronicle.Found{Cluster: [16]byte{1}, Peers: []chronicle.Founder{{ID: a}}}}})
	if out[0].Refused == "" {
		t.Error("founded at another slot than the first")
	}
}

// A random history: every state checks, survives its encoding, and is the same
// on a replica that gets the slots encoded, also one that joins by snapshot.
func TestRandomHistory(t *testing.T) {
	randomHistory(t, func(seed uint64, s, replica *chronicle.State) {
		if err := s.Check(); err != nil {
			t.Fatalf("seed %d, slot %d: %v", seed, s.Slot, err)
		}
		if !bytes.Equal(s.Encode(), replica.Encode()) {
			t.Fatalf("seed %d, slot %d: replicas differ", seed, s.Slot)
		}
	})
}

// randomHistory has a state and a replica of it go through random histories, and
// hands both over after each slot.
func randomHistory(t *testing.T, each func(seed uint64, s, replica *chronicle.State)) {
	t.Helper()
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		w := found(t, a, b, c)
		replica, err := chronicle.DecodeState(w.s.Encode())
		if err != nil {
			t.Fatal(err)
		}
		ids := []peer.ID{a, b, c, {0xd}}
		numbers := map[peer.ID]uint64{a: 1}
		pick := func() peer.ID { return ids[rnd.IntN(len(ids))] }
		for range 300 {
			var batch []chronicle.Command
			for range 1 + rnd.IntN(3) {
				author := pick()
				numbers[author]++
				batch = append(batch, chronicle.Command{Author: author, Number: numbers[author] - uint64(rnd.IntN(2)), Action: randomAction(rnd, w.s, pick)})
			}
			value := chronicle.EncodeBatch(batch)
			w.s.Apply(batch)
			same, err := chronicle.DecodeBatch(value)
			if err != nil {
				t.Fatal(err)
			}
			replica.Apply(same)
			each(seed, w.s, replica)
			if rnd.IntN(20) == 0 {
				if replica, err = chronicle.DecodeState(w.s.Encode()); err != nil {
					t.Fatalf("seed %d, slot %d: %v", seed, w.s.Slot, err)
				}
			}
		}
	}
}

func randomAction(rnd *rand.Rand, s *chronicle.State, pick func() peer.ID) chronicle.Action {
	k := chronicle.PoolKey{Slot: 2}
	if len(s.Pools) > 0 {
		k = s.Pools[rnd.IntN(len(s.Pools))].Key
	}
	start := addr.Offset(rnd.IntN(60))
	r := span(start, start+addr.Offset(rnd.IntN(20)))
	if p := s.Pool(k); p != nil && rnd.IntN(2) == 0 {
		r = knownRange(rnd, p)
	}
	f := chronicle.Founder{ID: pick(), Machine: uint64(rnd.IntN(2))}
	switch rnd.IntN(21) {
	case 20:
		return chronicle.Raise{Level: chronicle.Level(rnd.IntN(3))}
	case 18:
		return chronicle.Borrow{Pool: k, At: r.Start}
	case 19:
		return chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: addr.One(start), Kind: chronicle.KindKeptForName, Note: "web"}}
	case 0:
		return chronicle.CreatePool{CIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(rnd.IntN(3)), 0, 0}), 26), Deal: chronicle.Deal(rnd.IntN(3)), Reserved: []chronicle.Reservation{{Range: addr.One(0), Kind: chronicle.KindNetwork}}}
	case 1:
		return chronicle.DeletePool{Pool: k}
	case 2, 3, 4:
		return chronicle.Open{Pool: k, Range: r, Size: addr.Count(rnd.IntN(17))}
	case 5:
		return chronicle.Close{Pool: k, Range: r}
	case 6, 7:
		return chronicle.Give{Pool: k, Range: r, To: pick()}
	case 8:
		return chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: r, Kind: chronicle.Kind(rnd.IntN(8))}}
	case 9:
		return chronicle.Unreserve{Pool: k, Range: r, Kind: chronicle.Kind(rnd.IntN(8))}
	case 10:
		return chronicle.Admit{Founder: f, Speaks: chronicle.Level(1 + rnd.IntN(2))}
	case 11:
		return chronicle.SetState{Peer: pick(), Phase: chronicle.Phase(rnd.IntN(5))}
	case 12:
		return chronicle.Evict{Peer: pick()}
	case 13:
		g := chronicle.Forget{Peer: pick()}
		if f := s.Gone(g.Peer); f != nil {
			g.Evicted = f.Evicted
		}
		return g
	case 14:
		return chronicle.Inherit{Former: pick()}
	case 15:
		return chronicle.Use{Pool: k}
	case 16:
		return chronicle.Unuse{Pool: k}
	}
	return chronicle.Retire{Peer: pick()}
}

// knownRange returns a range of the pool's ring, or a reservation.
func knownRange(rnd *rand.Rand, p *chronicle.Pool) addr.Range {
	if len(p.Reserved) > 0 && rnd.IntN(3) == 0 {
		return p.Reserved[rnd.IntN(len(p.Reserved))].Range
	}
	_, r := p.Ring.At(addr.Offset(rnd.IntN(64)))
	return r
}

func ExampleState_Apply() {
	s := &chronicle.State{}
	s.Apply([]chronicle.Command{{Author: a, Number: 1, Action: chronicle.Found{
		Cluster: [16]byte{1}, Peers: []chronicle.Founder{{ID: a, Name: "host-a"}},
	}}})
	s.Apply([]chronicle.Command{
		{Author: a, Number: 2, Action: chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.50.0.0/24")}},
		{Author: a, Number: 2, Action: chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.51.0.0/24")}}, // the same command again
	})
	for _, p := range s.Pools {
		fmt.Println(p.Key, p.CIDR)
	}
	// Output: 2.0 10.50.0.0/24
}
