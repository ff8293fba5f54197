package ipam

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/ring"
)

// Status returns what this peer knows of itself and its cluster.
func (m *Machine) Status(now time.Time) Status {
	m = m.at(now)
	s := Status{
		AsOf: now.UTC(), Verdict: Fine, State: m.standing(), Cluster: hex.EncodeToString(m.state.Cluster[:]), Slot: m.state.Slot, Level: uint64(m.level()), Pending: len(m.unsettled()),
		Peers: []PeerStatus{}, Voters: []string{}, Pools: []PoolStatus{}, Networks: []NetStatus{}, Problems: []Problem{},
	}
	s.Self = m.peerStatus(chronicle.Member{Founder: m.founder()}, string(s.State))
	for _, member := range m.state.Roster {
		p := m.peerStatus(member, member.Phase.String())
		if member.ID == m.self {
			s.Self = p
		}
		s.Peers = append(s.Peers, p)
	}
	for _, gone := range m.state.Former {
		if !gone.Forgotten {
			s.Peers = append(s.Peers, m.peerStatus(gone.Member, "evicted"))
		}
	}
	for _, id := range m.state.Voters() {
		s.Voters = append(s.Voters, id.String())
	}
	pools := m.sortedPools()
	s.Pools = slices.Grow(s.Pools, len(pools))
	for _, p := range pools {
		s.Pools = append(s.Pools, m.poolStatus(p, now, true))
	}
	for _, id := range m.sortedNetworks() {
		n := m.networks[id]
		s.Networks = append(s.Networks, NetStatus{ID: id, Pool: n.Pool, Range: n.Range, Count: n.count})
	}
	s.Problems = append(m.ownProblems(), m.peerProblems()...)
	s.Problems = append(s.Problems, m.poolProblems(s.Pools)...)
	for _, p := range s.Problems {
		if p.Level == string(Failed) {
			s.Verdict = Failed
		} else if s.Verdict == Fine {
			s.Verdict = Degraded
		}
	}
	return s
}

// standing returns where this peer stands among others.
func (m *Machine) standing() State {
	switch {
	case m.broken != nil || m.isSuspended():
		return Suspended
	case m.left:
		return Left
	case m.booting():
		return Checking
	case m.outdated():
		return Outdated
	case m.state.Slot == 0 && m.formation().Size > 0 && !m.cfg.Formation.Observer:
		return Forming
	case m.state.Slot == 0 || !m.member():
		return Joining
	case m.leaving || m.draining() || m.drained:
		return Leaving
	case m.alone():
		return Alone
	case m.cutOff():
		return CutOff
	}
	return Ready
}

// peerStatus shows one peer.
func (m *Machine) peerStatus(member chronicle.Member, state string) PeerStatus {
	p := PeerStatus{
		ID: member.ID.String(), Name: string(m.goesBy(member.ID, member.Name)), State: state, Boot: uint64(member.Boot),
		Voter: m.isVoter(member.ID), Reachable: m.live(member.ID),
	}
	if member.ID == m.self {
		p.Boot, p.Slot = uint64(m.boot), m.state.Slot
		p.Speaks = uint64(m.cfg.Spoken)
		return p
	}
	if c := m.contacts[member.ID]; c != nil {
		p.Boot = max(p.Boot, uint64(c.start.boot))
		p.Slot, p.Address, p.Heard, p.Speaks = c.slot, c.addr, c.heard, uint64(c.spoken)
	}
	return p
}

func problem(level Verdict, code, next, text string, args ...any) Problem {
	return Problem{Code: code, Level: string(level), Text: fmt.Sprintf(text, args...), Next: next}
}

