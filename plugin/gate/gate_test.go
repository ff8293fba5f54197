package gate

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
)

// backend answers requests for pools with what it is told to.
type backend struct {
	driver.Backend
	pool func() (ipam.PoolGrant, error)
}

func (b backend) RequestPool(context.Context, ipam.PoolRequest) (ipam.PoolGrant, error) {
	return b.pool()
}

const timeout = 20 * time.Second

// ask returns the pool that a request gets, how long that took, and its error.
func ask(t *testing.T, g *Gate) (pool string, took time.Duration, err error) {
	t.Helper()
	begun := time.Now()
	got, err := g.RequestPool(t.Context(), ipam.PoolRequest{Space: ipam.Local})
	return got.Network.Pool.String(), time.Since(begun), err
}

func granting(pool string) backend {
	return backend{pool: func() (ipam.PoolGrant, error) {
		return ipam.PoolGrant{Network: ipam.Network{Pool: netip.MustParsePrefix(pool)}}, nil
	}}
}

// A request waits for a node, is refused with the reason once its time has passed since the gate was shut, and later ones are refused
// at once.
func TestRequestsWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := New("host-a", timeout, func() bool { return true })
		time.AfterFunc(3*time.Second, func() { g.Open(granting("10.50.0.0/24")) })
		if pool, took, err := ask(t, g); pool != "10.50.0.0/24" || took != 3*time.Second {
			t.Errorf("%s, %v after %v", pool, err, took)
		}
		g.Shut()
		if _, took, err := ask(t, g); !errors.Is(err, ipam.ErrStopped) || took != timeout {
			t.Errorf("without a reason: %v after %v", err, took)
		}
		why := &ipam.Error{Kind: ipam.ErrStopped, Text: "the disk is full"}
		g.Explain(why)
		if _, took, err := ask(t, g); !errors.Is(err, why) || took != 0 {
			t.Errorf("with a reason: %v after %v", err, took)
		}
	})
}

// A node that stops because of its disk has a request served once more, by the next one; one in which a request panicked does not.
func TestRequestOfANodeThatStops(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := New("host-a", timeout, func() bool { return true })
		stops := func(stack []byte) backend {
			return backend{pool: func() (ipam.PoolGrant, error) {
				g.Shut()
				time.AfterFunc(time.Second, func() { g.Open(granting("10.51.0.0/24")) })
				return ipam.PoolGrant{}, &node.StopError{Cause: errors.New("no space left"), Stack: stack}
			}}
		}
		g.Open(stops(nil))
		if pool, took, err := ask(t, g); pool != "10.51.0.0/24" || took < time.Second {
			t.Errorf("%s, %v after %v", pool, err, took)
		}
		g.Shut()
		g.Open(stops([]byte("goroutine 1")))
		if _, _, err := ask(t, g); err == nil {
			t.Error("the request was served again")
		}
		time.Sleep(time.Second)
	})
}
