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

func (a *app) rejoinCommand() *cobra.Command {
	var sure, dryRun, noWait bool
	const flag = "set-database-aside"
	cmd := &cobra.Command{
		Use:        "rejoin",
		SuggestFor: []string{"readmit", "reset", "return", "rebuild"},
		Short:      "Start over as a new peer on a suspended host",
		GroupID:    groupHosts,
		Long: `Start over with this host as a new peer of its cluster, and keep its containers
running. Do this where ringlet status says that this host is suspended, or after
ringlet leave. Nothing undoes it.

The database of this host is set aside. The last two such files are kept in the
plugin's data. The new peer looks for the other hosts where they were last, and
never founds a cluster, whatever RINGLET_BOOTSTRAP says. Containers keep their
addresses, where no other host has handed them out in the meantime. No host
hands out the addresses that this host may use for ten minutes. Addresses of
ringlet alloc are claimed again. ringlet status names those that another host
has handed out.

Without --` + flag + ` the command only shows what would happen.

If only the data of this host was moved, and no other copy of it runs, ringlet
trust keeps the database.

The command waits until this host is a member of the cluster. If you interrupt
it, the host continues by itself.

Exit codes: 0 this host is a member, or --no-wait or --dry-run was given; 1
failed.`,
		Example: `  ringlet rejoin --dry-run
  ringlet rejoin --` + flag,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				if err := a.rejoin(ctx, c, dryRun || !sure, noWait); err != nil || sure || dryRun {
					return err
				}
				return usagef(cmd, "nothing was changed: this sets the database of this host aside, and nothing undoes it. If that is wanted, add --%s", flag)
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&sure, flag, false, "state that this host is to start over")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only show what would happen")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return as soon as this host has started over")
	return cmd
}

func (a *app) rejoin(ctx context.Context, c *client, dryRun, noWait bool) error {
	var r admin.Rejoining
	body := admin.Rejoin{DryRun: dryRun, SetTheDatabaseAside: !dryRun}
	if err := c.call(ctx, http.MethodPost, path("self", "rejoin"), body, &r); err != nil {
		return err
	}
	if dryRun {
		return a.show(r, func() { a.view.wouldRejoin(r) })
	}
	if a.format != formatJSON {
		a.view.rejoins(r)
		if err := a.flushed(nil); err != nil {
			return err
		}
	}
	if !noWait {
		st, err := a.awaitMember(ctx, c, r.Former)
		if err != nil {
			return err
		}
		if a.format != formatJSON {
			a.view.wrap(plain, "member: ", fmt.Sprintf("this host is a member of the cluster of %s", plural(len(st.Peers), "host", "hosts")))
		}
	}
	return a.show(r, func() {})
}

// rejoinPatience is for how long the plugin may not answer while it starts over.
const rejoinPatience = 30 * time.Second

// awaitMember waits until this host is a member of its cluster again, as another peer than the former one.
func (a *app) awaitMember(ctx context.Context, c *client, former string) (st ipam.Status, err error) {
	every := cmp.Or(a.cfg.lookEvery, lookEvery)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for silent, told := time.Duration(0), ""; ; silent += every {
		st = ipam.Status{}
		err := c.get(ctx, path("status"), &st)
		switch {
		case err != nil && silent > rejoinPatience:
			return st, err
		case err != nil || st.Self.ID == former:
		case st.State == ipam.Ready || st.State == ipam.Alone:
			return st, nil
		default:
			silent = 0
			if text := standing(st.State); text != told && a.format != formatJSON {
				a.view.wrap(plain, "waiting: ", text)
				told = text
				if err := a.flushed(nil); err != nil {
					return st, err
				}
			}
		}
		select {
		case <-ctx.Done():
			return st, errors.New("no longer waiting: the host continues by itself; ringlet status shows its progress")
		case <-ticker.C:
		}
	}
}

// wouldRejoin tells what starting over means for this host.
func (v view) wouldRejoin(r admin.Rejoining) {
	v.wrap(plain, "would start over: ", "the database of this host is set aside, and peer "+safe(r.Former)+" is replaced by a new one; its containers keep running")
	v.carriedOver(r)
}

// rejoins tells that this host starts over.
func (v view) rejoins(r admin.Rejoining) {
	if r.Kept == "" {
		v.wrap(yellow, "starts over: ", "that is not done yet; ringlet status shows the progress")
	} else {
		v.wrap(plain, "started over: ", "the former database of this host is kept as "+safe(r.Kept))
	}
	v.carriedOver(r)
}

// carriedOver tells what a new peer has from the former one.
func (v view) carriedOver(r admin.Rejoining) {
	if len(r.Peers) == 0 {
		v.wrap(yellow, "other hosts: ", "none is known here; another host has to name this one in its RINGLET_JOIN, or this one another in its own")
	} else {
		names := make([]string, len(r.Peers))
		for i, p := range r.Peers {
			names[i] = safe(p)
		}
		v.wrap(plain, "other hosts: ", strings.Join(names, ", "))
	}
	v.wrap(plain, "in use: ", plural(r.InUse, "address", "addresses")+" that this host may use "+isAre(uint64(r.InUse))+" kept from other containers for ten minutes")
	for _, c := range r.Clients {
		v.wrap(plain, "claimed again: ", c.Address.String()+" in "+safe(c.Pool)+" for "+safe(c.For))
	}
}

func (a *app) trustCommand() *cobra.Command {
	var sure bool
	const flag = "i-know-no-other-copy-runs"
	cmd := &cobra.Command{
		Use:        "trust --" + flag,
		SuggestFor: []string{"accept", "unsuspend", "resume"},
		Short:      "Keep a database that was moved to this host",
		GroupID:    groupHosts,
		Long: `Keep the database of this host, where ringlet status says that it was written at
another place. Do this if you moved the data of the plugin, or this machine, and
no other copy of the data runs or is ever started again. The host then continues
with its addresses.

If another copy runs, both hand out the same addresses. If you are not sure, use
ringlet rejoin. It is also the way for a host that was given up, and for a
database that is an old one: ringlet refuses to trust those.

If ringlet status says that this host hands out nothing new on a LAN, because
the database and the copy of the decisions were lost, trust ends that. Restore
the exclusions and reservations first.`,
		Example: `  ringlet status
  ringlet trust --` + flag,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !sure {
				return usagef(cmd, "this host would continue with a database that was written at another place. Do it only if the data was moved here, and no other copy of it runs or is ever started again. If that is so, add --%s", flag)
			}
			return a.do(a.trust)(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&sure, flag, false, "state that no other copy of the data\nruns or is ever started again")
	return cmd
}

func (a *app) trust(ctx context.Context, c *client, _ []string) error {
	var t admin.Trusted
	if err := c.call(ctx, http.MethodPost, path("self", "trust"), admin.Trust{NoOtherCopyRuns: true}, &t); err != nil {
		return err
	}
	return a.show(t, func() {
		a.view.wrap(plain, "trusted: ", safe(t.Peer)+" continues with its database; it is now "+standing(t.State))
	})
}
