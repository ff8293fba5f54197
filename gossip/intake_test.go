package gossip

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/guard"
	"github.com/ringlet/ringlet/ipam/peer"
)

// logging returns a gossip that is not running, and what it logs.
func logging(t *testing.T) (*Gossip, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	cfg := goodConfig()
	cfg.Logger = slog.New(slog.NewTextHandler(out, nil))
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return g, out
}

// TestForeignPeersDoNotFillTheLog hears again and again of more hosts than are remembered.
func TestForeignPeersDoNotFillTheLog(t *testing.T) {
	g, out := logging(t)
	now := time.Now()
	for round := range 100 {
		for host := range 100 {
			g.screen.refuse(guard.Key, netip.AddrFrom4([4]byte{10, 0, 1, byte(host)}), true, now.Add(time.Duration(round)*time.Second/2))
		}
	}
	for what, want := range map[string]int{"stranger refused": maxTold, "foreign peer refused": maxSightings} {
		if n := strings.Count(out.String(), what); n != want {
			t.Errorf("%d lines with %q, of 100 hosts within a minute, want %d", n, what, want)
		}
	}
}

// TestThreeCopiesDoNotFillTheLog has three hosts with one database.
func TestThreeCopiesDoNotFillTheLog(t *testing.T) {
	g, out := logging(t)
	for range 100 {
		for _, there := range []string{"10.0.0.2:7950", "10.0.0.3:7950"} {
			g.watch.conflict(peer.ID{1}, netip.MustParseAddrPort("10.0.0.1:7950"), netip.MustParseAddrPort(there), time.Now())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 1 {
		t.Errorf("%d lines at once, of one peer at three addresses", n)
	}
}
