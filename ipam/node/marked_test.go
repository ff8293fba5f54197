//go:build marked

package node_test

import (
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/internal/contain"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/machinetest"
	"github.com/ringlet/ringlet/ipam/node"
)

// A frame that makes the decoder panic costs that frame: it is counted, those beside it are taken, and the node serves.
func TestMarkedFrame(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		counted := 0
		n, err := node.New(node.Config{
			Machine: ipam.Config{Name: "host-a", Rand: rand.New(rand.NewPCG(1, 2))},
			Store:   &disk{records: machinetest.Disk{}}, Logger: slog.New(slog.DiscardHandler), ObservePanic: func(string) { counted++ },
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := serve(t, n)
		for range 3 {
			n.Deliver(func(yield func([]byte, int) bool) {
				_ = yield([]byte("\x01"+contain.Mark), 0) && yield([]byte("garbage"), 0)
			})
		}
		synctest.Wait()
		if n.Refused() != 6 || counted != 3 {
			t.Errorf("%d frames were refused and %d panics counted, want 6 and 3", n.Refused(), counted)
		}
		if _, err := n.RequestAddress(t.Context(), request("web")); err != nil {
			t.Error(err)
		}
		select {
		case err := <-ended:
			t.Errorf("the node has ended: %v", err)
		default:
		}
	})
}
