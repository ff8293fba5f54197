package report

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/sentence"
)

// row is a problem, and whether a peer has it. The tables below are of these.
type row struct {
	holds            bool
	level            Verdict
	code, text, next string
}

// problems lists what somebody should do something about: on this peer itself, on others, and in pools.
func (p *Picture) problems(pools []PoolStatus) []Problem {
	out := []Problem{}
	add := func(rows []row) {
		for _, r := range rows {
			if r.holds {
				out = append(out, Problem{Code: r.code, Level: string(r.level), Text: r.text, Next: r.next})
			}
		}
	}
	add(p.ownProblems())
	add(p.peerProblems())
	out = append(out, p.conflictProblems()...)
	add(p.poolProblems(pools))
	return out
}

// ownProblems are those of this peer itself.
func (p *Picture) ownProblems() []row {
	return slices.Concat(p.standingProblems(), p.joiningProblems(), p.decidingProblems(), p.listProblems(), []row{
		{
			p.Own.BootedAlone, Degraded, "booted-alone",
			"this host was started, and no majority of its cluster has answered since: if it was forgotten in the meantime, its addresses may be in use elsewhere",
			"start or reconnect the other hosts",
		},
	})
}

// stands reports whether the peer stands so in its cluster. One that lost its database knows no cluster.
func (p *Picture) stands(s peer.Standing) bool {
	return p.Standing == s && p.Own.Outside != peer.DatabaseLost
}

// answered says how many hosts have answered a peer that looks for its cluster.
func (p *Picture) answered() string {
	return sentence.Plural(p.Own.Met, "host has", "hosts have") + " answered"
}

// standingProblems are why a peer of a cluster hands out nothing.
func (p *Picture) standingProblems() []row {
	o, say := &p.Own, fmt.Sprintf
	return []row{
		{
			o.Broken != nil, Failed, "broken-invariant",
			say("the records of this host contradict each other, so it hands out no addresses: %v", o.Broken),
			"keep the database, and report the output of ringlet check",
		},
		{
			o.Suspended != "", Failed, "suspended",
			say("this host hands out no addresses, because %s", o.Suspended),
			o.EndSuspension,
		},
		{
			o.Outside == peer.DatabaseLost, Failed, "database-lost",
			say("the database of this host is new, but its engine has %s of ringlet, and other hosts may hold addresses of these: it hands out no addresses until it has found those hosts; %s", sentence.Plural(o.EngineHas, "network", "networks"), p.answered()),
			"set RINGLET_JOIN to another host of the cluster, also on the first host; if no host still has its data, set RINGLET_BOOTSTRAP=1 on one host, and let the others join it",
		},
		{
			p.stands(peer.Left), Failed, "left",
			"this host has left its cluster and hands out nothing",
			"remove the plugin, or only its data to join again",
		},
		{
			p.stands(peer.Outdated), Failed, "outdated",
			say("the cluster uses level %d of the protocol, but the release on this host speaks at most %d: its containers keep their addresses, and it hands out no new ones", p.Level, p.Peers[p.Self].Speaks),
			"upgrade ringlet on this host",
		},
		{
			p.stands(peer.Checking), Degraded, "checking",
			say("this host has just started and asks the others whether its database is current; %s answered", sentence.Plural(o.Answered, "host has", "hosts have")),
			"if this lasts, start or reconnect the other hosts",
		},
	}
}

