package directory

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/events"
)

// alone is a peer without pools.
type alone struct{ self ipam.Identity }

func (a alone) Snapshot(context.Context) (ipam.Status, error) {
	return ipam.Status{State: ipam.Alone, Cluster: "0102030405060708090a0b0c0d0e0f10"}, nil
}

func (alone) HeldAfter(context.Context, netip.Prefix, netip.Addr, int) ([]ipam.AddressStatus, error) {
	return nil, nil
}

// recorder is a carrier that keeps to whom something was sent.
type recorder struct{ to []peer.ID }

func (r *recorder) Send(to peer.ID, _ ...[]byte) { r.to = append(r.to, to) }
func (*recorder) Broadcast([]byte)               {}
func (*recorder) Queued() int                    { return 0 }
func (*recorder) SetSummary(uint64)              {}
func (*recorder) Living() []peer.ID              { return nil }

// TestHeard compares with who shows another summary, and with nobody who shows
// the same, or none.
func TestHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		self := ipam.Identity{ID: peer.ID{1}, Name: "host-a", Boot: 1}
		d, err := New(Config{
			Self: self, Cluster: "test", Source: alone{self}, Log: events.New(1, 0),
			About: func() Node { return Node{} }, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{}
		d.Carry(r)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		d.Heard(peer.ID{2}, 0)
		synctest.Wait()
		d.Heard(peer.ID{3}, d.summary.Load())
		synctest.Wait()
		d.Heard(peer.ID{4}, d.summary.Load()+1)
		synctest.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := []peer.ID{{4}}; !slices.Equal(r.to, want) {
			t.Errorf("compared with %v, want %v", r.to, want)
		}
	})
}
