package directory

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/events"
)

// voter is the first voter of its cluster.
type voter struct{ alone }

func (v voter) Snapshot(ctx context.Context) (ipam.Status, error) {
	st, err := v.alone.Snapshot(ctx)
	st.Self = ipam.PeerStatus{ID: v.self.ID.String()}
	st.Voters = []string{st.Self.ID}
	return st, err
}

func (v voter) Status(ctx context.Context) (ipam.Status, error) { return v.Snapshot(ctx) }

// The heartbeat is renewed every minute, also where something happens just before it is due.
func TestBeat(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		self := ipam.Identity{ID: peer.ID{1}, Name: "host-a", Boot: 1}
		log := events.New(1, 0, 0)
		d, err := New(Config{
			Self: self, Cluster: "test", Source: voter{alone{self}}, Log: log,
			About: func() Node { return Node{} }, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		oldest := time.Duration(0)
		for second := range 600 {
			time.Sleep(time.Second)
			if second%60 == 54 { // a problem that begins or ends, as one may each minute
				log.Problems(time.Now(), []ipam.Problem{{Code: "x", Text: time.Now().String(), Level: "degraded"}})
			}
			oldest = max(oldest, d.Stats().Beat)
		}
		if oldest > lookEvery+2*time.Second {
			t.Errorf("the heartbeat was %v old", oldest)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
