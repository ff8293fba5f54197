package kernelnet

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/ringlet/ringlet/internal/namespace"
)

// notOfTheLink is an example of what counts.
func notOfTheLink(a netip.Addr) bool { return !a.IsLoopback() && !a.IsLinkLocalUnicast() }

// A change is known when the call returns that makes it, whoever hears of it first.
func TestKernelTellsAtOnce(t *testing.T) {
	namespace.Enter(t)
	kernel, err := OpenChanges(notOfTheLink)
	if err != nil {
		t.Fatal(err)
	}
	defer kernel.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := make(chan error)
	go func() {
		for {
			if err := kernel.Wait(ctx); err != nil {
				ended <- err
				return
			}
		}
	}()
	namespace.IP(t, "link", "set", "lo", "up")
	if n := kernel.Count(); n != 0 {
		t.Errorf("%d changes by lo, whose addresses do not count", n)
	}
	for _, address := range []string{"10.60.0.7/24", "fd00:60::7/64"} {
		for range 20 {
			for _, step := range []string{"add", "del"} {
				before := kernel.Count()
				namespace.IP(t, "address", step, address, "dev", "lo")
				if kernel.Count() == before {
					t.Fatalf("ip address %s %s is not known yet", step, address)
				}
			}
		}
	}
	// Of two ends of a line its own counts, whatever the other one has.
	for _, step := range []string{"add", "del"} {
		before := kernel.Count()
		namespace.IP(t, "address", step, "10.60.0.9", "peer", "169.254.1.1/32", "dev", "lo")
		if kernel.Count() == before {
			t.Errorf("ip address %s 10.60.0.9 peer 169.254.1.1 is not known yet", step)
		}
	}
	before := kernel.Count()
	namespace.IP(t, "address", "add", "fe80::7/64", "dev", "lo")
	if n := kernel.Count() - before; n != 0 {
		t.Errorf("%d changes by an address of the link", n)
	}
	gone := errors.New("enough")
	cancel(gone)
	if err := <-ended; !errors.Is(err, gone) {
		t.Errorf("it ended with %v", err)
	}
}
