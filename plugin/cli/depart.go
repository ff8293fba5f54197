package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// lookEvery is how often a command that waits looks how far the peer is.
const lookEvery = time.Second

func (a *app) drainCommand() *cobra.Command {
	var drain admin.Drain
	var noWait bool
	cmd := &cobra.Command{
		Use:        "drain",
		SuggestFor: []string{"cordon", "uncordon", "undrain"},
		Short:      "Give this host's free addresses to the other hosts",
		GroupID:    groupHosts,
		Long: `Give the unused addresses of this host to the other hosts, and take no further
ranges. Containers keep their addresses. When a container is removed, its
address goes to the other hosts, too. A new container on this host gets an
address only if another host lends one.

One host drains at a time: while another one still owns addresses, ringlet
refuses. It also refuses if too few addresses are free for what is in use here
and a small reserve for each host that stays. With --also it drains anyway.

The command shows the progress, and waits until this host owns no address. If
you interrupt it, the host continues by itself, also after a restart. To end
that, run ringlet drain --undo.

Exit codes: 0 this host owns no address, or --no-wait was given; 1 failed.`,
		Example: `  ringlet drain
  ringlet drain --no-wait -o json | jq .held
  ringlet drain --undo`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.drain(ctx, c, drain, noWait) })(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&drain.Undo, "undo", false, "let this host take ranges again")
	cmd.Flags().BoolVar(&drain.Also, "also", false, "drain although another host does, or others lack room")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once")
	return cmd
}

func (a *app) drain(ctx context.Context, c *client, body admin.Drain, noWait bool) error {
	var d admin.Departure
	if err := c.call(ctx, http.MethodPost, path("self", "drain"), body, &d); err != nil {
		return err
	}
	if body.Undo {
		return a.show(d, func() { a.view.printf("this host takes ranges again\n") })
	}
	drained := func(d admin.Departure) bool { return d.Owned == 0 }
	if err := a.follow(ctx, c, &d, drained, noWait); err != nil {
		return err
	}
	return a.show(d, func() {
		if drained(d) {
			a.view.wrap(plain, "drained: ", "this host owns no addresses any more; ringlet drain --undo ends that")
			return
		}
		a.view.wrap(plain, "draining: ", left(d))
	})
}

func (a *app) leaveCommand() *cobra.Command {
	var force, noWait bool
	cmd := &cobra.Command{
		Use:        "leave",
		SuggestFor: []string{"part", "quit", "retire", "remove"},
		Short:      "Remove this host from the cluster for good",
		GroupID:    groupHosts,
		Long: `Remove this host from the cluster for good. It gives its addresses to the other
hosts and hands out none any more. Remove the plugin afterwards, or run ringlet
rejoin to add the host again.

If a container, a network or another holder has an address of this host, ringlet
refuses to leave. With --force the host leaves at once. Its addresses are then
quarantined, like those of a lost host, because its containers may still use
them. If no address is in use, --force changes nothing.

The command shows the progress, and waits until the host has left. Addresses
that were freed a moment ago rest first (RINGLET_REST). If you interrupt the
command, the host continues by itself. Until it has left, ringlet drain --undo
keeps it.`,
		Example: `  ringlet leave
  ringlet drain && ringlet leave`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.leave(ctx, c, force, noWait) })(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "leave although addresses are in use, and quarantine them")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as the host begins to leave")
	return cmd
}

func (a *app) leave(ctx context.Context, c *client, force, noWait bool) error {
	var d admin.Departure
	if err := c.call(ctx, http.MethodPost, path("self", "leave"), admin.Leave{Force: force}, &d); err != nil {
		if p, ok := errors.AsType[*admin.Problem](err); ok && p.Code == ipam.ErrPoolInUse.Error() {
			return withHolders(ctx, c, p)
		}
		return err
	}
	gone := func(d admin.Departure) bool { return d.State == ipam.Left }
	if err := a.follow(ctx, c, &d, gone, noWait); err != nil {
		return err
	}
	kept := ""
	if force && d.Owned > 0 {
		kept = "; its addresses are quarantined. When the plugin here is removed, run ringlet forget on another host to free them"
	}
	return a.show(d, func() {
		if gone(d) {
			a.view.wrap(plain, "left: ", "this host is out of the cluster and hands out no addresses; remove the plugin, or run ringlet rejoin to join again"+kept)
			return
		}
		a.view.wrap(plain, "leaving: ", left(d))
	})
}

