// Package claims claims the addresses of holders outside Docker again that the former peer of this host had handed out, after the
// host has started over.
//
// It refuses to know how a host starts over: the node has on its disk what is to be claimed.
package claims

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/fault"
)

const (
	// claimSoon is how soon it is looked again whether this host hands out addresses yet.
	claimSoon = 2 * time.Second
	// claimAgain is how soon an address that could not be had is claimed once more.
	claimAgain = 30 * time.Second
)

// Claims claims the addresses of clients again that the former peer of this host had handed out, once this one hands out
// any. It goes by what the node has on disk, and so also after a restart. Use [New].
type Claims struct {
	node   Node
	logger *slog.Logger
	Fault  *fault.Fault      // addresses that could not be had
	told   map[string]string // why a client did not get its address, as it was logged last
}

// Node is what [Claims] asks of a node.
type Node interface {
	Unclaimed(ctx context.Context) ([]ipam.ClientRequest, error)
	Client(ctx context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error)
	Snapshot(ctx context.Context) (ipam.Status, error)
}

// New returns claims of a node, which Run makes.
func New(n Node, logger *slog.Logger) *Claims {
	return &Claims{
		node: n, logger: logger, told: map[string]string{},
		Fault: &fault.Fault{
			Logger: logger, Code: "not-claimed",
			Text: func(err error) string {
				return "addresses of ringlet alloc were not claimed again after this host started over, and their holders may use them still: " + err.Error()
			},
			Next: fmt.Sprintf("ringlet tries again every %v; ringlet free --for HOLDER ends that, and ringlet alloc --pool POOL --for HOLDER takes another address, which the holder then has to use", claimAgain),
		},
	}
}

// Run claims until nothing is left to be claimed, or ctx ends. Its error is always nil: nothing else depends on it.
func (c *Claims) Run(ctx context.Context) error {
	for {
		list, err := c.node.Unclaimed(ctx)
		pause := claimSoon
		switch {
		case err != nil: // the node has stopped, or is busy
		case len(list) == 0:
			c.Fault.Set(nil)
			<-ctx.Done()
			return nil
		case c.mayClaim(ctx):
			if c.claim(ctx, list) {
				continue // others may have been freed meanwhile
			}
			pause = claimAgain
		}
		if !backoff.Sleep(ctx, pause, nil) {
			return nil
		}
	}
}

// mayClaim reports whether this host hands out addresses.
func (c *Claims) mayClaim(ctx context.Context) bool {
	st, err := c.node.Snapshot(ctx)
	return err == nil && slices.Contains([]ipam.State{ipam.Ready, ipam.CutOff, ipam.Alone}, st.State)
}

// claim tries to claim the addresses, and reports whether all of them were claimed.
func (c *Claims) claim(ctx context.Context, list []ipam.ClientRequest) bool {
	var failed []string
	for _, r := range list {
		_, err := c.node.Client(ctx, r)
		if ctx.Err() != nil {
			return false
		}
		attrs := []any{logattr.Addr(r.Address), slog.String("holder", r.ID)}
		if err == nil {
			c.logger.Info("address of a client claimed again", attrs...)
			continue
		}
		failed = append(failed, fmt.Sprintf("%v for %s (%v)", r.Address, r.ID, err))
		if key := r.Address.String() + " " + r.ID; c.told[key] != err.Error() {
			c.told[key] = err.Error()
			c.logger.Warn("address of a client not claimed again", append(attrs, logattr.Err(err))...)
		}
	}
	if len(failed) == 0 {
		return true
	}
	const shown = 3
	text := strings.Join(failed[:min(len(failed), shown)], "; ")
	if more := len(failed) - shown; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	c.Fault.Set(errors.New(text))
	return false
}