// joiningProblems are why a peer is in no cluster yet.
func (p *Picture) joiningProblems() []row {
	o, answered := &p.Own, p.answered()
	return []row{
		{
			p.stands(peer.Forming), Failed, "forming",
			fmt.Sprintf("this host founds a cluster with others and reaches %d of %d hosts, itself included; it needs a majority", o.FoundersMet, o.Founders),
			"start ringlet on the other hosts, with the same RINGLET_JOIN and RINGLET_BOOTSTRAP",
		},
		{
			o.Outside == peer.LooksFirst, Failed, "joining",
			fmt.Sprintf("the database of this host is new, and it looks for hosts that are in a cluster, before it founds one because of RINGLET_BOOTSTRAP=1; %s", answered),
			"wait a minute",
		},
		{
			o.Outside == peer.AwaitsNetworks, Failed, "joining",
			"the database of this host is new, and it waits for its engine's list of networks before it founds a cluster",
			"check that the engine answers docker network ls, and see the plugin's log; with RINGLET_BOOTSTRAP=1 it founds a cluster without the list",
		},
		{
			o.Outside == peer.ListsNobody, Failed, "joining",
			"this host has not found its cluster yet: RINGLET_JOIN lists no other host",
			"list the other hosts in RINGLET_JOIN, too; on the first host of all leave it empty",
		},
		{
			o.Outside == peer.KnowsNobody, Failed, "joining",
			"this host has not found its cluster yet, and RINGLET_JOIN is empty; " + answered,
			"if it was the only host of its cluster, set RINGLET_BOOTSTRAP=1, so that it founds the cluster again; else set RINGLET_JOIN to another host of the cluster",
		},
		{
			o.Outside == peer.NotFound, Failed, "joining",
			"this host has not found its cluster yet; " + answered,
			"check that ringlet runs on the hosts in RINGLET_JOIN; the first host of all has RINGLET_JOIN empty, or all hosts have the same list with themselves in it",
		},
		{
			o.Outside == peer.AwaitsReturn, Failed, "joining",
			"this host was evicted from its cluster and waits to be admitted again; it keeps its addresses",
			"check that a majority of the other hosts runs and is reachable",
		},
		{
			o.Outside == peer.AwaitsAdmission, Failed, "joining",
			"this host waits to be admitted to its cluster",
			"check that a majority of the other hosts runs and is reachable",
		},
	}
}

// decidingProblems are why nothing is decided here.
func (p *Picture) decidingProblems() []row {
	o := &p.Own
	runs := p.State.Member(p.Self) != nil && p.Standing != peer.Left && p.Standing != peer.Checking && p.Standing != peer.Outdated
	return []row{
		{
			runs && o.CutOff, Degraded, "cut-off",
			p.cutOffText(),
			"start or reconnect those hosts; if they are gone for good, ringlet recover --help says how this host continues alone",
		},
		{
			runs && o.Undecided > 0, Degraded, "no-agreement",
			fmt.Sprintf("no decision was made for %v, although this host reaches a majority: it still hands out and frees addresses in its own ranges, but new ranges, pools and claims must wait", o.Undecided.Round(time.Second)),
			"check whether the network between the hosts loses packets, and whether TCP and UDP port 7950 are open both ways",
		},
	}
}

// listProblems are which lists a new database waits for.
func (p *Picture) listProblems() []row {
	lists, say := &p.Own.Lists, fmt.Sprintf
	return []row{
		{
			len(lists.Owners) > 0 && lists.Former, Degraded, "inventory-awaited",
			"the database is new, and containers of this host have addresses of its former self, which it is taking over: until then it chooses no address",
			"wait half a minute; if it stays, check that a majority of the other hosts runs and is reachable",
		},
		{
			len(lists.Owners) > 0 && !lists.Former, Degraded, "inventory-awaited",
			say("the database is new, and containers of this host have addresses in the ranges of %s, which cannot be reached: until they are taken in, this host chooses no address", p.names(lists.Owners)),
			"bring that host back; if it is gone for good, for example because this one was reinstalled under another name, stop those containers, then evict and forget it with ringlet evict and ringlet forget",
		},
		{
			len(lists.Owners) == 0 && lists.Own, Degraded, "inventory-awaited",
			"this host does not know yet which addresses are in use: until its engine lists them, it chooses no address",
			"wait a moment; if it stays, check that the engine answers docker network ls, and see the plugin's log",
		},
		{
			lists.Reserved, Degraded, "inventory-awaited",
			"the database is new, and other hosts still own addresses that networks of this host reserve: until that has changed, this host chooses no address",
			"wait a moment; if it stays, see ringlet status on the other hosts",
		},
		{
			len(lists.Others) > 0, Degraded, "others-unlisted",
			say("the database is new, like that of %s, whose containers may have addresses that the cluster does not know yet: until it does, this host chooses no address", p.names(lists.Others)),
			"wait two minutes at most, and see ringlet status on those hosts: each must be in this cluster, and reach its engine",
		},
	}
}

func (p *Picture) cutOffText() string {
	why := "this host reaches no majority of its cluster"
	if len(p.State.Roster) == 2 {
		why = "this host does not reach the other one, which has the deciding vote of the two"
	}
	waiting := ""
	if p.Pending > 0 {
		waiting = "; " + sentence.Plural(p.Pending, "decision that was requested here waits", "decisions that were requested here wait") + ", too"
	}
	return fmt.Sprintf("%s (away: %s): it still hands out and frees addresses in its own ranges, but new pools and ranges must wait%s", why, p.names(p.away(p.State.Voters())), waiting)
}

