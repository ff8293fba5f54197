package chronicle_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/codec"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/table"
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

func TestDeal(t *testing.T) {
	w := found(t, a, b, c)
	w.ok(a, chronicle.SetState{Peer: c, Phase: chronicle.Draining})
	k := w.pool(a, "10.0.0.0/24", chronicle.DealHalf)
	w.want(k, a, "[[0,64)]")
	w.want(k, b, "[[64,128)]")
	w.want(k, c, "[]")
	w.want(k, ring.Free, "[[128,256)]")
	k = w.pool(a, "10.0.1.0/24", chronicle.DealAll)
	w.want(k, b, "[[128,256)]")
	k = w.pool(a, "10.0.2.0/24", chronicle.DealNone)
	w.want(k, ring.Free, "[[0,256)]")
	w.ok(a, chronicle.SetState{Peer: c, Phase: chronicle.Active})
	k = w.pool(a, "10.0.3.0/24", chronicle.DealHalf)
	w.want(k, c, "[[64,96)]")
	w = found(t, a)
	w.want(w.pool(a, "fd00::/64", chronicle.DealAll), a, "[[0,18446744073709551615)]")
	w.want(w.pool(a, "10.0.0.0/32", chronicle.DealHalf), a, "[[0,1)]")
	w = found(t, a)
	w.want(w.pool(a, "0.0.0.0/1", chronicle.DealHalf), ring.Free, "[[1073741824,2147483648)]")
}

func TestPoolsDoNotOverlap(t *testing.T) {
	w := found(t, a, b)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	for _, cidr := range []string{"10.0.0.0/24", "10.0.0.0/8", "10.0.0.128/25"} {
		w.refused(b, chronicle.CreatePool{CIDR: netip.MustParsePrefix(cidr)})
	}
	w.refused(b, chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.1.1/24")})
	w.refused(b, chronicle.CreatePool{CIDR: netip.MustParsePrefix("fd00::/48")})
	w.ok(a, chronicle.Open{Pool: k, Range: span(0, 256), Size: 8})
	w.refused(b, chronicle.DeletePool{Pool: k})
	for r := range w.s.Pool(k).Ring.OwnedBy(a) {
		w.ok(a, chronicle.Close{Pool: k, Range: r})
		break
	}
	w.refused(b, chronicle.DeletePool{Pool: k}) // a made it for a network
	w.ok(a, chronicle.Unuse{Pool: k})
	w.ok(b, chronicle.DeletePool{Pool: k})
	again := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	if again == k {
		t.Error("a pool that was created again has the key of the one before")
	}
	w.refused(a, chronicle.Open{Pool: k, Range: span(0, 256), Size: 8})
}

// Pools come and go in random order, one inside of where others were, of both
// families. Which of them overlap a subnet, and which one it is, is what a look
// at all of them says.
func TestOverlapping(t *testing.T) {
	w := found(t, a)
	rnd := rand.New(rand.NewPCG(1, 1))
	subnet := func() netip.Prefix {
		if rnd.IntN(4) == 0 {
			return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 15: byte(rnd.IntN(256))}), 120+rnd.IntN(9)).Masked()
		}
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(rnd.IntN(256))}), 24+rnd.IntN(9)).Masked()
	}
	created := 0
	for range 600 {
		cidr := subnet()
		var want []netip.Prefix
		for _, p := range w.s.Pools {
			if p.CIDR.Overlaps(cidr) {
				want = append(want, p.CIDR)
			}
		}
		slices.SortFunc(want, netip.Prefix.Compare)
		var got []netip.Prefix
		for _, p := range w.s.Overlapping(cidr) {
			got = append(got, p.CIDR)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v overlaps %v, want %v", cidr, got, want)
		}
		if p := w.s.PoolOf(cidr); (p != nil) != slices.Contains(want, cidr) || p != nil && p.CIDR != cidr {
			t.Fatalf("the pool of %v is %+v, of %v", cidr, p, want)
		}
		create := chronicle.CreatePool{CIDR: cidr, Origin: chronicle.FromOperator, Deal: chronicle.DealNone}
		switch {
		case len(want) == 0:
			w.ok(a, create)
			created++
		case rnd.IntN(2) == 0:
			w.refused(a, create)
		default:
			for _, cidr := range want {
				w.ok(a, chronicle.DeletePool{Pool: w.s.PoolOf(cidr).Key})
			}
		}
	}
	if created < 100 {
		t.Errorf("only %d pools were created", created)
	}
}

