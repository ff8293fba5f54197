package chronicle_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
	"github.com/ringlet/ringlet/ipam/table"
)

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
	deal := func(cidr string, away ...peer.ID) chronicle.PoolKey { // c, who makes it, is never left out
		return w.ok(c, chronicle.CreatePool{CIDR: netip.MustParsePrefix(cidr), Away: away}).Pool
	}
	k = deal("10.0.4.0/24", a, c, peer.ID{9})
	w.want(k, a, "[]")
	w.want(k, b, "[[0,64)]")
	w.want(k, c, "[[64,128)]")
	w.want(deal("10.0.5.0/24", a, b), c, "[[0,128)]")
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
		if p := w.s.Pool(k); p.Table.Rank(o.Range.Start, table.Peer{ID: id}, []table.Peer{{ID: a}, {ID: b}}) != 0 {
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

// What is cut out of a reservation is free; the rest of it stays reserved, also
// if the author has left in the meantime, who could not reserve it again.
func TestUnreserveAPart(t *testing.T) {
	w := found(t, a, b)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	excluded := func(r addr.Range) chronicle.Reservation {
		return chronicle.Reservation{Range: r, Kind: chronicle.KindExcluded, Note: "printers"}
	}
	left := func(want ...addr.Range) {
		t.Helper()
		var rs []chronicle.Reservation
		for _, r := range want {
			rs = append(rs, excluded(r))
		}
		if p := w.s.Pool(k); !cmp.Equal(p.Reserved, rs, cmpopts.EquateEmpty()) {
			t.Errorf("reserved: %v, want %v", p.Reserved, rs)
		}
	}
	w.ok(a, chronicle.Reserve{Pool: k, Reservation: excluded(span(8, 32))})
	w.ok(a, chronicle.Reserve{Pool: k, Reservation: excluded(span(32, 40))})
	w.ok(a, chronicle.Evict{Peer: b})
	w.ok(b, chronicle.Unreserve{Pool: k, Range: span(16, 24), Kind: chronicle.KindExcluded})
	left(span(8, 16), span(24, 32), span(32, 40))
	w.refused(a, chronicle.Unreserve{Pool: k, Range: span(28, 36), Kind: chronicle.KindExcluded}) // of two
	w.refused(a, chronicle.Unreserve{Pool: k, Range: span(12, 20), Kind: chronicle.KindExcluded})
	w.refused(a, chronicle.Unreserve{Pool: k, Range: span(10, 10), Kind: chronicle.KindExcluded})
	w.ok(a, chronicle.Unreserve{Pool: k, Range: span(24, 28), Kind: chronicle.KindExcluded})
	w.ok(a, chronicle.Unreserve{Pool: k, Range: span(36, 40), Kind: chronicle.KindExcluded})
	left(span(8, 16), span(28, 32), span(32, 36))
	w.ok(a, chronicle.Unreserve{Pool: k, Range: span(8, 16), Kind: chronicle.KindExcluded})
	left(span(28, 32), span(32, 36))
	w.want(k, ring.Reserved, "[[28,36)]")
}

// A pool goes with what operators keep back in it as far as its author knows of that.
func TestDeleteWithWhatIsKeptBack(t *testing.T) {
	w := found(t, a, b)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	reserve := func(o addr.Offset, kind chronicle.Kind, note string) {
		w.ok(b, chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: addr.One(o), Kind: kind, Note: note}})
	}
	known := []uint64{w.s.Pool(k).KeptBack()}
	reserve(1, chronicle.KindGateway, "")
	if now := w.s.Pool(k).KeptBack(); now != known[0] || now != 0 {
		t.Errorf("a gateway counts as kept back by an operator: %x", now)
	}
	w.ok(a, chronicle.Unuse{Pool: k})
	w.want(k, ring.Reserved, "[]")
	for _, kind := range []chronicle.Kind{chronicle.KindGateway, chronicle.KindAuxiliary} { // nobody would end that
		w.refused(b, chronicle.Reserve{Pool: k, Reservation: chronicle.Reservation{Range: addr.One(1), Kind: kind}})
	}
	for i, change := range []func(){
		func() { reserve(9, chronicle.KindExcluded, "printers") },
		func() { reserve(10, chronicle.KindExcluded, "printers") },
		func() { w.ok(b, chronicle.Unreserve{Pool: k, Range: addr.One(9), Kind: chronicle.KindExcluded}) },
		func() { reserve(9, chronicle.KindKeptForName, "printers") },
		func() { w.ok(b, chronicle.Unreserve{Pool: k, Range: addr.One(9), Kind: chronicle.KindKeptForName}) },
		func() { reserve(9, chronicle.KindKeptForName, "web") },
	} {
		change()
		if i == 4 { // as after the third
			continue
		}
		for _, kept := range known {
			w.refused(a, chronicle.DeletePool{Pool: k, Kept: kept})
		}
		known = append(known, w.s.Pool(k).KeptBack())
	}
	w.ok(a, chronicle.DeletePool{Pool: k, Kept: known[len(known)-1]})
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

