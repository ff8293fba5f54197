package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
)

func (a *app) statusCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Tell whether all is fine, and what to do if not",
		GroupID: groupLook,
		Long: `Tell in the first line whether all is fine, then the problems, each with its next
step, then the peers, and the pools with a bar of who has what. Pools that have
neither a network on this host nor an address in use are only counted.

Exit codes: 0 fine, 3 works but degraded, 1 hands out nothing or does not answer.`,
		Example: `  ringlet status
  ringlet status -o json | jq .verdict`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error { return a.status(ctx, c, all) }),
	}
	cmd.Flags().BoolVar(&all, "all", false, "show idle pools, too")
	return cmd
}

func (a *app) status(ctx context.Context, c *client, all bool) error {
	var raw json.RawMessage // printed as it came, with what a newer plugin may add
	var st ipam.Status
	if err := c.get(ctx, path("status"), &raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &st); err != nil {
		return c.stranger(err.Error())
	}
	if err := a.show(raw, func() { a.view.status(st, all) }); err != nil {
		return err
	}
	switch st.Verdict {
	case ipam.Fine:
		return nil
	case ipam.Degraded:
		return exitError(exitDegraded)
	case ipam.Failed:
	}
	return exitError(exitFailed)
}

// status prints all that matters about a peer and its cluster. Idle pools
// matter to who wants all.
func (v view) status(st ipam.Status, all bool) {
	v.verdict(st)
	v.printf("\n")
	for i, p := range st.Problems {
		v.problem(p)
		if i == len(st.Problems)-1 {
			v.printf("\n")
		}
	}
	voters := st.Voters
	rows := make([][]string, len(st.Peers))
	for i, p := range st.Peers {
		var notes []string
		if p.ID == st.Self.ID {
			notes = append(notes, "this peer")
		}
		if slices.Contains(voters, p.ID) {
			notes = append(notes, "voter")
		}
		rows[i] = []string{p.Name, p.State, strings.Join(notes, ", "), p.ID}
	}
	v.table([]column{{title: "PEER", cut: true}, {title: "STATE"}, {title: "ROLE", drop: 1}, {title: "ID", drop: 2}}, rows)
	idle := 0
	for _, p := range st.Pools {
		networks := networksOn(st.Networks, p.Pool)
		if !all && isIdle(p, networks) {
			idle++
			continue
		}
		v.printf("\n")
		v.pool(p, networks)
	}
	if idle > 0 {
		v.printf("\n")
		v.printf("and %s, see --all\n", plural(idle, "idle pool", "idle pools"))
	}
}

// isIdle reports whether a pool is there and no more.
func isIdle(p ipam.PoolStatus, networks int) bool {
	return networks == 0 && p.Held == 0 && p.Quarantined == 0
}

// verdict prints the line that most people read, and no more.
func (v view) verdict(st ipam.Status) {
	var held uint64
	for _, p := range st.Pools {
		held += p.Held
	}
	facts := []string{
		plural(len(st.Pools), "pool", "pools"),
		plural(held, "address held", "addresses held"),
		plural(len(st.Peers), "peer", "peers"),
	}
	if len(st.Peers) == 1 {
		facts[2] += " (alone)"
	}
	if n := len(st.Problems); n > 0 {
		facts = append([]string{plural(n, "problem", "problems")}, facts...)
	}
	v.wrap(verdictStyle(st.Verdict), string(st.Verdict)+": ", strings.Join(facts, ", "))
}

func verdictStyle(verdict ipam.Verdict) style {
	switch verdict {
	case ipam.Fine:
		return green
	case ipam.Degraded:
		return yellow
	case ipam.Failed:
	}
	return red
}

// pool prints one pool with its bar.
func (v view) pool(p ipam.PoolStatus, networks int) {
	facts := []string{plural(p.Size, "address", "addresses"), plural(networks, "network", "networks")}
	if p.Chosen {
		facts = append(facts, "subnet chosen by ringlet")
	}
	v.wrap(bold, "pool "+poolTitle(p)+": ", strings.Join(facts, ", "))
	v.bar(poolParts(p))
}

func poolTitle(p ipam.PoolStatus) string {
	if p.Name == "" {
		return p.Pool.String()
	}
	return fmt.Sprintf("%v (%s)", p.Pool, safe(p.Name))
}

// networksOn counts the networks of this host on a pool.
func networksOn(networks []ipam.NetStatus, pool netip.Prefix) int {
	n := 0
	for _, network := range networks {
		if network.Pool == pool {
			n += network.Count
		}
	}
	return n
}

func (v view) problem(p ipam.Problem) {
	level := ipam.Verdict(cmp.Or(p.Level, string(ipam.Degraded)))
	v.wrap(verdictStyle(level), string(level)+": ", safe(p.Text))
	if p.Next != "" {
		v.wrap(plain, "  next: ", safe(p.Next))
	}
}