// ownProblems lists what is wrong with this peer itself.
func (m *Machine) ownProblems() []Problem {
	out := []Problem{}
	add := func(level Verdict, code, next, text string, args ...any) {
		out = append(out, problem(level, code, next, text, args...))
	}
	if m.broken != nil {
		add(Failed, "broken-invariant", "keep the database, and report the output of ringlet check", "the records of this host contradict each other, so it hands out no addresses: %v", m.broken)
	}
	if m.isSuspended() {
		out = append(out, m.problemOfSuspension())
	}
	switch standing := m.standing(); {
	case m.state.Slot == 0 && m.orphaned > 0:
		add(Failed, "database-lost", "set RINGLET_JOIN to another host of the cluster, also on the first host; if no host still has its data, set RINGLET_BOOTSTRAP=1 on one host, and let the others join it", "the database of this host is new, but its engine has %s of ringlet, and other hosts may hold addresses of these: it hands out no addresses until it has found those hosts; %s answered", plural(m.orphaned, "network", "networks"), plural(m.reached(), "host has", "hosts have"))
	case standing == Left:
		add(Failed, "left", "remove the plugin, or only its data to join again", "this host has left its cluster and hands out nothing")
	case standing == Outdated:
		add(Failed, "outdated", "upgrade ringlet on this host", "the cluster uses level %d of the protocol, but the release on this host speaks at most %d: its containers keep their addresses, and it hands out no new ones", m.level(), m.cfg.Spoken)
	case standing == Checking:
		add(Degraded, "checking", "if this lasts, start or reconnect the other hosts", "this host has just started and asks the others whether its database is current; %s answered", plural(len(m.check.answered)-1, "host has", "hosts have"))
	case standing == Forming:
		add(Failed, "forming", "start ringlet on the other hosts, with the same RINGLET_JOIN and RINGLET_BOOTSTRAP", "this host founds a cluster with others and reaches %d of %d hosts, itself included; it needs a majority", m.foundersMet(), m.cfg.Formation.Size)
	case standing == Joining:
		if m.looksFirst() && !m.seesCluster() {
			add(Failed, "joining", "wait a minute", "the database of this host is new, and it looks for hosts that are in a cluster, before it founds one because of RINGLET_BOOTSTRAP=1; %s answered", plural(m.reached(), "host has", "hosts have"))
			break
		}
		if m.state.Slot == 0 && m.hesitates && !m.cfg.Join && !m.seesCluster() {
			add(Failed, "joining", "check that the engine answers docker network ls, and see the plugin's log; with RINGLET_BOOTSTRAP=1 it founds a cluster without the list", "the database of this host is new, and it waits for its engine's list of networks before it founds a cluster")
			break
		}
		if f := m.cfg.Formation; m.state.Slot == 0 && f.Size == 0 && m.seat > 0 && m.reached() == 0 {
			add(Failed, "joining", "list the other hosts in RINGLET_JOIN, too; on the first host of all leave it empty", "this host has not found its cluster yet: RINGLET_JOIN lists no other host")
			break
		}
		if m.state.Slot == 0 {
			add(Failed, "joining", "check that ringlet runs on the hosts in RINGLET_JOIN; the first host of all has RINGLET_JOIN empty, or all hosts have the same list with themselves in it", "this host has not found its cluster yet; %s answered", plural(m.reached(), "host has", "hosts have"))
			break
		}
		waits := "waits to be admitted to its cluster"
		if m.mayReturn() {
			waits = "was evicted from its cluster and waits to be admitted again; it keeps its addresses"
		}
		add(Failed, "joining", "check that a majority of the other hosts runs and is reachable", "this host %s", waits)
	default:
	}
	if m.member() && !m.left && !m.booting() && !m.outdated() && m.cutOff() {
		why := "this host reaches no majority of its cluster"
		if len(m.state.Roster) == 2 {
			why = "this host does not reach the other one, which has the deciding vote of the two"
		}
		waiting := ""
		if n := len(m.unsettled()); n > 0 {
			waiting = "; " + plural(n, "decision that was requested here waits", "decisions that were requested here wait") + ", too"
		}
		add(Degraded, "cut-off", "start or reconnect those hosts; if they are gone for good, ringlet recover --help says how this host continues alone", "%s (away: %s): it still hands out and frees addresses in its own ranges, but new pools and ranges must wait%s", why, m.names(m.away(m.state.Voters())), waiting)
	}
	if waited := m.oldestProposal(); waited >= longAgreement && m.majority(m.steadyVoters()) && !m.booting() && !m.outdated() && m.member() {
		add(Degraded, "no-agreement", "check whether the network between the hosts loses packets, and whether TCP and UDP port 7950 are open both ways", "no decision was made for %v, although this host reaches a majority: it still hands out and frees addresses in its own ranges, but new ranges, pools and claims must wait", waited.Round(time.Second))
	}
	if owners := m.ownersOfListed(); len(owners) > 0 && !slices.ContainsFunc(owners, func(id peer.ID) bool { return !m.isPredecessor(id) }) {
		add(Degraded, "inventory-awaited", "wait half a minute; if it stays, check that a majority of the other hosts runs and is reachable", "the database is new, and containers of this host have addresses of its former self, which it is taking over: until then it chooses no address")
	} else if len(owners) > 0 {
		add(Degraded, "inventory-awaited", "bring that host back; if it is gone for good, for example because this one was reinstalled under another name, stop those containers, then evict and forget it with ringlet evict and ringlet forget", "the database is new, and containers of this host have addresses in the ranges of %s, which cannot be reached: until they are taken in, this host chooses no address", m.names(owners))
	} else if m.awaitList() != nil && m.state.Slot > 0 {
		add(Degraded, "inventory-awaited", "wait a moment; if it stays, check that the engine answers docker network ls, and see the plugin's log", "this host does not know yet which addresses are in use: until its engine lists them, it chooses no address")
	}
	if m.ready() == nil && m.awaitList() == nil && m.awaitsOthers() {
		if m.takesIn() {
			add(Degraded, "inventory-awaited", "wait a moment; if it stays, see ringlet status on the other hosts", "the database is new, and other hosts still own addresses that networks of this host reserve: until that has changed, this host chooses no address")
		}
		if peers := m.saidUnlisted(); len(peers) > 0 {
			add(Degraded, "others-unlisted", "wait two minutes at most, and see ringlet status on those hosts: each must be in this cluster, and reach its engine", "the database is new, like that of %s, whose containers may have addresses that the cluster does not know yet: until it does, this host chooses no address", m.names(peers))
		}
	}
	if m.bootedAlone {
		add(Degraded, "booted-alone", "start or reconnect the other hosts", "this host was started, and no majority of its cluster has answered since: if it was forgotten in the meantime, its addresses may be in use elsewhere")
	}
	return out
}