func TestOpen(t *testing.T) {
	w := found(t, a, b)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	taken := map[peer.ID]addr.Range{}
	for _, id := range []peer.ID{a, b} {
		o := w.ok(id, chronicle.Open{Pool: k, Range: span(0, 256), Size: 16})
		if o.Range.Size() != 16 || o.Range.Start%16 != 0 {
			t.Errorf("opened %v, not an aligned block of 16", o.Range)
		}
		if p := w.s.Pool(k); p.Table.Rank(o.Range.Start, id, []peer.ID{a, b}) != 0 {
			t.Errorf("%v opened %v, although blocks are free where it ranks first", id.Short(), o.Range)
		}
		taken[id] = o.Range
		// What is closed is the same again when it is opened.
		w.ok(id, chronicle.Close{Pool: k, Range: o.Range})
		if again := w.ok(id, chronicle.Open{Pool: k, Range: span(0, 256), Size: 16}); again.Range != o.Range {
			t.Errorf("opened %v again, had %v", again.Range, o.Range)
		}
	}
	if taken[a].Overlaps(taken[b]) {
		t.Errorf("two peers opened %v", taken)
	}
	w.refused(c, chronicle.Open{Pool: k, Range: span(0, 256), Size: 16})
	w.refused(a, chronicle.Open{Pool: k, Range: span(0, 256)})
	w.refused(b, chronicle.Open{Pool: k, Range: addr.One(taken[a].Start), Size: 1})
	for range 300 { // until nothing is left, in blocks that grow smaller
		if o := w.do(a, chronicle.Open{Pool: k, Range: span(0, 200), Size: 64}); o.Refused != "" {
			break
		}
	}
	for r, tok := range w.s.Pool(k).Ring.Within(span(0, 200)) {
		if tok.Owner == ring.Free {
			t.Errorf("%v is left free", r)
		}
	}
	w.want(k, ring.Free, fmt.Sprint([]addr.Range{span(200, 256)}))
}

func TestCloseAndGive(t *testing.T) {
	w := found(t, a, b)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealAll)
	w.refused(b, chronicle.Close{Pool: k, Range: span(0, 8)})
	w.refused(a, chronicle.Close{Pool: k, Range: span(120, 136)})
	w.refused(a, chronicle.Close{Pool: k, Range: span(8, 8)})
	w.refused(a, chronicle.Give{Pool: k, Range: span(0, 8), To: c})
	w.ok(a, chronicle.Give{Pool: k, Range: span(8, 16), To: b})
	w.refused(a, chronicle.Close{Pool: k, Range: span(8, 16)})
	w.want(k, a, "[[0,8) [16,128)]")
	w.ok(b, chronicle.Close{Pool: k, Range: span(8, 16)})
	w.want(k, ring.Free, "[[8,16)]")
}

func TestReserve(t *testing.T) {
	w := found(t, a, b)
	k := w.ok(a, chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Deal: chronicle.DealAll, Reserved: []chronicle.Reservation{
		{Range: addr.One(0), Kind: chronicle.KindNetwork}, {Range: addr.One(255), Kind: chronicle.KindBroadcast},
	}}).Pool
	gw := chronicle.Reservation{Range: addr.One(1), Kind: chronicle.KindGateway, Note: "router"}
	w.refused(b, chronicle.Reserve{Pool: k, Reservation: gw}) // a's space
	w.ok(a, chronicle.Reserve{Pool: k, Reservation: gw})
	w.refused(a, chronicle.Reserve{Pool: k, Reservation: gw})
	w.refused(a, chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: addr.One(5), Kind: chronicle.KindNetwork}})
	w.refused(a, chronicle.Unreserve{Pool: k, Range: addr.One(1), Kind: chronicle.KindAuxiliary})
	w.refused(a, chronicle.Unreserve{Pool: k, Range: addr.One(0), Kind: chronicle.KindNetwork})
	w.refused(a, chronicle.Unreserve{Pool: k, Range: span(1, 3), Kind: chronicle.KindGateway})
	w.ok(b, chronicle.Unreserve{Pool: k, Range: addr.One(1), Kind: chronicle.KindGateway})
	w.want(k, ring.Free, "[[1,2)]")
	w.ok(b, chronicle.Reserve{Pool: k, Reservation: gw}) // free now
	w.refused(b, chronicle.Open{Pool: k, Range: addr.One(1), Size: 1})
}

