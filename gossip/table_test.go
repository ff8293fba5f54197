package gossip

import (
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/ipam/peer"
)

// TestTableIgnoresThePast sends events of a memberlist that was shut down.
func TestTableIgnoresThePast(t *testing.T) {
	now := time.Now()
	p := Presence{ID: peer.ID{2}, Addr: netip.MustParseAddrPort("10.0.0.2:7950")}
	table := newTable(peer.ID{1}, func(netip.AddrPort) int { return 0 }, nil)
	first := table.begin()
	table.appeared(first, p, now)
	table.end(now)
	table.appeared(first, p, now)
	if table.numAlive() != 0 {
		t.Error("a peer appeared in a memberlist that has ended")
	}
	second := table.begin()
	table.appeared(second, p, now)
	table.disappeared(first, p.ID, now)
	table.appeared(second, Presence{ID: peer.ID{1}, Addr: p.Addr}, now)
	if table.numAlive() != 1 {
		t.Errorf("%d are alive, want one", table.numAlive())
	}
}