// longAgreement is how long a decision may take before that is a problem.
const longAgreement = 5 * time.Second

// oldestProposal returns how long the command has waited that this peer wants
// decided next.
func (m *Machine) oldestProposal() time.Duration {
	if len(m.proposals) == 0 {
		return 0
	}
	since := m.proposals[0].since
	if since.Before(m.startedAt) {
		since = m.startedAt // it was on disk
	}
	return m.now.Sub(since)
}

// steadyVoters returns the voters that have been in sight for so long that they could have agreed.
func (m *Machine) steadyVoters() []peer.ID {
	return slices.DeleteFunc(m.liveVoters(), func(id peer.ID) bool {
		c := m.contacts[id]
		return c != nil && m.now.Sub(c.since) < longAgreement
	})
}

// foundersMet returns how many of the hosts that found the cluster have been
// met and can be reached, this one among them.
func (m *Machine) foundersMet() int {
	n := 1
	for _, id := range m.founders() {
		if m.live(id) {
			n++
		}
	}
	return n
}

// ownersOfListed returns the peers that cannot be reached in whose space containers of
// this host have addresses, by the engine's last list, as long as that is taken in.
func (m *Machine) ownersOfListed() []peer.ID {
	if !m.unlisted {
		return nil
	}
	var owners []peer.ID
	for _, p := range m.pools {
		for o := range p.seen {
			t, _ := p.Ring.At(o)
			if t.Owner == m.self || t.Owner == ring.Free || t.Owner == ring.Reserved || m.live(t.Owner) || slices.Contains(owners, t.Owner) {
				continue
			}
			owners = append(owners, t.Owner)
		}
	}
	slices.SortFunc(owners, peer.ID.Compare)
	return owners
}

// reached returns how many other peers have been heard of.
func (m *Machine) reached() int {
	n := 0
	for _, c := range m.contacts {
		if !c.heard.IsZero() {
			n++
		}
	}
	return n
}

// away returns those of the peers that cannot be reached.
func (m *Machine) away(peers []peer.ID) []peer.ID {
	return slices.DeleteFunc(slices.Clone(peers), m.live)
}

