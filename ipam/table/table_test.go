package table_test

import (
	"encoding/binary"
	"fmt"
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

// The ranking belongs to the protocol: this line never changes.
func TestRankingIsFrozen(t *testing.T) {
	tab := table.New([16]byte{1, 2, 3}, 4, 5, 1<<24)
	ids := peers(5)
	var got []int
	for o := addr.Offset(0); o < 1<<24; o += 1 << 20 {
		for i, p := range ids {
			if tab.Rank(o, p, ids) == 0 {
				got = append(got, i)
			}
		}
	}
	if want := "[4 2 0 3 3 3 2 0 2 0 0 4 3 0 4 2]"; fmt.Sprint(got) != want {
		t.Errorf("primaries are %v, want %v", got, want)
	}
}

func TestEvenAndStable(t *testing.T) {
	tab := table.New([16]byte{9}, 1, 0, 1<<24)
	const step = 1 << 8 // a row of a /8
	primary := func(ids []peer.ID, o addr.Offset) peer.ID {
		best := ids[0]
		for _, p := range ids[1:] {
			if tab.Before(o, p, best) {
				best = p
			}
		}
		return best
	}
	for _, n := range []int{10, 50} {
		ids := peers(n)
		rows := map[peer.ID]int{}
		moved := 0
		for o := addr.Offset(0); o < 1<<24; o += step {
			p := primary(ids, o)
			rows[p]++
			if q := primary(ids[:n-1], o); q != p {
				if p != ids[n-1] {
					t.Fatalf("n=%d: row at %d went from %v to %v, although neither left", n, o, p.Short(), q.Short())
				}
				moved++
			}
		}
		if moved != rows[ids[n-1]] {
			t.Errorf("n=%d: %d rows moved, the peer that left had %d", n, moved, rows[ids[n-1]])
		}
		mean := float64(table.MaxRows) / float64(n)
		for p, k := range rows {
			if float64(k) < 0.85*mean || float64(k) > 1.15*mean {
				t.Errorf("n=%d: peer %v has %d rows, the mean is %.0f", n, p.Short(), k, mean)
			}
		}
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
	a, b := peer.ID{0xa}, peer.ID{0xb}
	roster := []peer.ID{a, b}
	fmt.Println(tab.Rank(0, a, roster)+tab.Rank(0, b, roster), "others in all rank before one of the two")
	// Output: 1 others in all rank before one of the two
}

func BenchmarkRank(b *testing.B) {
	tab := table.New([16]byte{9}, 1, 0, 1<<24)
	ids := peers(100)
	for b.Loop() {
		tab.Rank(12345, ids[50], ids)
	}
}