// away returns those of the peers that cannot be reached.
func (p *Picture) away(ids []peer.ID) []peer.ID {
	return slices.DeleteFunc(slices.Clone(ids), func(id peer.ID) bool { return p.Peers[id].Live })
}

// names joins the names of peers.
func (p *Picture) names(ids []peer.ID) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = p.NameOf(id)
	}
	return sentence.List(names)
}

// peerProblems are those of other peers.
func (p *Picture) peerProblems() []row {
	say := fmt.Sprintf
	others := make([]peer.ID, 0, len(p.State.Roster))
	for _, member := range p.State.Roster {
		if member.ID != p.Self {
			others = append(others, member.ID)
		}
	}
	away, silent, goesOn := p.away(others), "", ""
	refs := make([]string, len(away))
	for i, id := range away {
		refs[i] = p.ref(id)
	}
	if since := p.Others.Silent.Since; !since.IsZero() {
		silent = ", silent since " + sentence.Date(since.UnixNano())
	}
	if ends := p.Others.Silent.Ends; !ends.IsZero() {
		silent += ", evicted by itself at " + sentence.Date(ends.UnixNano())
	}
	if len(p.State.Roster) == 2 {
		goesOn = "; this host has the deciding vote of the two, so everything goes on here"
	}
	older := slices.DeleteFunc(others, func(id peer.ID) bool {
		speaks := p.Peers[id].Speaks
		return speaks == 0 || speaks >= p.State.Level
	})
	rows := []row{
		{
			len(away) > 0 && p.State.Member(p.Self) != nil && !p.Own.CutOff && p.Standing != peer.Checking, Degraded, "peer-unreachable",
			say("unreachable: %s%s%s", p.names(away), silent, goesOn),
			sentence.Away(refs...),
		},
		{
			len(older) > 0, Degraded, "older-release",
			say("the cluster uses level %d of the protocol, which the release on these hosts does not speak: %s; their containers keep their addresses, and they hand out no new ones", p.State.Level, p.names(older)),
			"upgrade ringlet on those hosts",
		},
	}
	return slices.Concat(rows, []row{p.zoneProblem()}, p.formerProblems(), p.strangeProblems())
}

// formerProblems are those of peers that left the roster.
func (p *Picture) formerProblems() (rows []row) {
	say := fmt.Sprintf
	for _, gone := range p.State.Former {
		owned := p.State.OwnedBy(gone.ID)
		rows = append(rows, row{
			!gone.Forgotten && gone.ID != p.Self && owned > 0, Degraded, "quarantine",
			say("%s was evicted, and %s quarantined", p.NameOf(gone.ID), sentence.Plural(uint64(owned), "address that it may use is", "addresses that it may use are")),
			"bring that host back, with its data removed if this cluster was recovered without it; if it is gone for good, run ringlet forget " + p.ref(gone.ID),
		})
	}
	for _, gone := range p.State.Former {
		warned, aside := p.Others.Warned[gone.ID], ""
		if warned > 0 {
			aside = "; " + sentence.Plural(warned, "address that its containers use is", "addresses that its containers use are") + " set aside here"
		}
		left := gone.Phase == chronicle.Draining && warned == 0
		rows = append(rows, row{
			gone.Forgotten && !left && p.Peers[gone.ID].Live, Degraded, "given-up-host",
			say("%s runs, although its addresses were released for other hosts%s", p.NameOf(gone.ID), aside),
			"run ringlet rejoin on that host: it starts over as a new peer, and its containers run on",
		})
	}
	return rows
}

// strangeProblems are peers that contradict this one, and hosts of other clusters.
func (p *Picture) strangeProblems() (rows []row) {
	say := fmt.Sprintf
	for _, id := range sorted(p.Others.Misfits) {
		rows = append(rows, row{
			true, Degraded, "formation-mismatch",
			say("%s would found a cluster of %d hosts, or with another list, but this host one of %d", p.NameOf(id), p.Others.Misfits[id].Size, p.Own.Founders),
			"set the same RINGLET_JOIN and RINGLET_BOOTSTRAP on all hosts that found the cluster",
		})
	}
	for _, cluster := range p.Others.Foreign {
		rows = append(rows, row{
			true, Degraded, "foreign-cluster",
			say("hosts of another cluster, %s, use the same key and label; this cluster is %s, and the two cannot merge", hex.EncodeToString(cluster[:4]), hex.EncodeToString(p.State.Cluster[:4])),
			"decide which cluster stays; on each host of the other one, remove the plugin's data and set RINGLET_JOIN, or set another RINGLET_CLUSTER",
		})
	}
	for _, id := range sorted(p.Others.Differs) {
		rows = append(rows, row{
			true, Degraded, "differing-state",
			say("%s had another state than the majority at slot %d", p.NameOf(id), p.Others.Differs[id]),
			"keep both databases, and report it",
		})
	}
	return rows
}

