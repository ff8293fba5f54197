package table_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/table"
)

// The vectors of the SipHash paper's reference implementation: key 00 01 …
// 0f, message 00 01 … of the length that is the index.
func TestHashVectors(t *testing.T) {
	want := map[int]uint64{
		0: 0x726fdb47dd0e0e31, 1: 0x74f839c593dc67fd, 2: 0x0d6c8009d9a94f5a, 3: 0x85676696d7fb7e2d,
		7: 0xab0200f58b01d137, 8: 0x93f5f5799a932462, 15: 0xa129ca6149be45e5, 16: 0x3f2acc7f57c29bdb, 63: 0x958a324ceb064572,
	}
	var msg [64]byte
	for i := range msg {
		msg[i] = byte(i)
	}
	k0, k1 := binary.LittleEndian.Uint64(msg[:8]), binary.LittleEndian.Uint64(msg[8:16])
	for n, h := range want {
		if got := table.Hash(k0, k1, msg[:n]); got != h {
			t.Errorf("hash of %d bytes: %016x, want %016x", n, got, h)
		}
	}
}

func peers(n int) []peer.ID {
	ids := make([]peer.ID, n)
	for i := range ids {
		binary.BigEndian.PutUint64(ids[i][8:], table.Hash(7, 7, []byte{byte(i), byte(i >> 8)}))
		ids[i][0] = 1
	}
	return ids
}

// unzoned are peers that have named no zone.
func unzoned(ids []peer.ID) []table.Peer { return zonedBy(ids, func(int) peer.Zone { return "" }) }

func zonedBy(ids []peer.ID, zone func(i int) peer.Zone) []table.Peer {
	out := make([]table.Peer, len(ids))
	for i, id := range ids {
		out[i] = table.Peer{ID: id, Zone: zone(i)}
	}
	return out
}

// TestZones holds the ranking by zones against one that is made by sorting: the secondary of each row is the first of another
// zone than the primary's, and all others stand in the order that they have without zones.
func TestZones(t *testing.T) {
	tab := table.New([16]byte{3}, 1, 0, 1<<16)
	ids := peers(9)
	for _, n := range []int{1, 2, 3, 9} {
		of := zonedBy(ids, func(i int) peer.Zone { return peer.Zone(fmt.Sprint("rack-", i%n)) })
		jumps := 0
		for o := addr.Offset(0); o < 1<<16; o += 64 {
			want := slices.SortedFunc(slices.Values(of), func(p, q table.Peer) int {
				if tab.Before(o, p.ID, q.ID) {
					return -1
				}
				return 1
			})
			if i := slices.IndexFunc(want, func(p table.Peer) bool { return p.Zone != want[0].Zone }); i > 1 {
				want = slices.Insert(slices.Delete(slices.Clone(want), i, i+1), 1, want[i])
				jumps++
			}
			for rank, p := range want {
				if got := tab.Rank(o, p, of); got != rank {
					t.Fatalf("%d zones, row at %d: %v has rank %d, want %d", n, o, p.ID.Short(), got, rank)
				}
			}
			if first, second := tab.Leaders(o, of); first != want[0] || second != want[1] {
				t.Fatalf("%d zones, row at %d: the leaders are %v and %v, want %v and %v", n, o, first, second, want[0], want[1])
			}
		}
		if some := n > 1 && n < 9; some != (jumps > 0) {
			t.Errorf("%d zones: the secondary ranks before others for its zone in %d rows", n, jumps)
		}
	}
	if first, second := tab.Leaders(0, nil); first != (table.Peer{}) || second != (table.Peer{}) {
		t.Error("a row that nobody wants has leaders")
	}
	one := table.Peer{ID: ids[0]}
	if first, second := tab.Leaders(0, []table.Peer{one}); first != one || second != (table.Peer{}) {
		t.Error("a row has a secondary beside the only peer")
	}
}

// The ranking belongs to the protocol: this line never changes.
func TestRankingIsFrozen(t *testing.T) {
	tab := table.New([16]byte{1, 2, 3}, 4, 5, 1<<24)
	ids := peers(5)
	var got []int
	for o := addr.Offset(0); o < 1<<24; o += 1 << 20 {
		for i, p := range ids {
			if tab.Rank(o, table.Peer{ID: p}, unzoned(ids)) == 0 {
				got = append(got, i)
			}
		}
	}
	if want := "[4 2 0 3 3 3 2 0 2 0 0 4 3 0 4 2]"; fmt.Sprint(got) != want {
		t.Errorf("primaries are %v, want %v", got, want)
	}
}

