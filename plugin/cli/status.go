package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
)

func (a *app) statusCommand() *cobra.Command {
	var all, watch bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show health, problems and what to do about them",
		GroupID: groupStatus,
		Long: `Show in the first line whether all is well. Then show the problems, each with
its next step, the hosts, and the pools with a bar of their owners: each in a
line if there are more than five. Pools that have neither a network nor an
address in use on this host are only counted.

Exit codes: 0 fine, 3 works but degraded, 1 hands out nothing, does not answer,
or an address is used twice.`,
		Example: `  ringlet status
  ringlet status --watch
  ringlet status -o json | jq .verdict`,
		Args: exactly(),
		RunE: a.do(func(ctx context.Context, c *client, _ []string) error {
			if watch {
				return a.watchStatus(ctx, c, all)
			}
			return a.status(ctx, c, all)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again every 2 s, until interrupted")
	cmd.Flags().BoolVar(&all, "all", false, "also show pools that are not used here")
	return cmd
}

// watchEvery is how often ringlet status --watch looks.
const watchEvery = 2 * time.Second

// clearScreen has a terminal begin at its top again.
const clearScreen = "\x1b[H\x1b[2J"

// watchStatus shows the status again and again. A peer that does not answer for a while, as one that is restarted, is waited for.
func (a *app) watchStatus(ctx context.Context, c *client, all bool) error {
	ticker := time.NewTicker(cmp.Or(a.cfg.lookEvery, watchEvery))
	defer ticker.Stop()
	for {
		if a.view.columns > 0 && a.format != formatJSON {
			_, _ = a.out.WriteString(clearScreen) // the next write fails, too
		}
		a.view.now = a.cfg.Now()
		err := a.status(ctx, c, all)
		if _, told := errors.AsType[exitError](err); err != nil && !told && ctx.Err() == nil {
			a.view.printf("%s\n", safe(err.Error()))
		}
		if ctx.Err() != nil {
			return nil // that is how it ends
		}
		if err := a.out.Flush(); err != nil {
			return fmt.Errorf("the output could not be written: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
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
	v.roster(st)
	used := st.Pools
	if !all {
		used = slices.DeleteFunc(slices.Clone(used), isIdle)
	}
	if len(used) > maxBars {
		v.printf("\n")
		v.poolLines(used)
	} else {
		for _, p := range used {
			v.printf("\n")
			v.pool(p)
		}
	}
	if idle := len(st.Pools) - len(used); idle > 0 {
		v.printf("\n")
		v.printf("and %s, see --all\n", plural(idle, "pool not used here", "pools not used here"))
	}
}

// maxBars is how many pools the status draws with a bar as wide as the terminal each. More are a line each, and a screen
// has them all.
const maxBars = 5

// withBars is how wide a terminal is in which their lines have bars.
const withBars = 60

// poolLines prints a line with a short bar for each pool, and what the letters of the bars mean.
func (v view) poolLines(pools []ipam.PoolStatus) {
	const cells = 20
	rows, occurs := make([][]string, len(pools)), map[rune]bool{}
	for i, p := range pools {
		parts := poolParts(p)
		for _, part := range parts {
			occurs[part.letter] = occurs[part.letter] || part.n > 0
		}
		rows[i] = []string{
			p.Pool.String(), p.Name, strings.Join(p.NetworkNames, ","), "[" + drawn(parts, cells) + "]",
			amount(p.Size), amount(p.HeldHere), amount(p.Mine), amount(p.Free),
		}
	}
	v.table([]column{
		{title: "POOL"},
		{title: "NAME", cut: true, drop: 2},
		{title: "NETWORK", cut: true, drop: 1},
		{title: "USE", drop: 3},
		{title: "SIZE", right: true, drop: 6},
		{title: "HELD HERE", right: true},
		{title: "READY HERE", right: true, drop: 5},
		{title: "FREE", right: true, drop: 4},
	}, rows)
	var letters []string
	for _, part := range poolParts(ipam.PoolStatus{}) {
		if occurs[part.letter] {
			letters = append(letters, string(part.letter)+" "+part.text)
		}
	}
	if v.columns == 0 || v.columns >= withBars {
		v.wrap(plain, "", strings.Join(letters, ", "))
	}
}

// isIdle reports whether nothing on this host uses a pool, and nothing is to be seen to there.
func isIdle(p ipam.PoolStatus) bool {
	return p.Networks == 0 && p.HeldHere == 0 && p.Quarantined == 0
}

// verdict prints the line that most people read, and no more.
func (v view) verdict(st ipam.Status) {
	var held uint64
	gateways := 0
	for _, p := range st.Pools {
		held += p.HeldHere
		if p.Gateway.IsValid() && p.HeldHere > 0 {
			held--
			gateways++
		}
	}
	var facts []string
	problems := 0
	for _, p := range st.Problems {
		if p.Level != string(ipam.Fine) { // which is a note
			problems++
		}
	}
	if n := problems; n > 0 {
		facts = append(facts, plural(n, "problem", "problems"))
	}
	if words := standing(st.State); words != "" {
		facts = append(facts, words)
	}
	facts = append(facts, company(st)...)
	facts = append(facts, plural(len(st.Pools), "pool", "pools"),
		plural(held, "address held here", "addresses held here")+gatewaysBeside(gateways))
	v.wrap(verdictStyle(st.Verdict), string(st.Verdict)+": ", strings.Join(facts, ", "))
}

// gatewaysBeside says how many addresses more this host has as gateways.
func gatewaysBeside(n int) string {
	if n == 0 {
		return ""
	}
	return " and " + plural(n, "gateway", "gateways")
}

// standing says in plain words where a peer stands among others.
func standing(s ipam.State) string {
	switch s {
	case ipam.Alone, ipam.Ready:
		return "ready"
	case ipam.Forming:
		return "waiting for the other founders of the cluster"
	case ipam.Joining:
		return "in no cluster yet"
	case ipam.Checking:
		return "just started, asking the other hosts for news"
	case ipam.CutOff:
		return "cut off from a majority"
	case ipam.Leaving:
		return "giving its addresses to the other hosts"
	case ipam.Left:
		return "has left its cluster"
	case ipam.Outdated:
		return "older than its cluster"
	case ipam.Suspended:
		return "stopped handing out addresses"
	}
	return safe(string(s)) // of a newer plugin
}

// company counts the peers; none for one that is in no cluster.
func company(st ipam.Status) []string {
	roster, evicted := divide(st.Peers)
	var facts []string
	switch n := len(roster); {
	case n == 1 && st.State == ipam.Alone:
		facts = append(facts, "the only peer")
	case n > 0:
		facts = append(facts, plural(n, "peer", "peers"))
	}
	if away := len(unreachable(st)); away > 0 {
		facts[0] += fmt.Sprintf(" (%d unreachable)", away)
	}
	if len(evicted) > 0 {
		facts = append(facts, fmt.Sprintf("%d evicted", len(evicted)))
	}
	return facts
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
func (v view) pool(p ipam.PoolStatus) {
	facts := []string{plural(p.Size, "address", "addresses"), plural(p.Networks, "network", "networks") + " here"}
	if p.Chosen {
		facts = append(facts, "subnet chosen by ringlet")
	}
	v.wrap(bold, "pool "+poolTitle(p)+": ", strings.Join(facts, ", "))
	v.bar(poolParts(p))
}

// poolTitle names a pool, with the Docker networks of this host on it.
func poolTitle(p ipam.PoolStatus) string {
	var names []string
	if p.Name != "" {
		names = append(names, safe(p.Name))
	}
	if networks := networksText(p.NetworkNames); networks != "" {
		names = append(names, networks)
	}
	if len(names) == 0 {
		return p.Pool.String()
	}
	return fmt.Sprintf("%v (%s)", p.Pool, strings.Join(names, ", "))
}

// networksText is like network lab, or networks lab and web; empty where there is none.
func networksText(names []string) string {
	switch text := safe(strings.Join(names, " and ")); len(names) {
	case 0:
		return ""
	case 1:
		return "network " + text
	default:
		return "networks " + text
	}
}

func (v view) problem(p ipam.Problem) {
	level := ipam.Verdict(cmp.Or(p.Level, string(ipam.Degraded)))
	v.wrap(verdictStyle(level), string(level)+": ", safe(p.Text))
	if p.Next != "" {
		v.wrap(plain, "  next: ", safe(p.Next))
	}
}
