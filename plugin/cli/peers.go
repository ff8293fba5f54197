package cli

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/plugin/admin"
)

// stateEvicted is the state of a peer that is of the cluster no more, see
// [ipam.PeerStatus].
const stateEvicted = "evicted"

func (a *app) peersCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "peers",
		SuggestFor: []string{"peer", "members", "nodes", "hosts"},
		Short:      "List the hosts of the cluster",
		GroupID:    groupStatus,
		Long: `List the peers of the cluster as this host sees them, then the evicted ones with
their quarantined addresses. A peer is the ringlet process of a host.

    STATE      filling until the peer has a range, then active, or draining
    REACHABLE  whether this host can reach the peer now
    HEALTHY    whether the peer answered at its health address when it was last
               asked (RINGLET_HEALTH); shown if a peer was asked
    BEHIND     how many decisions the peer is not known to have; it falls to 0
               by itself while the peer is reachable
    HEARD      when something last came from the peer
    ZONE       what fails together with the host (RINGLET_ZONE); shown if a host
               has one
    VERDICT    failed if the host says that something is wrong there; shown if
               one does

HEARD also counts a peer that is in another cluster by now: it is running, but
counts as unreachable, and ringlet status reports it.`,
		Example: `  ringlet peers
  ringlet peers -o json | jq -r '.[] | select(.reachable | not) | .name'`,
		Args: exactly(),
		RunE: a.do(a.peers),
	}
}

func (a *app) peers(ctx context.Context, c *client, _ []string) error {
	if a.format == formatJSON {
		var raw json.RawMessage // with what a newer plugin may add
		if err := c.get(ctx, path("peers"), &raw); err != nil {
			return err
		}
		return writeJSON(a.out, raw)
	}
	var st ipam.Status
	if err := c.get(ctx, path("status"), &st); err != nil {
		return err
	}
	a.view.peers(st)
	return nil
}

// peers lists the peers with all that is known of each.
func (v view) peers(st ipam.Status) {
	roster, evicted := divide(st.Peers)
	if len(roster) == 0 {
		v.printf("no peers: this host is in no cluster yet; ringlet status says why\n")
	} else {
		rows := make([][]string, len(roster))
		anyFails := false
		for i, p := range roster {
			name, reachable := p.Name, yes(p.Reachable)
			if p.ID == st.Self.ID {
				name, reachable = name+" (this peer)", ""
			}
			healthy, health := healthOf(p)
			verdict := ""
			if fails(st, p) {
				verdict, anyFails = string(ipam.Failed), true
			}
			rows[i] = []string{
				name, p.State, reachable, verdict, healthy, yes(p.Voter), behind(st, p), v.ago(p.Heard),
				p.Address, health, p.ID, p.Zone,
			}
		}
		columns := []column{
			{title: "PEER", cut: true},
			{title: "STATE"},
			{title: "REACHABLE"},
			{title: "VERDICT", hidden: !anyFails},
			{title: "HEALTHY", hidden: !hasHealth(roster)},
			{title: "VOTER", drop: 1},
			{title: "BEHIND", right: true, drop: 2},
			{title: "HEARD", drop: 4},
			{title: "ADDRESS", drop: 3},
			{title: "HEALTH ADDRESS", drop: 3, hidden: !hasHealth(roster)},
			{title: "ID", drop: 5},
			{title: "ZONE", cut: true, hidden: !hasZones(roster)},
		}
		v.table(columns, rows)
	}
	v.evicted(st, evicted)
}

// fails reports whether a host says that something is wrong there. What this one says is the verdict.
func fails(st ipam.Status, p ipam.PeerStatus) bool {
	if p.ID == st.Self.ID {
		return st.Verdict == ipam.Failed
	}
	return p.Failed
}

// roster lists the peers for the status, which has more to say.
func (v view) roster(st ipam.Status) {
	roster, evicted := divide(st.Peers)
	if len(roster) > 0 {
		rows := make([][]string, len(roster))
		for i, p := range roster {
			var roles []string
			reachable := yes(p.Reachable)
			if p.ID == st.Self.ID {
				roles, reachable = append(roles, "this peer"), ""
			}
			if p.Voter || slices.Contains(st.Voters, p.ID) {
				roles = append(roles, "voter")
			}
			rows[i] = []string{p.Name, p.State, reachable, strings.Join(roles, ", "), p.ID}
		}
		v.table([]column{
			{title: "PEER", cut: true},
			{title: "STATE"},
			{title: "REACHABLE"},
			{title: "ROLE", drop: 1},
			{title: "ID", drop: 2},
		}, rows)
	}
	v.evicted(st, evicted)
}

// evicted lists the peers that are of the cluster no more, and what is kept
// back for each, since it may be in use there.
func (v view) evicted(st ipam.Status, peers []ipam.PeerStatus) {
	if len(peers) == 0 {
		return
	}
	kept := admin.KeptBack(st)
	rows := make([][]string, len(peers))
	for i, p := range peers {
		rows[i] = []string{p.Name, amount(kept[p.ID]), yes(p.Reachable), v.ago(p.Heard), p.ID}
	}
	v.printf("\n")
	v.table([]column{
		{title: "EVICTED", cut: true},
		{title: "QUARANTINED", right: true},
		{title: "REACHABLE"},
		{title: "HEARD", drop: 1},
		{title: "ID", drop: 2},
	}, rows)
}

// healthOf returns whether a peer answers at its health address, and the address; nothing if it was not asked.
func healthOf(p ipam.PeerStatus) (healthy, address string) {
	if p.Health.Address == "" {
		return "", ""
	}
	return yes(p.Health.Answers), p.Health.Address
}

// hasHealth reports whether a peer was asked at its health address.
func hasHealth(peers []ipam.PeerStatus) bool {
	return slices.ContainsFunc(peers, func(p ipam.PeerStatus) bool { return p.Health.Address != "" })
}

// hasZones reports whether a peer has named a zone.
func hasZones(peers []ipam.PeerStatus) bool {
	return slices.ContainsFunc(peers, func(p ipam.PeerStatus) bool { return p.Zone != "" })
}

// divide returns the peers of the cluster, and those that were evicted.
func divide(peers []ipam.PeerStatus) (roster, evicted []ipam.PeerStatus) {
	for _, p := range peers {
		if p.State == stateEvicted {
			evicted = append(evicted, p)
		} else {
			roster = append(roster, p)
		}
	}
	return roster, evicted
}

// behind returns how many slots a peer is not known to know; nothing if it has
// not been heard of.
func behind(st ipam.Status, p ipam.PeerStatus) string {
	switch {
	case p.ID == st.Self.ID, p.Slot > st.Slot: // then it is this peer that is
		return "0"
	case p.Slot == 0:
		return ""
	}
	return strconv.FormatUint(st.Slot-p.Slot, 10)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
