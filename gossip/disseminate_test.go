package gossip

import (
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// TestProbeRounds holds how often peers are probed to disseminate against how often memberlist
// says something, which depends on the number of its members, this peer among them.
func TestNewsRounds(t *testing.T) {
	for _, others := range []int{1, 8, 9, 10, 98, 99, 100, 998, 999, 1000} {
		g := &Gossip{table: newTable(peer.ID{1}, func(netip.AddrPort) int { return 0 }, nil)}
		generation := g.table.begin()
		for i := range others {
			id := peer.ID{2}
			binary.BigEndian.PutUint64(id[8:], uint64(i))
			g.table.appeared(generation, Presence{ID: id, Addr: netip.MustParseAddrPort("10.0.0.2:7950")}, time.Now())
		}
		says := memberRetransmits * math.Ceil(math.Log10(float64(others+1)+1))
		if got, want := (&session{g: g}).probeRounds(), int(math.Ceil(says/probeFanout)); got != want {
			t.Errorf("among %d others: %d rounds, want %d", others, got, want)
		}
	}
}
