package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/ringlet/ringlet/ipam"
)

// tableRows is how many rows of a pool are listed unless somebody asks for that pool.
const tableRows = 64

// table lists who takes free addresses first in each row of the tables of pools.
func (a *app) table(ctx context.Context, c *client, pool string) error {
	if a.format == formatJSON {
		var raw json.RawMessage // with what a newer plugin may add
		if err := c.get(ctx, query(path("ring", "table"), "pool", pool), &raw); err != nil {
			return err
		}
		return writeJSON(a.out, raw)
	}
	st, err := poolsOf(ctx, c, pool)
	if err != nil {
		return err
	}
	if len(st.Pools) == 0 {
		a.view.printf("no pools, so no table\n")
		return nil
	}
	owners := ownersOf(st)
	for i, p := range st.Pools {
		var rows []ipam.TableRow
		if err := c.get(ctx, query(path("ring", "table"), "pool", p.Pool.String()), &rows); err != nil {
			return err
		}
		if i > 0 {
			a.view.printf("\n")
		}
		a.view.poolTable(p, rows, owners, pool != "")
	}
	return nil
}

// poolTable lists how many rows each host is first in, then the rows.
func (v view) poolTable(p ipam.PoolStatus, rows []ipam.TableRow, o owners, all bool) {
	v.wrap(bold, "pool "+poolTitle(p)+": ", plural(p.Size, "address", "addresses")+" in "+plural(len(rows), "row", "rows"))
	zoned := false
	firsts, seconds := map[string]int{}, map[string]int{}
	var hosts []*ipam.TablePeer // in the order in which they come first
	count := func(t *ipam.TablePeer, in map[string]int) {
		if t == nil {
			return
		}
		if firsts[t.ID]+seconds[t.ID] == 0 {
			hosts = append(hosts, t)
		}
		in[t.ID]++
		zoned = zoned || t.Zone != ""
	}
	for _, r := range rows {
		count(r.Primary, firsts)
		count(r.Secondary, seconds)
	}
	slices.SortFunc(hosts, func(a, b *ipam.TablePeer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	zone := column{title: "ZONE", cut: true, hidden: !zoned}
	lines := make([][]string, len(hosts))
	for i, t := range hosts {
		lines[i] = []string{o.called(t), t.Zone, amount(uint64(firsts[t.ID])), amount(uint64(seconds[t.ID]))}
	}
	v.table([]column{{title: "HOST", cut: true}, zone, {title: "PRIMARY", right: true}, {title: "SECONDARY", right: true}}, lines)

	shown := rows
	if !all && len(rows) > tableRows {
		shown = rows[:tableRows]
	}
	lines = make([][]string, len(shown))
	for i, r := range shown {
		first, second := o.called(r.Primary), o.called(r.Secondary)
		lines[i] = []string{r.Start.String(), r.End.String(), first, zoneOf(r.Primary), second, zoneOf(r.Secondary)}
	}
	v.printf("\n")
	v.table([]column{
		{title: "START"},
		{title: "END", drop: 1},
		{title: "PRIMARY", cut: true},
		zone,
		{title: "SECONDARY", cut: true},
		zone,
	}, lines)
	if n := len(rows) - len(shown); n > 0 {
		v.wrap(plain, "", fmt.Sprintf("… and %s: run ringlet ring --table --pool %v", plural(n, "more row", "more rows"), p.Pool))
	}
}

// called names a peer of the table.
func (o owners) called(t *ipam.TablePeer) string {
	if t == nil {
		return ""
	}
	if p, ok := o.names[t.ID]; ok {
		return p.text
	}
	return safe(t.Name)
}

func zoneOf(t *ipam.TablePeer) string {
	if t == nil {
		return ""
	}
	return t.Zone
}