// primary returns the first in the row that holds o of the peers, and the
// second, as comparing them two by two finds them.
func primary(tab table.Table, o addr.Offset, ids []peer.ID) (first, second peer.ID) {
	first, second = ids[0], peer.None
	for _, p := range ids[1:] {
		switch {
		case tab.Before(o, p, first):
			first, second = p, first
		case second == peer.None || tab.Before(o, p, second):
			second = p
		}
	}
	return first, second
}

// TestEvenAndStable measures section 5 of the protocol for 10 to 250 peers: in
// all rows of a pool each peer is primary of its part, and of those only the
// rows of a peer that goes, or comes, change hands, spread over all the others.
func TestEvenAndStable(t *testing.T) {
	tab := table.New([16]byte{9}, 1, 0, 1<<24)
	const step = 1 << 8 // a row of a /8
	sizes := []int{10, 25, 50, 100, 250}
	if testing.Short() {
		sizes = sizes[:3]
	}
	for _, n := range sizes {
		ids := peers(n)
		goes := n / 2 // neither the first nor the last in any order
		without := slices.Delete(slices.Clone(ids), goes, goes+1)
		rest := unzoned(without)
		rows, heirs := map[peer.ID]int{}, map[peer.ID]int{}
		for o := addr.Offset(0); o < 1<<24; o += step {
			p, second := primary(tab, o, ids)
			rows[p]++
			heir := p
			if p == ids[goes] {
				heir = second
				heirs[heir]++
			}
			// The rank is counted another way than by comparing two by two.
			if rank := tab.Rank(o, table.Peer{ID: heir}, rest); rank != 0 {
				t.Fatalf("n=%d: with %v gone, the row at %d of %v is not %v's, whose rank there is %d", n, ids[goes].Short(), o, p.Short(), heir.Short(), rank)
			}
		}
		mean, least, most := float64(table.MaxRows)/float64(n), table.MaxRows, 0
		for _, p := range ids {
			least, most = min(least, rows[p]), max(most, rows[p])
		}
		mostHeir := 0
		for _, k := range heirs {
			mostHeir = max(mostHeir, k)
		}
		// Rows fall to peers as by chance: five standard deviations.
		bound := func(mean float64) float64 { return mean + 5*math.Sqrt(mean) }
		if float64(most) > bound(mean) || float64(least) < 2*mean-bound(mean) {
			t.Errorf("n=%d: a peer has %d to %d rows, the mean is %.0f", n, least, most, mean)
		}
		if gain := float64(rows[ids[goes]]) / float64(n-1); float64(mostHeir) > bound(gain) {
			t.Errorf("n=%d: of the %d rows of who goes one peer gets %d, the mean is %.1f", n, rows[ids[goes]], mostHeir, gain)
		}
		t.Logf("%3d peers: %d to %d rows each, %.2f to %.2f of the mean; one goes: its %d rows change hands (%.2f of the mean, %.2f %% of all), the others keep theirs",
			n, least, most, float64(least)/mean, float64(most)/mean, rows[ids[goes]], float64(rows[ids[goes]])/mean, 100*float64(rows[ids[goes]])/table.MaxRows)
	}
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		size addr.Count
		at   addr.Offset
		want addr.Range
	}{
		{1, 0, addr.Range{Start: 0, End: 8}},
		{256, 9, addr.Range{Start: 8, End: 16}},
		{1 << 16, 9, addr.Range{Start: 8, End: 16}},
		{1 << 24, 300, addr.Range{Start: 256, End: 512}},
		{1<<64 - 1, 1<<64 - 2, addr.Range{Start: 1<<64 - 1<<48, End: 1<<64 - 1}},
	} {
		if got := table.New([16]byte{}, 1, 1, c.size).Row(c.at); got != c.want {
			t.Errorf("row at %d of %d: %v, want %v", c.at, c.size, got, c.want)
		}
	}
}

func ExampleTable_Rank() {
	tab := table.New([16]byte{1}, 2, 0, 256)
	a, b := table.Peer{ID: peer.ID{0xa}}, table.Peer{ID: peer.ID{0xb}}
	roster := []table.Peer{a, b}
	fmt.Println(tab.Rank(0, a, roster)+tab.Rank(0, b, roster), "others in all rank before one of the two")
	// Output: 1 others in all rank before one of the two
}

func BenchmarkRank(b *testing.B) {
	tab := table.New([16]byte{9}, 1, 0, 1<<24)
	of := unzoned(peers(100))
	for b.Loop() {
		tab.Rank(12345, of[50], of)
	}
}
