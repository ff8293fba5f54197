package gossip

import (
	"iter"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/ringlet/ringlet/ipam/peer"
)

func goodConfig() Config {
	return Config{
		ID: peer.ID{1}, Name: "a", Boot: 1, Bind: netip.MustParseAddrPort("0.0.0.0:7950"),
		Deliver: func(iter.Seq2[[]byte, int]) {}, Logger: slog.New(slog.DiscardHandler),
	}
}

func TestNewRefuses(t *testing.T) {
	for want, spoil := range map[string]func(*Config){
		"has no ID":               func(cfg *Config) { cfg.ID = peer.None },
		"boot of this peer":       func(cfg *Config) { cfg.Boot = 0 },
		"to listen on":            func(cfg *Config) { cfg.Bind = netip.AddrPort{} },
		"no other host can reach": func(cfg *Config) { cfg.Advertise = netip.MustParseAddrPort("0.0.0.0:7950") },
		"17 bytes":                func(cfg *Config) { cfg.Label = strings.Repeat("l", 17) },
		"deliver frames to":       func(cfg *Config) { cfg.Deliver = nil },
		"logger":                  func(cfg *Config) { cfg.Logger = nil },
		`"a:b:c"`:                 func(cfg *Config) { cfg.Join = []string{"a:b:c"} },
		"256 bytes":               func(cfg *Config) { cfg.Name = peer.Name(strings.Repeat("n", 256)) },
	} {
		cfg := goodConfig()
		spoil(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	cfg := goodConfig()
	cfg.Deliver, cfg.Boot = nil, 0
	if _, err := New(cfg); err == nil || len(strings.Split(err.Error(), "\n")) != 2 {
		t.Errorf("got %v, want both problems", err)
	}
}

// TestMethodsBeforeRun calls everything that may be called before there is a
// network.
func TestMethodsBeforeRun(t *testing.T) {
	cfg := goodConfig()
	cfg.Remembered = []Contact{
		{ID: peer.ID{3}, Addr: netip.MustParseAddrPort("[::ffff:10.0.0.3]:7950")},
		{ID: cfg.ID, Addr: netip.MustParseAddrPort("10.0.0.1:7950")},
		{ID: peer.ID{2}, Addr: netip.MustParseAddrPort("10.0.0.2:7950")},
		{ID: peer.ID{4}},
	}
	g, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	g.Send(peer.ID{2}, make([]byte, 100))
	g.Broadcast([]byte("frame"))
	g.SetHeartbeat([]byte("frame"))
	if got := g.Status(); got.Self.IsValid() || got.Counts.Dropped != 1 || got.Known != 2 || len(got.Problems) > 0 {
		t.Errorf("got %+v", got)
	}
	got := g.Contacts()
	if len(got) != 2 || got[0].ID != (peer.ID{2}) || got[1].Addr != netip.MustParseAddrPort("10.0.0.3:7950") {
		t.Errorf("contacts: %+v", got)
	}
}
