package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

func (a *app) ringCommand() *cobra.Command {
	var pool string
	var table bool
	cmd := &cobra.Command{
		Use:     "ring",
		Short:   "Draw the ranges of a pool and their owners",
		GroupID: groupStatus,
		Long: `Draw each pool in the order of its addresses, one letter for each host, and list
its ranges. A range that is too small for a letter is only in the list. HELD is
known for the ranges of this host only. VERSION is the number of the decision
that gave the range to its owner.

With --table list the rows of each pool instead. The primary of a row takes free
addresses of it before others do, and the secondary before all but the primary.
They are in different zones (RINGLET_ZONE) if there are several. No address is
owned because of the table. If a pool has more than 64 rows, --pool shows all.`,
		Example: `  ringlet ring --pool 10.50.0.0/24
  ringlet ring --table --pool 10.50.0.0/24
  ringlet ring -o json`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error {
			if table {
				return a.table(ctx, c, pool)
			}
			return a.ring(ctx, c, pool)
		}),
	}
	cmd.Flags().BoolVar(&table, "table", false, "list which hosts take free addresses first, and their zones")
	a.poolFlag(cmd, &pool, "only this `pool`, by subnet, name or network")
	return cmd
}

// poolFlag adds --pool to a command.
func (a *app) poolFlag(cmd *cobra.Command, pool *string, usage string) {
	cmd.Flags().StringVar(pool, "pool", "", usage)
	_ = cmd.RegisterFlagCompletionFunc("pool", a.complete(poolWords)) // the flag exists
}

func (a *app) ring(ctx context.Context, c *client, pool string) error {
	if a.format == formatJSON {
		var ranges []ipam.RangeStatus
		if err := c.get(ctx, query(path("ring"), "pool", pool), &ranges); err != nil {
			return err
		}
		return writeJSON(a.out, ranges)
	}
	st, err := poolsOf(ctx, c, pool)
	if err != nil {
		return err
	}
	if len(st.Pools) == 0 {
		a.view.printf("no pools, so no ring\n")
		return nil
	}
	owners := ownersOf(st)
	for i, p := range st.Pools {
		if i > 0 {
			a.view.printf("\n")
		}
		a.view.ring(p, owners)
	}
	return nil
}

// poolsOf returns the status with one pool alone, or with all if none is named.
func poolsOf(ctx context.Context, c *client, pool string) (ipam.Status, error) {
	var st ipam.Status
	if err := c.get(ctx, path("status"), &st); err != nil || pool == "" {
		return st, err
	}
	var one ipam.PoolStatus
	err := c.get(ctx, path("pools", pool), &one)
	st.Pools = []ipam.PoolStatus{one}
	return st, err
}

// ring draws one pool and lists its ranges.
func (v view) ring(p ipam.PoolStatus, o owners) {
	v.wrap(bold, "pool "+poolTitle(p)+": ", plural(p.Size, "address", "addresses"))
	v.ringBar(p, o.part)
	totals := map[rune]*part{}
	var order []*part
	for _, r := range p.Holders {
		t := o.part(r)
		if totals[t.letter] == nil {
			totals[t.letter] = &t
			order = append(order, &t)
		}
		totals[t.letter].n += admin.RangeSize(p, r)
	}
	parts := make([]part, len(order))
	for i, t := range order {
		parts[i] = *t
	}
	v.legend(parts)
	v.printf("\n")
	v.ranges(p, o)
}

// ranges lists the ranges of a pool.
func (v view) ranges(p ipam.PoolStatus, o owners) {
	rows := make([][]string, len(p.Holders))
	for i, r := range p.Holders {
		note := r.Kind
		if r.Note != "" {
			note += " " + r.Note
		}
		held := ""
		if r.Owner == o.self {
			held = amount(r.Held)
		}
		rows[i] = []string{
			r.Start.String(), r.End.String(), amount(admin.RangeSize(p, r)), o.part(r).text, held, strconv.FormatUint(r.Version, 10), note,
		}
	}
	v.table([]column{
		{title: "START"},
		{title: "END"},
		{title: "SIZE", right: true, drop: 2},
		{title: "OWNER", cut: true},
		{title: "HELD", right: true, drop: 1},
		{title: "VERSION", right: true, drop: 4},
		{title: "NOTE", cut: true, drop: 3},
	}, rows)
}