// What is kept for a name is lent to one peer at a time, and comes back
// whatever becomes of that peer.
func TestBorrow(t *testing.T) {
	w := found(t, a, b)
	w.ok(c, chronicle.Admit{Founder: chronicle.Founder{ID: c, Machine: 7}, Speaks: 1})
	k := w.pool(a, "10.0.0.0/24", chronicle.DealHalf) // a, b and c have 32 each
	keep := func(o addr.Offset) chronicle.Reserve {
		return chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: addr.One(o), Kind: chronicle.KindKeptForName, Note: "web"}}
	}
	wide := keep(200)
	wide.Range.End++
	w.refused(a, wide)
	w.refused(a, chronicle.Borrow{Pool: k, At: 200})
	w.ok(a, keep(200))
	w.want(k, ring.Reserved, "[[200,201)]")
	w.refused(a, chronicle.Open{Pool: k, Range: addr.One(200), Size: 1})
	w.ok(b, chronicle.Borrow{Pool: k, At: 200})
	w.want(k, b, "[[32,64) [200,201)]")
	w.refused(a, chronicle.Borrow{Pool: k, At: 200})
	w.refused(b, chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: span(200, 202), Kind: chronicle.KindExcluded}})
	w.ok(b, chronicle.Close{Pool: k, Range: addr.One(200)})
	w.want(k, ring.Reserved, "[[200,201)]")

	// The author's own stays its own, and others cannot have it kept.
	w.refused(b, keep(3))
	w.ok(a, keep(3))
	w.want(k, a, "[[0,32)]")
	w.refused(a, keep(3))
	w.ok(a, chronicle.Give{Pool: k, Range: addr.One(3), To: b})
	w.ok(b, chronicle.Close{Pool: k, Range: addr.One(3)})
	w.want(k, ring.Reserved, "[[3,4) [200,201)]")
	w.ok(a, chronicle.Close{Pool: k, Range: span(0, 3)})

	// A host that is given up.
	w.ok(c, chronicle.Borrow{Pool: k, At: 200})
	w.ok(a, chronicle.Evict{Peer: c})
	evicted := w.s.Slot
	w.refused(a, chronicle.Borrow{Pool: k, At: 200})
	w.ok(a, chronicle.Forget{Peer: c, Evicted: evicted})
	w.want(k, ring.Reserved, "[[3,4) [200,201)]")

	// It is kept no more: what is lent is an ordinary address from then on.
	w.ok(a, chronicle.Borrow{Pool: k, At: 200})
	for _, o := range []addr.Offset{3, 200} {
		w.ok(b, chronicle.Unreserve{Pool: k, Range: addr.One(o), Kind: chronicle.KindKeptForName})
	}
	w.want(k, ring.Reserved, "[]")
	w.want(k, a, "[[4,32) [200,201)]")
}

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