// peerProblems lists what is wrong with other peers.
func (m *Machine) peerProblems() []Problem {
	var out []Problem
	add := func(code, next, text string, args ...any) {
		out = append(out, problem(Degraded, code, next, text, args...))
	}
	if away := m.away(m.others()); len(away) > 0 && m.member() && !m.cutOff() && !m.booting() {
		goesOn := ""
		if len(m.state.Roster) == 2 {
			goesOn = "; this host has the deciding vote of the two, so everything goes on here"
		}
		add("peer-unreachable", "start or reconnect those hosts; if one is gone for good, ringlet evict and then ringlet forget release its addresses", "unreachable: %s%s", m.names(away), goesOn)
	}
	if older := slices.DeleteFunc(m.others(), func(id peer.ID) bool { return !m.older(id) }); len(older) > 0 {
		add("older-release", "upgrade ringlet on those hosts", "the cluster uses level %d of the protocol, which the release on these hosts does not speak: %s; their containers keep their addresses, and they hand out no new ones", m.state.Level, m.names(older))
	}
	for _, gone := range m.state.Former {
		if n := m.ownedBy(gone.ID); !gone.Forgotten && gone.ID != m.self && n > 0 {
			name := m.nameOf(gone.ID)
			add("quarantine", "bring that host back, with its data removed if this cluster was recovered without it; if it is gone for good, run ringlet forget "+m.refOf(gone.ID), "%s was evicted, and %s quarantined", name, plural(n, "address that it may use is", "addresses that it may use are"))
		}
	}
	for _, gone := range m.state.Former {
		if left := gone.Phase == chronicle.Draining && m.warnedBy[gone.ID] == 0; !gone.Forgotten || left || !m.live(gone.ID) {
			continue
		}
		aside := ""
		if n := m.warnedBy[gone.ID]; n > 0 {
			aside = "; " + plural(n, "address that its containers use is", "addresses that its containers use are") + " set aside here"
		}
		add("given-up-host", "run ringlet rejoin on that host: it starts over as a new peer, and its containers run on", "%s runs, although its addresses were released for other hosts%s", m.nameOf(gone.ID), aside)
	}
	for _, id := range sortedIDs(m.misfits) {
		f := m.misfits[id]
		add("formation-mismatch", "set the same RINGLET_JOIN and RINGLET_BOOTSTRAP on all hosts that found the cluster", "%s would found a cluster of %d hosts, or with another list, but this host one of %d", m.nameOf(id), f.Size, m.cfg.Formation.Size)
	}
	for _, cluster := range slices.SortedFunc(maps.Keys(m.foreign), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }) {
		if cluster != m.state.Cluster && m.now.Sub(m.foreign[cluster].last) <= foreignTime && m.hasForeign(cluster) {
			add("foreign-cluster", "decide which cluster stays; on each host of the other one, remove the plugin's data and set RINGLET_JOIN, or set another RINGLET_CLUSTER", "hosts of another cluster, %s, use the same key and label; this cluster is %s, and the two cannot merge", hex.EncodeToString(cluster[:4]), hex.EncodeToString(m.state.Cluster[:4]))
		}
	}
	for _, id := range sortedIDs(m.differs) {
		add("differing-state", "keep both databases, and report it", "%s had another state than the majority at slot %d", m.nameOf(id), m.differs[id])
	}
	return out
}

// hasForeign reports whether a peer was last heard of in another cluster. One
// that has joined this one since may have sent something late before.
func (m *Machine) hasForeign(cluster [16]byte) bool {
	for _, c := range m.contacts {
		if c.cluster == cluster {
			return true
		}
	}
	return false
}

func sortedIDs[V any](of map[peer.ID]V) []peer.ID {
	out := make([]peer.ID, 0, len(of))
	for id := range of {
		out = append(out, id)
	}
	slices.SortFunc(out, peer.ID.Compare)
	return out
}

// ownedBy returns how many addresses are a peer's in all pools, at most what
// fits an int.
func (m *Machine) ownedBy(id peer.ID) int {
	var n addr.Count
	for _, p := range m.state.Pools {
		for r := range p.Ring.OwnedBy(id) {
			n = n.Plus(r.Size())
		}
	}
	return int(min(n, 1<<62))
}

// poolProblems lists conflicts, which nothing else is as bad as, and pools that
// are full or nearly so.
func (m *Machine) poolProblems(pools []PoolStatus) []Problem {
	var out []Problem
	for k, d := range m.conflicts {
		c := problem(Failed, "conflict", d.ending(), "%s", d.text)
		if p := m.pools[k.pool]; p != nil {
			c.Address = addr.Nth(p.CIDR, k.at)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Problem) int { return cmp.Compare(a.Text, b.Text) })
	for i, p := range m.sortedPools() {
		s := pools[i]
		if len(p.strangers) > 0 {
			out = append(out, m.strangerProblem(p))
		}
		switch {
		case !p.hasContainers():
		case s.Free+s.Ready+s.Resting == 0:
			out = append(out, problem(Degraded, "pool-full", "remove containers, or move to a larger network", "pool %s is full: %s", poolText(p.Pool), sharesText(addr.Count(s.Size), share{addr.Count(s.Held), "is in use", "are in use"}, lostShare(addr.Count(s.Quarantined)), reservedShare(addr.Count(s.Reserved)))))
		case s.Mine == 0 && s.Free == 0 && !m.alone():
			out = append(out, problem(Degraded, "short-of-space", "remove containers, or move to a larger network", "this host has no free address left in pool %s and asks other hosts for each one, which takes longer", poolText(p.Pool)))
		}
	}
	return out
}