// What a survivor was giving away, or freeing, as it founded the cluster anew is kept back
// for those who were evicted then: others may use it.
func TestForgo(t *testing.T) {
	w := found(t, a, b, c)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealNone)
	w.ok(a, chronicle.Open{Pool: k, Range: span(0, 256), Size: 64})
	first := uint64(0)
	for r := range w.s.Pool(k).Ring.OwnedBy(a) {
		first = uint64(r.Start)
	}
	at := func(i uint64) addr.Range { return span(addr.Offset(first+i), addr.Offset(first+i+1)) }
	w.ok(b, chronicle.Evict{Peer: c})
	w.ok(b, chronicle.Forget{Peer: c, Evicted: w.s.Slot})
	s, err := w.s.Refound([16]byte{2}, chronicle.Founder{ID: a, Machine: 0xa})
	if err != nil {
		t.Fatal(err)
	}
	gone := chronicle.PoolKey{Slot: 99}
	s.Forgo(a, []chronicle.Action{
		chronicle.Give{Pool: k, Range: at(1), To: b},
		chronicle.Give{Pool: k, Range: at(3), To: c}, // forgotten: somebody else may have it
		chronicle.Close{Pool: k, Range: at(5)},
		chronicle.Give{Pool: gone, Range: at(7), To: b},
		chronicle.Give{Pool: k, Range: span(0, 256), To: b}, // not its own
		chronicle.SetState{Peer: a, Phase: chronicle.Draining},
	})
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	var got []addr.Range
	for r := range s.Pool(k).Ring.OwnedBy(b) {
		got = append(got, r)
	}
	if want := []addr.Range{at(1), at(3), at(5)}; !slices.Equal(got, want) {
		t.Errorf("the one that was evicted has %v, want %v", got, want)
	}

	// Without one that was evicted nobody has it but the survivor.
	lone := found(t, a)
	k = lone.pool(a, "10.0.0.0/24", chronicle.DealAll)
	before := lone.s.Digest()
	lone.s.Forgo(a, []chronicle.Action{chronicle.Close{Pool: k, Range: span(1, 2)}})
	if lone.s.Digest() != before {
		t.Error("given to nobody")
	}
}

// Of a batch that may have been decided counts what it brings to others than one peer, and not what it takes
// from them.
func TestSupposing(t *testing.T) {
	w := found(t, a, b)
	k := w.pool(a, "10.0.0.0/24", chronicle.DealHalf) // [0,64) and [64,128)
	before := w.s.Digest()
	batch := []chronicle.Command{
		{Author: b, Number: 100, Action: chronicle.Open{Pool: k, Range: span(128, 144), Size: 16}},
		{Author: a, Number: 100, Action: chronicle.Open{Pool: k, Range: span(144, 160), Size: 16}},
		{Author: b, Number: 101, Action: chronicle.Close{Pool: k, Range: span(64, 80)}},
		{Author: b, Number: 102, Action: chronicle.Give{Pool: k, Range: span(80, 88), To: a}},
		{Author: a, Number: 101, Action: chronicle.Give{Pool: k, Range: span(0, 8), To: b}},
		{Author: a, Number: 102, Action: chronicle.Admit{Founder: chronicle.Founder{ID: c, Name: "h"}, Speaks: 1}},
		{Author: c, Number: 100, Action: chronicle.Open{Pool: k, Range: span(160, 168), Size: 8}},
		{Author: b, Number: 103, Action: chronicle.CreatePool{CIDR: netip.MustParsePrefix("10.0.1.0/24"), Deal: chronicle.DealNone}},
		{Author: a, Number: 103, Action: chronicle.Evict{Peer: b}},
	}
	s, err := w.s.Supposing(batch, a)
	if err != nil {
		t.Fatal(err)
	}
	if w.s.Digest() != before {
		t.Error("the state was changed")
	}
	w.s = s
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	w.want(k, a, "[[8,64) [144,160)]") // nobody else has had the latter
	w.want(k, b, "[[0,8) [64,144)]")
	w.want(k, c, "[[160,168)]")
	if len(s.Pools) != 2 || s.Gone(b) == nil {
		t.Errorf("got %d pools, and of those who were evicted %v", len(s.Pools), s.Former)
	}
}