// zoneProblem is that one zone decides alone. All peers that have named none are in one.
func (p *Picture) zoneProblem() row {
	r := p.Others.Ruling
	out := row{
		r.Votes > 0 && p.State.Member(p.Self) != nil, Degraded, "zone-majority",
		fmt.Sprintf("the hosts in zone %s have %d of %d votes: if that zone, one of %d, fails, new pools and ranges must wait", r.Zone, r.Votes, r.Total, r.Zones),
		"run ringlet on more hosts in the other zones, or set another RINGLET_ZONE on those hosts of this zone that do not fail together with the rest",
	}
	if r.Zone == "" {
		out.text = fmt.Sprintf("the hosts without a zone count as one zone and have %d of %d votes: if that zone, one of %d, fails, new pools and ranges must wait", r.Votes, r.Total, r.Zones)
		out.next = "set RINGLET_ZONE on the hosts for which ringlet peers shows no zone"
	}
	return out
}

// sorted returns the peers that a map has, in order.
func sorted[V any](of map[peer.ID]V) []peer.ID {
	return slices.SortedFunc(maps.Keys(of), peer.ID.Compare)
}

// conflictProblems lists the conflicts, in order of their sentences.
func (p *Picture) conflictProblems() (out []Problem) {
	for _, c := range p.Conflicts {
		out = append(out, Problem{Code: "conflict", Level: string(Failed), Text: c.Text, Next: c.Next, Address: c.Address})
	}
	slices.SortFunc(out, func(a, b Problem) int { return cmp.Compare(a.Text, b.Text) })
	return out
}

// poolProblems are pools that are full or nearly so, and that other devices use.
func (p *Picture) poolProblems(pools []PoolStatus) (rows []row) {
	for i := range p.Pools {
		pool, s := &p.Pools[i], &pools[i]
		if len(pool.Devices) > 0 {
			rows = append(rows, row{
				true, Degraded, "stranger",
				pool.devicesText(),
				"exclude those addresses with ringlet exclude add, or give the devices other addresses and free these with ringlet release; ringlet tries each again after an hour",
			})
		}
		if !pool.hasContainers() || s.Size <= 2 || s.Reserved < s.Size && s.Size-s.Reserved == 1 {
			continue // nothing here needs it, or it is full on purpose
		}
		var gateways addr.Count
		if pool.Gateway.IsValid() && s.Held > 0 {
			gateways = 1
		}
		switch {
		case s.Free+s.Ready+s.Resting == 0:
			rows = append(rows, row{
				true, Degraded, "pool-full",
				fmt.Sprintf("pool %s is full: %s", sentence.Pool(pool.Pool), sentence.Shares(addr.Count(s.Size), sentence.InUse(addr.Count(s.Held)-gateways), sentence.OwnGateway(gateways), sentence.Lost(addr.Count(s.Quarantined)), sentence.Withheld(addr.Count(s.Reserved)))),
				"remove containers, or move to a larger network",
			})
		case s.Mine == 0 && s.Free == 0 && !p.alone():
			rows = append(rows, row{
				true, Degraded, "short-of-space",
				fmt.Sprintf("this host has no free address left in pool %s and asks other hosts for each one, which takes longer", sentence.Pool(pool.Pool)),
				"remove containers, or move to a larger network",
			})
		}
	}
	return rows
}

// maxDevices is how many addresses a problem names; ringlet ip ls has all.
const maxDevices = 4

// devicesText says which addresses of a pool other devices answer for.
func (p *Pool) devicesText() string {
	var texts []string
	for _, o := range slices.Sorted(maps.Keys(p.Devices)) {
		if len(texts) == maxDevices {
			texts = append(texts, fmt.Sprintf("and %d more", len(p.Devices)-maxDevices))
			break
		}
		rec := p.Space.Lookup(o)
		texts = append(texts, fmt.Sprintf("%v (MAC %s, since %s)", addr.Nth(p.CIDR, o), addr.MAC(rec.MAC), sentence.Date(rec.Since)))
	}
	verb := "are"
	if len(p.Devices) == 1 {
		verb = "is"
	}
	return fmt.Sprintf("%s of pool %s %s used by other devices on the network: %s", sentence.Plural(len(p.Devices), "address", "addresses"), sentence.Pool(p.Pool), verb, strings.Join(texts, ", "))
}
