package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
)

const (
	// applyTime is how long --wait waits for the other hosts.
	applyTime = 20 * time.Second
	// applyEvery is how often it looks.
	applyEvery = 300 * time.Millisecond
)

// waitFlag adds --wait.
func waitFlag(cmd *cobra.Command, wait *bool) {
	cmd.Flags().BoolVar(wait, "wait", false, "wait up to 20s until all reachable hosts have applied it;\nexit code 3: some hosts have not, and are named")
}

// applied waits until every host that can be reached has applied what this one has,
// and names those that have not: on standard error, as the answer is told already.
func (a *app) applied(ctx context.Context, c *client) error {
	var slot uint64
	for begun := time.Now(); ; {
		var st ipam.Status
		if err := c.get(ctx, path("status"), &st); err != nil {
			return err
		}
		if slot == 0 {
			slot = st.Slot
		}
		late, silent := unapplied(&st, slot)
		if len(late) == 0 || time.Since(begun) > applyTime {
			late = append(late, silent...)
			if len(late) == 0 {
				return nil
			}
			slices.Sort(late)
			_, _ = c.progress.Write([]byte("not applied yet on " + safe(strings.Join(late, ", ")) + "\n"))
			return exitError(exitDegraded)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(applyEvery):
		}
	}
}

// unapplied names the hosts that are not known to have applied a slot: those that can be
// reached, and those that cannot.
func unapplied(st *ipam.Status, slot uint64) (late, silent []string) {
	for _, p := range st.Peers {
		switch {
		case p.ID == st.Self.ID || p.State == "evicted" || p.Slot >= slot:
		case p.Reachable:
			late = append(late, p.Name)
		default:
			silent = append(silent, p.Name)
		}
	}
	return late, silent
}
