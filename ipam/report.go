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
	m.now = now
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
	case m.broken != nil || m.suspect != "":
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
		add(Failed, "broken-invariant", "keep the database, and report what ringlet check says", "the records of this peer contradict each other, and nothing is handed out any more: %v", m.broken)
	}
	switch {
	case m.outlived && m.hasVeto() && !m.alone():
		add(Failed, "suspended", "disable the plugin here, and run ringlet recover --i-know-the-others-are-gone on another host of the cluster, as nothing is decided without this one; then remove the plugin's data here, and enable it with RINGLET_JOIN set to that host: it takes over what this one had, with the addresses that its containers have", "nothing is handed out any more, since %s", m.suspect)
	case m.outlived:
		add(Failed, "suspended", "remove the plugin's data on this host, and start the plugin again: it takes over what this one had, with the addresses that its containers have", "nothing is handed out any more, since %s", m.suspect)
	case m.suspect != "":
		add(Failed, "suspended", "on the host whose database is the copy, or the old one, remove the plugin's data and start the plugin again; where none is, keep both databases and report it", "nothing is handed out any more, since %s", m.suspect)
	}
	switch standing := m.standing(); {
	case m.state.Slot == 0 && m.orphaned > 0:
		add(Failed, "database-lost", "set RINGLET_JOIN to another host of its cluster, also on the first host; if there is none that still has its data, set RINGLET_BOOTSTRAP=1 on one, and let the others join it", "the database of this peer is new, and its engine has %s of ringlet: other hosts may hold addresses of these, so nothing is handed out before this peer has found them; %s answered", plural(m.orphaned, "network", "networks"), plural(m.reached(), "host has", "hosts have"))
	case standing == Left:
		add(Failed, "left", "remove the plugin, or its data to begin anew", "this peer has left its cluster and hands out nothing")
	case standing == Outdated:
		add(Failed, "outdated", "upgrade ringlet on this host", "the cluster uses level %d of the protocol, and the release on this host speaks up to %d: its containers keep what they have, and nothing is handed out", m.level(), m.cfg.Spoken)
	case standing == Checking:
		add(Degraded, "checking", "start or reconnect the other hosts if this lasts", "this peer has just started and asks the others whether its database is up to date; %s answered", plural(len(m.check.answered)-1, "peer has", "peers have"))
	case standing == Forming:
		add(Failed, "forming", "start ringlet on the other hosts, with the same RINGLET_JOIN and RINGLET_BOOTSTRAP", "this peer founds a cluster with others and reaches %d of %d hosts, itself among them; a majority is needed", m.foundersMet(), m.cfg.Formation.Size)
	case standing == Joining:
		if m.looksFirst() && !m.seesCluster() {
			add(Failed, "joining", "wait a minute", "the database of this peer is new, and it looks for other hosts that are in a cluster, before it founds one as RINGLET_BOOTSTRAP=1 says; %s answered", plural(m.reached(), "host has", "hosts have"))
			break
		}
		if m.state.Slot == 0 && m.hesitates && !m.given.Join && !m.seesCluster() {
			add(Failed, "joining", "see whether the engine answers docker network ls, and the plugin's log; RINGLET_BOOTSTRAP=1 founds a cluster without it", "the database of this peer is new, and it waits for its engine to list the networks that it has, before it founds a cluster")
			break
		}
		if f := m.cfg.Formation; m.state.Slot == 0 && f.Size == 0 && f.Seat > 0 && m.reached() == 0 {
			add(Failed, "joining", "have RINGLET_JOIN list the other hosts, too; on the first host of all it is empty", "this peer has not found its cluster yet: RINGLET_JOIN lists no host but this one")
			break
		}
		if m.state.Slot == 0 {
			add(Failed, "joining", "see that ringlet runs on the hosts in RINGLET_JOIN; the first host of all has RINGLET_JOIN empty, or all have the same list with themselves in it", "this peer has not found its cluster yet; %s answered", plural(m.reached(), "host has", "hosts have"))
			break
		}
		waits := "waits to be admitted to its cluster"
		if m.mayReturn() {
			waits = "was evicted from its cluster and waits to be admitted again; what it has stays its own"
		}
		add(Failed, "joining", "see that a majority of the other hosts runs and can be reached", "this peer %s", waits)
	default:
	}
	if m.member() && !m.left && !m.booting() && !m.outdated() && m.cutOff() {
		why := "this peer reaches no majority of its cluster"
		if len(m.state.Roster) == 2 {
			why = "this peer does not reach the other one, which as the first of two has the deciding vote"
		}
		waiting := ""
		if n := len(m.unsettled()); n > 0 {
			waiting = "; " + plural(n, "decision that was asked for here waits", "decisions that were asked for here wait") + " until then"
		}
		add(Degraded, "cut-off", "start or reconnect those hosts; if they are gone for good, ringlet recover --help tells how this host goes on alone", "%s (away: %s): addresses are handed out and freed in the space that it has, and nothing else is possible%s", why, m.names(m.away(m.state.Voters())), waiting)
	}
	if waited := m.oldestProposal(); waited >= longAgreement && m.majority(m.steadyVoters()) && !m.booting() && !m.outdated() && m.member() {
		add(Degraded, "no-agreement", "see whether the network between the hosts loses packets, and whether TCP and UDP port 7950 are open both ways", "nothing has been agreed for %v, though a majority can be reached: addresses are handed out and freed in the space that this host has, and more space, pools and claims wait", waited.Round(time.Second))
	}
	if owners := m.ownersOfListed(); len(owners) > 0 && !slices.ContainsFunc(owners, func(id peer.ID) bool { return !m.isPredecessor(id) }) {
		add(Degraded, "inventory-awaited", "wait half a minute; if it stays, see that a majority of the other hosts runs and can be reached", "the database is new, and containers of this host have addresses in the space of its former self, which it takes over: no address is chosen before it has")
	} else if len(owners) > 0 {
		add(Degraded, "inventory-awaited", "bring that host back; if it is gone for good, as when this one was installed anew under another name, stop those containers, and then ringlet evict and ringlet forget it", "the database is new, and containers of this host have addresses in the space of %s, which cannot be reached: no address is chosen before they are taken in", m.names(owners))
	} else if m.awaitList() != nil && m.state.Slot > 0 {
		add(Degraded, "inventory-awaited", "wait a moment; if it stays, see whether the engine answers docker network ls, and the plugin's log", "the engine has not listed yet what is in use, which this host does not know: no address is chosen before it has")
	}
	if m.ready() == nil && m.awaitList() == nil && m.awaitsOthers() {
		if m.takesIn() {
			add(Degraded, "inventory-awaited", "wait a moment; if it stays, see ringlet status on the other hosts", "the database is new, and addresses that networks of this host keep back are other hosts' yet: no address is chosen before they are not")
		}
		if peers := m.saidUnlisted(); len(peers) > 0 {
			add(Degraded, "others-unlisted", "wait a moment, two minutes at most, and see ringlet status on those hosts: each has to be in this cluster, and to hear from its engine", "the database is new, like that of %s, whose containers may have addresses that are not taken in yet: no address is chosen before they are", m.names(peers))
		}
	}
	if m.bootedAlone {
		add(Degraded, "booted-alone", "start or reconnect the other hosts", "this host was started and no majority of its cluster has answered since: if it was given up by ringlet forget meanwhile, its addresses may be in use elsewhere")
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
			goesOn = "; of two hosts the first has the deciding vote, so that this one goes on with everything meanwhile"
		}
		add("peer-unreachable", "start or reconnect those hosts; for one that is gone for good, ringlet evict and then ringlet forget give its space back", "unreachable: %s%s", m.names(away), goesOn)
	}
	if older := slices.DeleteFunc(m.others(), func(id peer.ID) bool { return !m.older(id) }); len(older) > 0 {
		add("older-release", "upgrade ringlet on those hosts", "the cluster uses level %d of the protocol, which the release on these hosts does not speak: %s; their containers keep what they have, and they hand out nothing", m.state.Level, m.names(older))
	}
	for _, gone := range m.state.Former {
		if n := m.ownedBy(gone.ID); !gone.Forgotten && gone.ID != m.self && n > 0 {
			name := m.nameOf(gone.ID)
			add("quarantine", "bring that host back, with its data removed if this cluster was recovered without it; or, if it is gone for good, ringlet forget "+m.refOf(gone.ID), "%s was evicted, and %s that it may be using are kept back", name, plural(n, "address", "addresses"))
		}
	}
	for _, id := range sortedIDs(m.misfits) {
		f := m.misfits[id]
		add("formation-mismatch", "give all hosts that found the cluster the same RINGLET_JOIN and RINGLET_BOOTSTRAP", "%s would found a cluster of %d hosts, or with another list, and this peer one of %d", m.nameOf(id), f.Size, m.cfg.Formation.Size)
	}
	for _, cluster := range slices.SortedFunc(maps.Keys(m.foreign), func(a, b [16]byte) int { return bytes.Compare(a[:], b[:]) }) {
		if cluster != m.state.Cluster && m.now.Sub(m.foreign[cluster].last) <= foreignTime && m.hasForeign(cluster) {
			add("foreign-cluster", "decide which one stays; on each host of the other, remove the plugin's data and set RINGLET_JOIN, or give it another RINGLET_CLUSTER", "peers of another cluster, %s, use the same key and label; this one is %s, and the two do not mix", hex.EncodeToString(cluster[:4]), hex.EncodeToString(m.state.Cluster[:4]))
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
			out = append(out, problem(Degraded, "pool-full", "remove containers, or move to a larger network", "pool %s is full: of %s %v are in use%s and %v are reserved", poolText(p.Pool), plural(s.Size, "address", "addresses"), addr.Count(s.Held), lostText(addr.Count(s.Quarantined)), addr.Count(s.Reserved)))
		case s.Mine == 0 && s.Free == 0 && !m.alone():
			out = append(out, problem(Degraded, "short-of-space", "remove containers, or move to a larger network", "this host has no free address left in pool %s and asks other hosts for each, which takes longer", poolText(p.Pool)))
		}
	}
	return out
}
