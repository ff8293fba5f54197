package gossip

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/memnet"
)

// TestTrialsAtOnce tries one address twice at the same time, as an operator
// and the search for peers may.
func TestTrialsAtOnce(t *testing.T) {
	here, there := netip.MustParseAddrPort("10.0.0.1:7950"), "10.0.0.2:7950"
	inner, err := memnet.New().Listen(here)
	if err != nil {
		t.Fatal(err)
	}
	g, _ := logging(t)
	tr := newTransport(inner, here, false, g.screen)
	defer func() { _ = tr.Shutdown() }()
	try := func() error {
		_, err := tr.DialTimeout(there, time.Second)
		return err
	}
	var second dial
	first, _ := tr.trial(there, func() error {
		second, err = tr.trial(there, try)
		return err
	})
	for i, d := range []dial{first, second} {
		if d.connected || !errors.Is(d.err, syscall.ECONNREFUSED) {
			t.Errorf("trial %d: got %+v, want a refused connection", i+1, d)
		}
	}
	if len(tr.dials) > 0 {
		t.Errorf("%d trials are left", len(tr.dials))
	}
}
