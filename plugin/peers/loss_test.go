package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/ringlet/ringlet/gossip/memnet"
	"github.com/ringlet/ringlet/internal/bubble"
)

// Hosts agree while packets are lost, and soon: the carrier sends again what
// was lost, long before a call ends at its deadline of 20 seconds. How long it
// takes is printed.
func TestDecisionsUnderLoss(t *testing.T) {
	for _, loss := range []float64{0, 0.05, 0.1, 0.2, 0.3} {
		t.Run(fmt.Sprint(loss), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newCluster(t, 3)
				c.net.SetLink(func(_, _ netip.AddrPort) memnet.Link {
					return memnet.Link{Loss: loss, StreamLoss: loss, Delay: 100 * time.Microsecond}
				})
				var took []time.Duration
				for i := range 50 {
					begun := time.Now()
					if _, _, err := c.hosts[i%3].CreatePool(t.Context(), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 100, byte(i), 0}), 24), ""); err != nil {
						t.Fatal(err)
					}
					took = append(took, time.Since(begun))
				}
				slices.Sort(took)
				fmt.Fprintf(t.Output(), "%.0f %% lost: a decision takes %v (median), %v (worst of 50)\n", 100*loss, took[25].Round(time.Microsecond), took[49].Round(time.Microsecond))
				if worst := took[49]; worst > 5*time.Second {
					t.Errorf("a decision took %v", worst)
				}
			})
		})
	}
}
