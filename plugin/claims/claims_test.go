package claims

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ringlet/ringlet/internal/bubble"
	"github.com/ringlet/ringlet/ipam"
)

// claimed is a node with clients that are to be claimed again.
type claimed struct {
	mu      sync.Mutex
	state   ipam.State
	left    []ipam.ClientRequest
	refuses map[netip.Addr]error
	asked   int
	log     bytes.Buffer
}

// Write takes a line of the log.
func (c *claimed) Write(line []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(line)
}

// after lets time pass, and looks.
func (c *claimed) after(d time.Duration, look func()) {
	time.Sleep(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	look()
}

func (c *claimed) Unclaimed(context.Context) ([]ipam.ClientRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.left), nil
}

func (c *claimed) Snapshot(context.Context) (ipam.Status, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return ipam.Status{State: c.state}, nil
}

func (c *claimed) Client(_ context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if err := c.refuses[r.Address]; err != nil {
		return ipam.AddressGrant{}, err
	}
	c.left = slices.DeleteFunc(c.left, func(q ipam.ClientRequest) bool { return q == r })
	return ipam.AddressGrant{}, nil
}

// Clients are claimed again once the host hands out addresses. What another has by now is a problem of the status and a
// line of the log, until it can be had.
func TestClaims(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := &claimed{state: ipam.Joining, refuses: map[netip.Addr]error{}}
		for i := range 6 {
			n.left = append(n.left, ipam.ClientRequest{Pool: "10.50.0.0/24", Address: netip.AddrFrom4([4]byte{10, 50, 0, byte(i)}), ID: fmt.Sprint("shim-", i)})
		}
		for i := 1; i < 6; i++ {
			n.refuses[n.left[i].Address] = &ipam.Error{Kind: ipam.ErrAddressInUse, Text: fmt.Sprintf("host-b has %d", i)}
		}
		c := New(n, slog.New(slog.NewTextHandler(n, nil)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		n.after(time.Minute, func() {
			if _, wrong := c.Fault.Problem(); wrong || n.asked > 0 {
				t.Errorf("it hands out nothing, and was asked %d times", n.asked)
			}
			n.state = ipam.Ready
		})
		n.after(5*time.Minute, func() {
			p, wrong := c.Fault.Problem()
			if want := "10.50.0.1 for shim-1 (host-b has 1); 10.50.0.2 for shim-2 (host-b has 2); 10.50.0.3 for shim-3 (host-b has 3); and 2 more"; !wrong || p.Code != "not-claimed" || p.Level != string(ipam.Degraded) || !strings.HasSuffix(p.Text, want) {
				t.Errorf("%t %+v", wrong, p)
			}
			if lines := strings.Count(n.log.String(), "not claimed again"); lines != 5 || strings.Count(n.log.String(), "client claimed again") != 1 {
				t.Errorf("the log has %d lines: %s", lines, n.log.String())
			}
			clear(n.refuses)
		})
		asked := 0
		n.after(time.Minute, func() {
			if _, wrong := c.Fault.Problem(); wrong || len(n.left) > 0 {
				t.Errorf("%v are to be claimed", n.left)
			}
			asked = n.asked
		})
		n.after(time.Hour, func() {
			if n.asked != asked {
				t.Error("it is asked for nothing")
			}
		})
		cancel()
		synctest.Wait()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
