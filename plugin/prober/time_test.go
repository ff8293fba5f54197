package prober

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/plugin/arp"
)

// Where RINGLET_TIMEOUT leaves no time to ask the LAN, the status says that
// nobody is asked.
func TestNoTimeToProbe(t *testing.T) {
	asked := false
	p := New(Config{Logger: slog.New(slog.DiscardHandler)})
	p.ask = func(context.Context, netip.Addr) (arp.MAC, error) { asked = true; return arp.MAC{}, nil }
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // RINGLET_TIMEOUT=1s
	defer cancel()
	p.answers(ctx, netip.MustParseAddr("10.50.0.9"))
	if _, wrong := p.fault.Problem(); !asked && !wrong {
		t.Error("the LAN was not asked, and no problem says so")
	}
}
