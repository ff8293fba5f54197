package cli

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/internal/parse"
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

POOL is the subnet or the name of a pool, or the name of a Docker network of
this host.`,
		Args: noSuchCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	pool.AddCommand(a.poolCreateCommand(), a.poolListCommand(), a.poolRemoveCommand(), a.poolShowCommand())
	return pool
}

func (a *app) poolCreateCommand() *cobra.Command {
	var name string
	var wait bool
	cmd := &cobra.Command{
		Use:        "create CIDR",
		SuggestFor: []string{"add", "new", "define"},
		Short:      "Create a pool that stays until it is removed",
		Example: `  ringlet pool create 10.50.0.0/24 --name lab
  docker network create --ipam-driver ringlet:latest --ipam-opt pool=lab lab-net`,
		Args: exactly("CIDR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			cidr, err := parse.Subnet(args[0])
			if err != nil {
				return usagef(cmd, "%v", err)
			}
			if name != "" && !chronicle.ValidName(name) {
				return usagef(cmd, "%q cannot be the name of a pool: use 1 to %d letters, digits, dots, dashes and underscores, beginning with a letter or digit, and no address", name, chronicle.MaxName)
			}
			return a.do(func(ctx context.Context, c *client, _ []string) error {
				var made admin.MadePool
				if err := c.call(ctx, http.MethodPost, path("pools"), admin.NewPool{CIDR: cidr.String(), Name: name}, &made); err != nil {
					return err
				}
				if err := a.show(made, func() { a.view.made(made) }); err != nil || !wait {
					return err
				}
				return a.applied(ctx, c)
			})(cmd, args)
		},
	}
	waitFlag(cmd, &wait)
	cmd.Flags().StringVar(&name, "name", "", "a `name` for the pool")
	return cmd
}

func (a *app) poolListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
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
    READY HERE   ready or resting on this host, also counted above

RESTING, READY and FREE addresses are handed out; the others are not. A range is
a run of addresses that one host owns: it hands these out without asking. When
it has few left, it takes a FREE range. docs/concepts.md explains each word.

The counts of other hosts are a minute old at most. A ~ in HELD says that a host
has not reported yet what it holds. Pools that networks left behind are listed
with --all only.`,
		Example: "  ringlet pool ls\n  ringlet pool ls -o json | jq -r '.[].pool'",
		Args:    exactly(),
		RunE:    a.do(func(ctx context.Context, c *client, _ []string) error { return a.listPools(ctx, c, all) }),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list pools that nothing uses and no operator made")
	return cmd
}

func (a *app) poolRemoveCommand() *cobra.Command {
	var unused bool
	cmd := &cobra.Command{
		Use:                   "rm POOL|--unused",
		DisableFlagsInUseLine: true,
		Short:                 "Remove an unused pool, or all of them",
		Long: `Remove a pool that has no address in use and no network on any host. Its
exclusions and reservations are removed with it.

With --unused, remove all pools that networks have left behind. Pools that an
operator made or named, and those with exclusions or reservations, stay.`,
		SuggestFor: []string{"remove", "delete", "del"},
		Example:    "  ringlet pool rm lab\n  ringlet pool rm --unused",

		ValidArgsFunction: a.completeFirst(poolWords),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case unused && len(args) > 0:
				return usagef(cmd, "give either a pool or --unused")
			case unused:
				return a.do(a.removeUnused)(cmd, args)
			}
			if err := exactly("POOL")(cmd, args); err != nil {
				return err
			}
			return a.do(func(ctx context.Context, c *client, args []string) error {
				if err := c.call(ctx, http.MethodDelete, path("pools", args[0]), nil, nil); err != nil {
					return err
				}
				return a.show(struct {
					Removed string `json:"removed"`
				}{args[0]}, func() { a.view.printf("removed pool %s\n", safe(args[0])) })
			})(cmd, args)
		},
	}
	cmd.Flags().BoolVar(&unused, "unused", false, "remove all pools that networks have left behind")
	return cmd
}

