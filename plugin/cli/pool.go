package cli

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) poolCommand() *cobra.Command {
	pool := &cobra.Command{
		Use:        "pool",
		SuggestFor: []string{"pools", "subnet", "subnets", "network"},
		Short:      "List, create, show and remove pools",
		GroupID:    groupPools,
		Long: `A pool is a subnet from which ringlet hands out addresses. docker network create
makes the pool of its network. A subnet that ringlet chose is removed with its
last network. One that you named stays, with the former holders of its
addresses, until another network needs the space. A pool that is created here,
or that has a name, stays until you remove it here.

POOL is the CIDR or the name of a pool.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var name string
	create := &cobra.Command{
		Use:        "create CIDR",
		SuggestFor: []string{"add", "new", "define"},
		Short:      "Create a pool that stays until it is removed",
		Example: `  ringlet pool create 10.50.0.0/24 --name lab
  docker network create --ipam-driver ringlet:latest --ipam-opt pool=lab lab-net`,
		Args: exactly("CIDR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cidr, err := parseCIDR(cmd, args[0])
			if err != nil {
				return err
			}
			if name != "" && !chronicle.ValidName(name) {
				return usagef(cmd, "%q cannot be the name of a pool: use 1 to %d letters, digits, dots, dashes and underscores, beginning with a letter or digit, and no address", name, chronicle.MaxName)
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				var made admin.MadePool
				if err := c.call(ctx, http.MethodPost, path("pools"), admin.NewPool{CIDR: cidr.String(), Name: name}, &made); err != nil {
					return err
				}
				return a.show(made, func() { a.view.made(made) })
			})(cmd, args)
		},
	}
	create.Flags().StringVar(&name, "name", "", "a `name` for the pool")
	pool.AddCommand(create, &cobra.Command{
		Use:        "ls",
		SuggestFor: []string{"list"},
		Short:      "List the pools",
		Long: `List the pools, and count the addresses of each in the whole cluster. The
columns from HELD to QUARANTINED add up to SIZE:

    HELD         in use by containers, other holders or a host itself
    RESTING      freed a moment ago, handed out only if the pool has no other
    READY        not in use, in a range of some host
    FREE         not in use, and owned by no host
    RESERVED     excluded or reserved for a name, network and broadcast
                 addresses, and gateways that hosts share
    QUARANTINED  of evicted hosts, and possibly in use there
    MINE         ready or resting on this host, also counted above

The counts of other hosts are a minute old at most.`,
		Example: "  ringlet pool ls\n  ringlet pool ls -o json | jq -r '.[].pool'",
		Args:    exactly(),
		RunE:    a.do(a.listPools),
	}, &cobra.Command{
		Use:   "show POOL",
		Short: "Show one pool and its ranges",
		Long: `Show one pool: a bar of its owners, and its ranges in the order of their
addresses. HELD is known for the ranges of this host only. VERSION is the number
of the decision that gave the range to its owner. NOTE says why a range is
reserved.`,
		Example:    "  ringlet pool show 10.50.0.0/24\n  ringlet pool show lab",
		Args:       exactly("POOL"),
		RunE:       a.do(a.showPool),
		SuggestFor: []string{"inspect", "get"},

		ValidArgsFunction: a.completeFirst(poolWords),
	}, &cobra.Command{
		Use:   "rm POOL",
		Short: "Remove an unused pool",
		Long: `Remove a pool that has no address in use and no network on any host. Its
exclusions and reservations are removed with it.`,
		SuggestFor: []string{"remove", "delete", "del"},
		Example:    "  ringlet pool rm lab",
		Args:       exactly("POOL"),

		ValidArgsFunction: a.completeFirst(poolWords),
		RunE: a.do(func(ctx context.Context, c *client, args []string) error {
			if err := c.call(ctx, http.MethodDelete, path("pools", args[0]), nil, nil); err != nil {
				return err
			}
			return a.show(struct {
				Removed string `json:"removed"`
			}{args[0]}, func() { a.view.printf("removed pool %s\n", safe(args[0])) })
		}),
	})
	return pool
}

// made tells of a pool that was to be created.
func (v view) made(p admin.MadePool) {
	title, size := poolTitle(p.PoolStatus), plural(p.Size, "address", "addresses")
	switch {
	case p.Created:
		v.printf("created pool %s with %s\n", title, size)
	case p.Chosen && p.Name == "":
		v.printf("pool %s exists already, with %s; it is removed with its last network, unless you give it a name with --name\n", title, size)
	default:
		v.printf("pool %s exists already, with %s\n", title, size)
	}
}

// parseCIDR reads a subnet of the command line. It refuses host bits rather
// than to drop them: more often than not they are a slip.
func parseCIDR(cmd *cobra.Command, s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return netip.Prefix{}, usagef(cmd, "%q is not a subnet such as 10.50.0.0/24 or fd00:50::/64", s)
	case p != p.Masked():
		return netip.Prefix{}, usagef(cmd, "%v has bits set behind its mask: did you mean %v", p, p.Masked())
	}
	return p, nil
}

func (a *app) listPools(ctx context.Context, c *client, _ []string) error {
	var pools []ipam.PoolStatus
	if err := c.get(ctx, path("pools"), &pools); err != nil {
		return err
	}
	return a.show(pools, func() {
		if len(pools) == 0 {
			a.view.printf("no pools: docker network create --ipam-driver makes one, or ringlet pool create\n")
			return
		}
		rows := make([][]string, len(pools))
		for i, p := range pools {
			rows[i] = []string{
				p.Pool.String(), p.Name, strings.Join(p.NetworkNames, ","), amount(p.Size), amount(p.Held), amount(p.Resting), amount(p.Ready),
				amount(p.Free), amount(p.Reserved), amount(p.Quarantined), amount(p.Mine),
			}
		}
		a.view.table([]column{
			{title: "POOL"},
			{title: "NAME", cut: true, drop: 1},
			{title: "NETWORK", cut: true, drop: 1},
			{title: "SIZE", right: true},
			{title: "HELD", right: true},
			{title: "RESTING", right: true, drop: 4},
			{title: "READY", right: true, drop: 2},
			{title: "FREE", right: true, drop: 2},
			{title: "RESERVED", right: true, drop: 3},
			{title: "QUARANTINED", right: true, drop: 6},
			{title: "MINE", right: true, drop: 5},
		}, rows)
	})
}

func (a *app) showPool(ctx context.Context, c *client, args []string) error {
	var p ipam.PoolStatus
	if err := c.get(ctx, path("pools", args[0]), &p); err != nil {
		return err
	}
	if a.format == formatJSON {
		return writeJSON(a.out, p)
	}
	var st ipam.Status
	if err := c.get(ctx, path("status"), &st); err != nil {
		return err
	}
	a.view.pool(p)
	a.view.printf("\n")
	a.view.ranges(p, ownersOf(st))
	return nil
}