// A pool stays while a peer has networks on it, also one that was evicted, until
// that is given up or taken over.
func TestUse(t *testing.T) {
	w := found(t, a)
	for _, id := range []peer.ID{b, c} {
		w.ok(a, chronicle.Admit{Founder: chronicle.Founder{ID: id, Machine: 7}, Speaks: 1})
	}
	users := func(k chronicle.PoolKey, want ...peer.ID) {
		t.Helper()
		if p := w.s.Pool(k); !cmp.Equal(p.Users, want, cmpopts.EquateEmpty()) {
			t.Errorf("users %v, want %v", p.Users, want)
		}
	}
	k := w.ok(a, chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.0.0/24"), Origin: chronicle.FromOperator, Deal: chronicle.DealNone}).Pool
	users(k)
	w.refused(peer.ID{9}, chronicle.Use{Pool: k}) // in no roster
	w.refused(b, chronicle.Unuse{Pool: k})
	w.ok(b, chronicle.Use{Pool: k})
	w.ok(b, chronicle.Use{Pool: k})
	w.ok(a, chronicle.Use{Pool: k})
	users(k, a, b)
	w.refused(b, chronicle.Retire{Peer: b})
	w.ok(a, chronicle.Evict{Peer: b})
	w.ok(a, chronicle.Unuse{Pool: k})
	w.refused(a, chronicle.DeletePool{Pool: k})
	w.ok(c, chronicle.Inherit{Former: b})
	users(k, c)
	w.ok(a, chronicle.Evict{Peer: c})
	evicted := w.s.Slot
	w.refused(a, chronicle.DeletePool{Pool: k})
	w.ok(a, chronicle.Forget{Peer: c, Evicted: evicted})
	users(k)
	w.ok(a, chronicle.DeletePool{Pool: k})
	w.refused(a, chronicle.Use{Pool: k})
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

// actions is one of each, for codecs.
func actions() []chronicle.Action {
	k := chronicle.PoolKey{Slot: 300, Place: 2}
	f := chronicle.Founder{ID: b, Name: "host-b", Boot: 9, Machine: 1 << 60}
	res := chronicle.Reservation{Range: span(3, 400), Kind: chronicle.KindExcluded, Note: "the printer"}
	return []chronicle.Action{
		chronicle.Found{Cluster: [16]byte{5}, Peers: []chronicle.Founder{f, {ID: c}}},
		chronicle.CreatePool{CIDR: netip.MustParsePrefix("fd00::/127"), Origin: chronicle.FromChoice, Deal: chronicle.DealNone, Reserved: []chronicle.Reservation{res}},
		chronicle.DeletePool{Pool: k},
		chronicle.Open{Pool: k, Range: span(1, 1<<63), Size: 1024},
		chronicle.Close{Pool: k, Range: span(1, 2)},
		chronicle.Give{Pool: k, Range: span(1, 2), To: c},
		chronicle.Reserve{Pool: k, Reservation: res},
		chronicle.Unreserve{Pool: k, Range: span(1, 2), Kind: chronicle.KindGateway},
		chronicle.Admit{Founder: f, Speaks: 3},
		chronicle.SetState{Peer: a, Phase: chronicle.Draining},
		chronicle.Evict{Peer: a},
		chronicle.Retire{Peer: b},
		chronicle.Forget{Peer: c, Evicted: 77},
		chronicle.Inherit{Former: a},
		chronicle.NamePool{Name: "lab", Pool: k},
		chronicle.Use{Pool: k},
		chronicle.Unuse{Pool: k},
		chronicle.Borrow{Pool: k, At: 1 << 40},
		chronicle.Raise{Level: 1 << 20},
	}
}

func TestBatchCodec(t *testing.T) {
	var batch []chronicle.Command
	for i, action := range actions() {
		batch = append(batch, chronicle.Command{Author: a, Number: uint64(i) * 1000, Action: action})
	}
	enc := chronicle.EncodeBatch(batch)
	got, err := chronicle.DecodeBatch(enc)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(batch, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for n := range enc {
		if _, err := chronicle.DecodeBatch(enc[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes are a batch", n, len(enc))
		}
	}
	if _, err := chronicle.DecodeBatch(append(enc, 0)); err == nil {
		t.Error("a byte too many is accepted")
	}
}

// The bytes of slots and snapshots lie on disks: they never change.
func TestEncodingIsFrozen(t *testing.T) {
	s := &chronicle.State{}
	for i, action := range actions()[:17] { // what is added later stands behind
		s.Apply([]chronicle.Command{{Author: b, Number: uint64(i + 1), Action: action}})
	}
	if got, want := fmt.Sprintf("%x", chronicle.EncodeBatch([]chronicle.Command{{Author: a, Number: 300, Action: actions()[6]}})), "010a000000000000000000000000000000ac020713ac0202038d03060b746865207072696e746572"; got != want {
		t.Errorf("batch is %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%x", chronicle.EncodeBatch([]chronicle.Command{{Author: a, Number: 300, Action: actions()[17]}})), "010a000000000000000000000000000000ac021209ac0202808080808020"; got != want {
		t.Errorf("batch is %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%x", table.Hash(s.Slot, 0, s.Encode())), "a525ff6888dae3bf"; got != want {
		t.Errorf("hash of the state's bytes is %s, want %s", got, want)
	}
	// The digest travels: peers of two releases must agree on it.
	if got, want := fmt.Sprintf("%x", s.Digest()), "2dfd0cda1932b089"; got != want {
		t.Errorf("digest is %s, want %s", got, want)
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

// What contradicts itself is not taken in from outside.
func TestDecodeStateRefuses(t *testing.T) {
	for name, spoil := range map[string]func(s *chronicle.State){
		"pools that overlap":   func(s *chronicle.State) { s.Pools[2].CIDR = netip.MustParsePrefix("10.0.0.128/26") },
		"a pool twice":         func(s *chronicle.State) { s.Pools[1].CIDR = s.Pools[2].CIDR },
		"pools out of order":   func(s *chronicle.State) { s.Pools[0], s.Pools[1] = s.Pools[1], s.Pools[0] },
		"a ring of other size": func(s *chronicle.State) { s.Pools[0].CIDR = netip.MustParsePrefix("10.1.0.0/28") },
		"an unknown owner":     func(s *chronicle.State) { s.Pools[1].Ring.Assign(addr.One(9), peer.ID{9}, 9) },
		"one like a known one": func(s *chronicle.State) { s.Pools[1].Ring.Assign(addr.One(9), peer.ID{0xa, 15: 1}, 9) },
		"reserved by nobody":   func(s *chronicle.State) { s.Pools[1].Ring.Assign(addr.One(9), ring.Reserved, 9) },
		"reserved, and a range": func(s *chronicle.State) {
			s.Pools[0].Reserved = []chronicle.Reservation{{Range: addr.One(3), Kind: chronicle.KindExcluded}}
		},
		"an unknown user": func(s *chronicle.State) { s.Pools[0].Users = []peer.ID{{9}} },
		"a peer twice":    func(s *chronicle.State) { s.Roster[1] = s.Roster[0] },
	} {
		w := found(t, a, b)
		for _, cidr := range []string{"10.0.0.0/24", "10.9.0.0/26", "10.3.0.0/26"} {
			w.pool(a, cidr, chronicle.DealAll)
		}
		spoil(w.s)
		if _, err := chronicle.DecodeState(w.s.Encode()); !errors.Is(err, codec.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A state from outside with a reservation beyond its pool is refused; nobody
// looks up who has borrowed that.
func TestReservationBeyondThePool(t *testing.T) {
	w := found(t, a)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	w.ok(a, chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: addr.One(240), Kind: chronicle.KindKeptForName, Note: "db"}})
	for _, o := range []addr.Offset{256, 496, 1 << 40} {
		w.s.Pool(k).Reserved[0].Range = addr.One(o)
		if _, err := chronicle.DecodeState(w.s.Encode()); err == nil {
			t.Errorf("a state with offset %d of 256 reserved is taken in", o)
		}
	}
}

func FuzzDecodeBatch(f *testing.F) {
	for _, action := range actions() {
		f.Add(chronicle.EncodeBatch([]chronicle.Command{{Author: a, Number: 1, Action: action}}))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		batch, err := chronicle.DecodeBatch(in)
		if err != nil {
			return
		}
		if out := chronicle.EncodeBatch(batch); !bytes.Equal(in, out) {
			t.Errorf("%x decodes, and is encoded as %x", in, out)
		}
		s := &chronicle.State{}
		s.Apply([]chronicle.Command{{Author: a, Number: 1, Action: actions()[0]}})
		s.Apply(batch)
		if err := s.Check(); err != nil {
			t.Error(err)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	s := &chronicle.State{}
	f.Add(s.Encode())
	for i, action := range actions() {
		s.Apply([]chronicle.Command{{Author: b, Number: uint64(i + 1), Action: action}})
		f.Add(s.Encode())
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := chronicle.DecodeState(in)
		if err != nil {
			return
		}
		if out := s.Encode(); !bytes.Equal(in, out) {
			t.Errorf("%x decodes, and is encoded as %x", in, out)
		}
		s.Digest()
		if err := s.Check(); err != nil {
			t.Errorf("%x decodes, and is no state: %v", in, err)
		}
	})
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