func (a *app) poolShowCommand() *cobra.Command {
	return &cobra.Command{
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
	}
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

// leftBehind reports whether a network has left a pool behind that nothing uses, as far as this host knows, and no operator cares for.
func leftBehind(p ipam.PoolStatus) bool {
	ends := uint64(2) // network and broadcast address; a list of pools does not say what else is reserved
	if p.Pool.Addr().Is6() {
		ends = 1
	}
	return p.Networks == 0 && p.Held == 0 && p.Quarantined == 0 && p.Reserved <= ends && p.Name == "" && p.Origin != "operator" &&
		!slices.ContainsFunc(p.Holders, func(r ipam.RangeStatus) bool {
			return r.Kind == chronicle.KindExcluded.String() || r.Kind == chronicle.KindKeptForName.String()
		})
}

// removal is what became of the pools that networks have left behind.
type removal struct {
	Removed []string          `json:"removed"`
	Kept    map[string]string `json:"kept"` // why it was not removed, by pool
}

// removeUnused removes the pools that networks have left behind. The peer refuses those that another host uses.
func (a *app) removeUnused(ctx context.Context, c *client, _ []string) error {
	var st ipam.Status
	if err := c.get(ctx, path("status"), &st); err != nil {
		return err
	}
	did := removal{[]string{}, map[string]string{}}
	for _, p := range st.Pools {
		if !leftBehind(p) {
			continue
		}
		err := c.call(ctx, http.MethodDelete, path("pools", p.Pool.String()), nil, nil)
		refused, ok := errors.AsType[*admin.Problem](err)
		switch {
		case err == nil:
			did.Removed = append(did.Removed, p.Pool.String())
		case ok && (refused.Code == ipam.ErrPoolInUse.Error() || refused.Code == ipam.ErrPoolNotFound.Error()):
			did.Kept[p.Pool.String()] = refused.Detail
		default:
			return err
		}
	}
	return a.show(did, func() {
		for _, p := range did.Removed {
			a.view.printf("removed pool %s\n", p)
		}
		for _, p := range slices.Sorted(maps.Keys(did.Kept)) {
			a.view.wrap(plain, "kept pool "+p+": ", safe(did.Kept[p]))
		}
		if len(did.Removed)+len(did.Kept) == 0 {
			a.view.printf("there is no unused pool\n")
		}
	})
}

func (a *app) listPools(ctx context.Context, c *client, all bool) error {
	var pools []ipam.PoolStatus
	if err := c.get(ctx, path("pools"), &pools); err != nil {
		return err
	}
	return a.show(pools, func() {
		if len(pools) == 0 {
			a.view.printf("no pools: docker network create --ipam-driver makes one, or ringlet pool create\n")
			return
		}
		hidden := 0
		if !all {
			n := len(pools)
			pools = slices.DeleteFunc(pools, leftBehind)
			hidden = n - len(pools)
		}
		if hidden > 0 {
			defer func() {
				a.view.printf("and %s that nothing uses: see --all, and ringlet pool rm --unused\n", plural(hidden, "pool", "pools"))
			}()
		}
		if len(pools) == 0 {
			return
		}
		rows := make([][]string, len(pools))
		for i, p := range pools {
			rows[i] = []string{
				p.Pool.String(), p.Name, strings.Join(p.NetworkNames, ","), amount(p.Size), heldText(p), amount(p.Resting), amount(p.Ready),
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
			{title: "READY HERE", right: true, drop: 5},
		}, rows)
	})
}

// heldText counts what is held in a pool. A mark says that it may be more: a host that owns a part has not reported yet.
func heldText(p ipam.PoolStatus) string {
	if slices.ContainsFunc(p.Shares, func(s ipam.ShareStatus) bool { return !s.Announced && s.Owned > 0 }) {
		return "~" + amount(p.Held)
	}
	return amount(p.Held)
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