// follow waits until the peer is done with giving its space back, and tells how
// far it is whenever that changes. With noWait it does neither.
func (a *app) follow(ctx context.Context, c *client, d *admin.Departure, done func(admin.Departure) bool, noWait bool) error {
	ticker := time.NewTicker(cmp.Or(a.cfg.lookEvery, lookEvery))
	defer ticker.Stop()
	var st ipam.Status
	for told := ""; !noWait && !done(*d); {
		if !departs(d.State) {
			return errors.New("this host no longer gives its addresses to others: that was undone, or no other host is left to take them; see ringlet status")
		}
		if text := left(*d) + missing(st); text != told && a.format != formatJSON {
			shown := text
			if d.Held == 0 && d.Resting > 0 {
				shown = left(*d) + restEnd(ctx, c) + missing(st)
			}
			a.view.wrap(plain, "giving addresses to the others: ", shown)
			told = text
			if err := a.flushed(nil); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("no longer waiting: the host continues by itself; ringlet status shows its progress")
		case <-ticker.C:
		}
		st = ipam.Status{}
		if err := c.get(ctx, path("status"), &st); err != nil {
			return err
		}
		*d = admin.DepartureOf(st)
	}
	return nil
}

// departs reports whether a peer in that state gives its space back, or cannot
// say yet, since it has just started.
func departs(s ipam.State) bool {
	switch s {
	case ipam.Leaving, ipam.Left, ipam.Checking, ipam.Joining:
		return true
	default:
		return false
	}
}

// left says what a peer has still to give back.
func left(d admin.Departure) string {
	switch {
	case d.Owned == 0:
		return "no address is left; the other hosts have to agree"
	case d.Held == 0 && d.Resting > 0:
		return plural(d.Owned, "address is", "addresses are") + " left, none in use; " +
			plural(d.Resting, "rests", "rest") + " for a while (RINGLET_REST)"
	case d.Held == 0:
		return plural(d.Owned, "address is", "addresses are") + " left, none in use"
	}
	return plural(d.Owned, "address is", "addresses are") + " left, " + amount(d.Held) + " in use (ringlet ip ls shows them)"
}

// restEnd says until when the address rests that was freed last; nothing if that is not known.
func restEnd(ctx context.Context, c *client) string {
	var list []ipam.AddressStatus
	if c.get(ctx, path("addresses"), &list) != nil {
		return ""
	}
	list = slices.DeleteFunc(list, func(s ipam.AddressStatus) bool { return s.State != stateResting })
	if len(list) == 0 {
		return ""
	}
	last := slices.MaxFunc(list, func(x, y ipam.AddressStatus) int { return x.Since.Compare(y.Since) })
	var e ipam.Explanation
	if c.get(ctx, path("addresses", last.Address.String(), "explain"), &e) != nil || e.Rests == nil {
		return ""
	}
	return ", until " + e.Rests.UTC().Format("15:04:05 MST") + " at the latest"
}

// unreachable names the peers that cannot be reached, as far as they were not evicted.
func unreachable(st ipam.Status) (names []string) {
	for _, p := range st.Peers {
		if isLost(p, st.Self) {
			names = append(names, safe(p.Name))
		}
	}
	return names
}

// missing names the peers that cannot be reached: they may be what a peer waits
// for that gives its space back.
func missing(st ipam.Status) string {
	names := unreachable(st)
	if len(names) == 0 {
		return ""
	}
	return "; unreachable: " + strings.Join(names, ", ")
}

// maxHolders is how many holders are named where a peer cannot leave.
const maxHolders = 10

// withHolders adds to a refusal who holds addresses of this peer.
func withHolders(ctx context.Context, c *client, refusal error) error {
	all := func(admin.Usage) bool { return true }
	return fmt.Errorf("%w%s", refusal, strings.TrimSuffix(holdersOf(ctx, c, path("addresses"), all, "\n"), "\n"))
}

// holdersOf lists who holds the addresses of a list that are wanted, a line for each, behind a head; nothing if nobody does,
// or the plugin does not say.
func holdersOf(ctx context.Context, c *client, list string, wanted func(admin.Usage) bool, head string) string {
	var uses []admin.Usage
	if c.get(ctx, list, &uses) != nil {
		return ""
	}
	var lines strings.Builder
	n := 0
	for _, u := range uses {
		if !isHeld(u.AddressStatus) || !wanted(u) {
			continue
		}
		if n++; n == 1 {
			lines.WriteString(head)
		}
		if n <= maxHolders {
			fmt.Fprintf(&lines, "  %v  %s\n", u.Address, safe(somebody(u.AddressStatus)))
		}
	}
	if n > maxHolders {
		fmt.Fprintf(&lines, "  and %d more\n", n-maxHolders)
	}
	return lines.String()
}
