package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// lookEvery is how often a command that waits looks how far the peer is.
const lookEvery = time.Second

func (a *app) drainCommand() *cobra.Command {
	var undo, noWait bool
	cmd := &cobra.Command{
		Use:        "drain",
		SuggestFor: []string{"cordon", "uncordon", "undrain"},
		Short:      "Give the space of this host back to the others",
		GroupID:    groupChange,
		Long: `Give the addresses of this host that are not in use back to the other hosts, and
take no more. What containers have stays theirs, and goes back when they are
gone. New containers get addresses only as far as other hosts lend one.

The command waits until nothing is left, and tells how far the host is. The host
goes on without it, also after a restart, until --undo.

Exit codes: 0 nothing is left, or that was not waited for; 1 failed.`,
		Example: `  ringlet drain
  ringlet drain --no-wait -o json | jq .held
  ringlet drain --undo`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.drain(ctx, c, undo, noWait) })(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "have this host take space again")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return at once")
	return cmd
}

func (a *app) drain(ctx context.Context, c *client, undo, noWait bool) error {
	var d admin.Departure
	if err := c.call(ctx, http.MethodPost, path("self", "drain"), admin.Drain{Undo: undo}, &d); err != nil {
		return err
	}
	if undo {
		return a.show(d, func() { a.view.printf("this host takes space again\n") })
	}
	drained := func(d admin.Departure) bool { return d.Owned == 0 }
	if err := a.follow(ctx, c, &d, drained, noWait); err != nil {
		return err
	}
	return a.show(d, func() {
		if drained(d) {
			a.view.wrap(plain, "drained: ", "this host has given all its space back; ringlet drain --undo ends that")
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
		Short:      "Take this host out of the cluster for good",
		GroupID:    groupChange,
		Long: `Take this host out of the cluster for good: it gives all its space back, and
hands out nothing any more. Remove the plugin afterwards; to bring the host back,
remove the plugin's data and let it join anew.

It is refused while a container, a network or anybody else has an address of this
host. With --force it leaves then, too, at once, and all its space is kept back from
everybody, as that of a host that was lost: its containers may go on using it. Where
nobody has one, --force changes nothing.

The command waits until the host has left, and tells how far it is: addresses that
were freed a moment ago rest first, for RINGLET_REST. The host goes on without it.
Until it has left, ringlet drain --undo keeps it.`,
		Example: `  ringlet leave
  ringlet drain && ringlet leave`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, _ []string) error { return a.leave(ctx, c, force, noWait) })(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "leave although addresses are in use, which are then kept back")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as the host is about to leave")
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
		kept = "; what it had is kept back until, with its plugin gone, ringlet forget on another host gives it up"
	}
	return a.show(d, func() {
		if gone(d) {
			a.view.wrap(plain, "left: ", "this host is out of the cluster and hands out nothing any more; remove the plugin, or its data to join anew"+kept)
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
			return errors.New("this host no longer gives its space back: that was undone, or there is nobody left to take it; ringlet status tells more")
		}
		if text := left(*d) + missing(st); text != told && a.format != formatJSON {
			a.view.wrap(plain, "giving space back: ", text)
			told = text
			if err := a.flushed(nil); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return errors.New("no longer waiting: the host goes on by itself, ringlet status tells how far it is")
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
		return "nothing is left, the other hosts are to agree"
	case d.Held == 0 && d.Resting > 0:
		return plural(d.Owned, "address is", "addresses are") + " left, none in use; " + plural(d.Resting, "rests", "rest") + " for a while (RINGLET_REST)"
	case d.Held == 0:
		return plural(d.Owned, "address is", "addresses are") + " left, none in use"
	}
	return plural(d.Owned, "address is", "addresses are") + " left, " + amount(d.Held) + " in use (ringlet ip ls shows them)"
}

// missing names the peers that cannot be reached: they may be what a peer waits
// for that gives its space back.
func missing(st ipam.Status) string {
	var names []string
	for _, p := range st.Peers {
		if !p.Reachable && p.State != stateEvicted && p.ID != st.Self.ID {
			names = append(names, safe(p.Name))
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; unreachable: " + strings.Join(names, ", ")
}

// maxHolders is how many holders are named where a peer cannot leave.
const maxHolders = 10

// withHolders adds to a refusal who holds addresses of this peer.
func withHolders(ctx context.Context, c *client, refusal error) error {
	var list []ipam.AddressStatus
	if err := c.get(ctx, path("addresses"), &list); err != nil {
		return refusal // which says most of it
	}
	var lines strings.Builder
	more := 0
	for _, s := range list {
		if !isHeld(s) {
			continue
		}
		if more++; more <= maxHolders {
			fmt.Fprintf(&lines, "\n  %v  %s", s.Address, safe(somebody(s)))
		}
	}
	if more > maxHolders {
		fmt.Fprintf(&lines, "\n  and %d more", more-maxHolders)
	}
	return fmt.Errorf("%w%s", refusal, &lines)
}
