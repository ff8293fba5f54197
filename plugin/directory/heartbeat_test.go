package directory

import (
	"context"
	"testing"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
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
		log := events.New(1, 0, 0)
		d, end := running(t, voter{alone{hostA}}, log, nil)
		oldest := time.Duration(0)
		for second := range 600 {
			time.Sleep(time.Second)
			if second%60 == 54 { // a problem that begins or ends, as one may each minute
				log.Problems(time.Now(), []ipam.Problem{{Code: "x", Text: time.Now().String(), Level: "degraded"}})
			}
			oldest = max(oldest, d.Stats().HeartbeatAge)
		}
		if oldest > lookEvery+2*time.Second {
			t.Errorf("the heartbeat was %v old", oldest)
		}
		end()
	})
}
