package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
	"github.com/ringlet/ringlet/ipam/wire"
)

// This file has the sentences that people read in their terminal, so that they
// have one voice: what failed, with pool and address, why, and what to do.

func failf(kind error, format string, args ...any) error {
	return &Error{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// poolText names a pool: its subnet, with its name where it has one.
func poolText(p *chronicle.Pool) string {
	if p.Name == "" {
		return p.CIDR.String()
	}
	return fmt.Sprintf("%v (%s)", p.CIDR, p.Name)
}

// holderText names a holder on this peer.
func (m *Machine) holderText(h space.Holder, since int64) string {
	at := dateText(since)
	switch h.Kind {
	case space.Gateway:
		return fmt.Sprintf("%s as its own gateway since %s", m.cfg.Name, at)
	case space.Host:
		return fmt.Sprintf("%s, which has it on an interface", m.cfg.Name)
	case space.Stranger:
		if h.MAC == [6]byte{} {
			return "a container or client on a host whose addresses were released with ringlet forget"
		}
		return fmt.Sprintf("another device on the network, with MAC %s, which answered %s at %s", MAC(h.MAC), m.cfg.Name, at)
	case space.Kept:
		return fmt.Sprintf("nobody on %s since %s", m.cfg.Name, at)
	case space.Container, space.Unmarked, space.Client:
	}
	return fmt.Sprintf("%s on %s since %s", whoText(h), m.cfg.Name, at)
}

// whoText names a holder wherever it is.
func whoText(h space.Holder) string {
	switch short := shortRef(h.Ref); {
	case h.Kind == space.Gateway:
		return "a network, as its gateway"
	case h.Kind == space.Host:
		return "the host itself"
	case h.Kind == space.Stranger && h.MAC == [6]byte{}:
		return "a container or client on a host whose addresses were released with ringlet forget"
	case h.Kind == space.Stranger:
		return "another device on the network, with MAC " + MAC(h.MAC).String()
	case h.Kind == space.Client:
		return fmt.Sprintf("%q", h.Ref)
	case h.Name != "" && short != "":
		return fmt.Sprintf("container %s (%s)", h.Name, short)
	case h.Name != "":
		return "container " + h.Name
	case short != "":
		return "container " + short
	case h.MAC != [6]byte{}:
		return "a container with MAC " + MAC(h.MAC).String()
	}
	return "a container"
}

// dateText writes a time, in nanoseconds since 1970, for people.
func dateText(nanos int64) string {
	return time.Unix(0, nanos).UTC().Format("2006-01-02 15:04 MST")
}

// word writes what others chose as one word of a command that is to be typed in.
func word(s string) string {
	special := func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("|&;<>()$`\\\"'*?[]#~!{}^", r) }
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// refOf names a peer as a command takes it.
func (m *Machine) refOf(id peer.ID) string {
	if name := m.nameOf(id); name != unnamed(id) {
		return word(name)
	}
	return id.String()
}

// shortRef shortens a container's ID to what docker ps shows.
func shortRef(ref string) string {
	if len(ref) == 64 {
		return ref[:12]
	}
	return ref
}

func (m *Machine) errLeaving() error {
	return failf(ErrNotReady, "ringlet on %s is leaving its cluster and accepts nothing new: run ringlet drain --undo to make it stay", m.cfg.Name)
}

// errDraining refuses a request for which this peer would have to take another range: it is giving its ranges away.
func (m *Machine) errDraining(p *pool) error {
	return failf(ErrNotReady, "ringlet on %s is draining and takes no more addresses from %s: start the container on another host, or run ringlet drain --undo", m.cfg.Name, poolText(p.Pool))
}

func (m *Machine) errHeld(p *pool, a netip.Addr, h space.Holder, since int64) error {
	next := "stop that container first, or choose another address"
	switch h.Kind {
	case space.Client:
		next = fmt.Sprintf("free it with ringlet free --for %s %v, or choose another address", word(h.Ref), a)
	case space.Gateway, space.Host:
		next = "choose another address"
	case space.Stranger:
		next = fmt.Sprintf("choose another address; once that device no longer uses this one, free it with ringlet release %v", a)
	case space.Container, space.Unmarked, space.Kept:
	}
	return failf(ErrAddressInUse, "address %v in %s is held by %s: %s", a, poolText(p.Pool), m.holderText(h, since), next)
}

// errUntold makes a claim wait for an inventory that tells whether the holder
// lives.
func (m *Machine) errUntold(p *pool, o addr.Offset, rec space.Record) error {
	return &waitError{failf(ErrNotReady, "address %v in %s is held by %s, and the engine has not reported yet whether that container still exists: try again in a moment, or choose another address",
		addr.Nth(p.CIDR, o), poolText(p.Pool), m.holderText(rec.Holder, rec.Since))}
}

// errUnclear makes a request wait that comes without options, for a list that tells what it is for.
func (m *Machine) errUnclear(p *chronicle.Pool, a netip.Addr) error {
	return waitFor(failf(ErrNotReady, "the engine has not reported yet whether a container or a new network asks for address %v in %s: try again in a moment, and see ringlet status if it fails again", a, poolText(p)))
}

// errNeeds29 refuses an address that a container asks for with --ip, below an engine that does not say so.
func errNeeds29(p *pool, a netip.Addr) error {
	return failf(ErrBadRequest, "address %v in %s cannot be given with --ip, which needs engine 29 with RINGLET_MAC=false: leave --ip out, or upgrade the engine, or set RINGLET_MAC=true if the host has no network of driver ipvlan", a, poolText(p.Pool))
}

// errEither refuses an address that networks reserve, if the engine cannot say whether another network
// asks for it or a container.
func errEither(p *pool, a netip.Addr, r *chronicle.Reservation) error {
	return failf(ErrAddressReserved, "address %v in %s is reserved as %v, and an engine before 29 cannot say whether a container or a network asks for it: leave it out of the network, it is already reserved",
		a, poolText(p.Pool), r.Kind)
}

// errHeldBy refuses an address that somebody on another host holds, whom that
// host has named.
func (m *Machine) errHeldBy(p *pool, o addr.Offset, holder string) error {
	return failf(ErrAddressInUse, "address %v in %s is held by %s: stop or free it there first, or choose another address", addr.Nth(p.CIDR, o), poolText(p.Pool), holder)
}

// backText says what ends it that the space of an evicted host is kept back. If the cluster
// was recovered without it, status says so there once it runs, and that its data must go.
func (m *Machine) backText(id peer.ID) string {
	return "bring that host back, or release its addresses with ringlet forget " + m.refOf(id) + " if it is gone for good"
}

// quarantineText says of what is kept back for an evicted host that it is, and what ends that: "may be …".
func (m *Machine) quarantineText(id peer.ID) string {
	return fmt.Sprintf("may be in use on %s, which was lost and evicted: %s", m.nameOf(id), m.backText(id))
}

// errQuarantined refuses an address that a lost host may be using.
func (m *Machine) errQuarantined(p *pool, o addr.Offset, owner peer.ID) error {
	return failf(ErrAddressInUse, "address %v in %s %s, or choose another address", addr.Nth(p.CIDR, o), poolText(p.Pool), m.quarantineText(owner))
}

// waitFor makes a call wait, and says what it is told if that was in vain.
func waitFor(late error) error { return &waitError{late} }

// inTime reports whether the call that is being served may wait on, so that
// nobody is told why it waits: many do, and each is tried again in each slot.
func (m *Machine) inTime() bool { return m.current != nil && m.now.Before(m.current.Deadline) }

func (m *Machine) waitForPeers(p *pool, q question, peers []peer.ID) error {
	next := "check that the host is up and reachable, and see ringlet status"
	if len(peers) > 1 {
		next = "check that the hosts are up and reachable, and see ringlet status"
	}
	switch q.want {
	case wire.WantVacant:
		return waitFor(failf(ErrUnreachable, "pool %s may be in use on %s, which did not answer in time: %s", poolText(p.Pool), m.names(peers), next))
	case wire.WantExact, wire.WantReserved:
		return waitFor(failf(ErrUnreachable, "address %v in %s is in a range of %s, which did not answer in time, so whether it is in use is not known: %s, or choose another address", addr.Nth(p.CIDR, q.in.Start), poolText(p.Pool), m.names(peers), next))
	case wire.WantSpace:
	}
	return waitFor(failf(ErrUnreachable, "pool %s has free addresses only on %s, which did not answer in time: %s", poolText(p.Pool), m.names(peers), next))
}

// waitForSuccession makes a call wait until this peer has taken over the space
// of its former self.
func (m *Machine) waitForSuccession() error {
	return waitFor(failf(ErrNotReady, "ringlet on %s has a new database and waits to take over the addresses of its former self: try again in a moment, and see ringlet status", m.cfg.Name))
}

func (m *Machine) waitForMajority() error {
	if m.inTime() {
		return &waitError{}
	}
	live := m.liveVoters()
	var away []peer.ID
	for _, id := range m.state.Voters() {
		if !slices.Contains(live, id) {
			away = append(away, id)
		}
	}
	if len(away) == 0 {
		return waitFor(failf(ErrNotReady, "ringlet on %s did not get the cluster's agreement in time: try again, and see ringlet status if it fails again", m.cfg.Name))
	}
	return waitFor(failf(ErrUnreachable, "ringlet on %s needs the agreement of a majority of its peers for this and cannot reach %s: start or reconnect those hosts; until then this host hands out addresses of its own ranges", m.cfg.Name, m.names(away)))
}

// waitForEarlier is waitForMajority where the opposite of what is asked for was asked for before, which
// goes ahead of it. Whoever waits in vain is told, as that is done when nobody thinks of it any more.
func (m *Machine) waitForEarlier() error {
	err := m.waitForMajority()
	wait, _ := errors.AsType[*waitError](err)
	late, ok := errors.AsType[*Error](wait.late)
	if !ok {
		return err
	}
	return waitFor(&Error{Kind: late.Kind, Text: late.Text + "; the opposite was requested before, and is done as soon as they agree: repeat the command after that"})
}

// staysWanted says of a decision that an operator waited for in vain that it is
// not withdrawn by that, and which command shows it then.
func (m *Machine) staysWanted(err error, shows string) error {
	wait, ok := errors.AsType[*waitError](err)
	if !ok || m.inTime() || !m.waitsForDecision() {
		return err
	}
	m.keepWanted()
	late, ok := errors.AsType[*Error](wait.late)
	if !ok {
		return err
	}
	next := "your request is done as soon as they agree, if that is still possible: " + shows + " shows it"
	if m.current.partly {
		next = "a part of your request is done as soon as they agree, if that is still possible: " + shows + " shows it; repeat the command for the rest"
	}
	return waitFor(&Error{Kind: late.Kind, Text: late.Text + "; " + next})
}

func (m *Machine) waitForCluster() error {
	switch {
	case m.outdated():
		return m.errOutdated()
	case m.state.Slot == 0 && m.orphaned > 0:
		return waitFor(failf(ErrNotReady, "ringlet on %s has a new database, but its engine has %s of ringlet, and other hosts may hold addresses of these: set RINGLET_JOIN to another host of the cluster, or RINGLET_BOOTSTRAP=1 if there is none", m.cfg.Name, plural(m.orphaned, "network", "networks")))
	case m.looksFirst():
		return waitFor(failf(ErrNotReady, "ringlet on %s has a new database and looks for hosts that are in a cluster, before it founds one because of RINGLET_BOOTSTRAP=1: try again in a minute", m.cfg.Name))
	case m.state.Slot == 0 && m.formation().Size > 0 && !m.cfg.Formation.Observer:
		return waitFor(failf(ErrNotReady, "ringlet on %s waits for the other hosts that found its cluster: it needs a majority of the %d hosts, and reaches %d, itself included; start ringlet on the others, and see ringlet status", m.cfg.Name, m.cfg.Formation.Size, m.foundersMet()))
	case m.state.Slot == 0:
		return waitFor(failf(ErrNotReady, "ringlet on %s has not found its cluster yet: check that the hosts in RINGLET_JOIN run ringlet and are reachable, and see ringlet status", m.cfg.Name))
	}
	return waitFor(failf(ErrNotReady, "ringlet on %s waits to be admitted to its cluster: check that a majority of the other hosts runs, and see ringlet status", m.cfg.Name))
}

// errOutdated says that this host's release is too old for what its cluster
// has agreed to use.
func (m *Machine) errOutdated() error {
	return failf(ErrNotReady, "ringlet on %s is older than its cluster, which uses level %d of the protocol (this release: at most %d), and hands out no new addresses: upgrade ringlet on this host; until then its containers keep their addresses", m.cfg.Name, m.level(), m.cfg.Spoken)
}

func (m *Machine) waitForCheck() error {
	return waitFor(failf(ErrNotReady, "ringlet on %s has just started and asks the other hosts whether its database is current: start or reconnect the other hosts, and see ringlet status", m.cfg.Name))
}

// errSwarm refuses a network of a whole swarm, whose addresses the manager
// alone asks for: those of services and tasks that no engine lists.
func errSwarm() error {
	return failf(ErrBadRequest, "ringlet does not serve networks of a whole swarm, such as overlay: on each node create a network with --config-only, this IPAM driver and a --subnet; then, on a manager, create one with --scope swarm --config-from and the driver macvlan, ipvlan or bridge")
}

// errReserved refuses an address that is reserved.
func errReserved(p *pool, a netip.Addr, r *chronicle.Reservation, h space.Holder) error {
	what, next := reservedText(r), "choose another address"
	if r.Kind == chronicle.KindKeptForName && h.Kind == space.Container && h.Name == "" {
		if addr.IsMAC(r.Note) {
			next = "give the container that MAC, or " + next
		} else {
			next = "this engine does not send the names of containers, as engines from 29 on do; reserve the address for a MAC instead, or " + next
		}
	}
	return failf(ErrAddressReserved, "address %v in %s %s: %s", a, poolText(p.Pool), what, next)
}

// errKept refuses to reserve an address, for a name or a network, that is reserved already.
func errKept(p *pool, a netip.Addr, r *chronicle.Reservation) error {
	next := "choose another address"
	switch r.Kind {
	case chronicle.KindExcluded:
		next += fmt.Sprintf(", or first run ringlet exclude rm %v", a)
	case chronicle.KindKeptForName:
		next += fmt.Sprintf(", or first run ringlet reserve rm %v", a)
	case chronicle.KindGateway, chronicle.KindAuxiliary, chronicle.KindNetwork, chronicle.KindBroadcast, chronicle.KindRouter:
	}
	return failf(ErrAddressReserved, "address %v in %s %s: %s", a, poolText(p.Pool), reservedText(r), next)
}

// errKeptTwice says that an address is reserved for the container that asks, and also by a network.
func errKeptTwice(p *pool, a netip.Addr, r *chronicle.Reservation, kind chronicle.Kind) error {
	return failf(ErrAddressReserved, "address %v in %s %s, but a network of this host also reserves it as %v: remove that network, or end the reservation with ringlet reserve rm %v",
		a, poolText(p.Pool), reservedText(r), kind, a)
}

// reservedText says what an address is reserved for: "is …".
func reservedText(r *chronicle.Reservation) string {
	switch r.Kind {
	case chronicle.KindNetwork, chronicle.KindBroadcast, chronicle.KindRouter:
		return "is the pool's " + r.Kind.String()
	case chronicle.KindExcluded:
		if r.Note != "" {
			return "is excluded (" + r.Note + ")"
		}
		return "is excluded"
	case chronicle.KindKeptForName:
		return "is reserved for " + r.Note
	default:
		return "is reserved as " + r.Kind.String()
	}
}

// errOutside refuses an address that has no position in a pool. That of its last
// is one too many in a /64.
func errOutside(cidr netip.Prefix, a netip.Addr) error {
	if cidr.Contains(a.Unmap()) {
		return failf(ErrAddressReserved, "address %v in %v is the pool's %s: choose another address", a, cidr, lastOf64)
	}
	return failf(ErrAddressOutOfRange, "address %v is not in %v: choose one that is", a, cidr)
}

// errFull says that a part of a pool is full. The counts are of that part; lost is what
// evicted hosts may be using.
func errFull(p *pool, want netip.Prefix, held, elsewhere, lost, reserved, size addr.Count) error {
	where := poolText(p.Pool)
	if want != p.CIDR {
		where = fmt.Sprintf("range %v of %s", want, where)
	}
	next := "remove a container, or create a larger network"
	if lost > 0 {
		next = "bring those hosts back, or release their addresses with ringlet forget if they are gone for good; otherwise " + next
	}
	inUse := share{held, "is in use", "are in use"}
	if elsewhere > 0 {
		inUse = share{held, "is in use on this host", "are in use on this host"}
	}
	return failf(ErrNoAddress, "no free address in %s: %s; %s", where, sharesText(size, inUse,
		share{elsewhere, "is another host's, which has none to spare", "are other hosts', which have none to spare"}, lostShare(lost), reservedShare(reserved)), next)
}

// share is how many addresses of a pool are something, and how that is said of one and of several.
type share struct {
	n         addr.Count
	one, many string
}

func lostShare(n addr.Count) share {
	return share{n, "is quarantined for an evicted host", "are quarantined for evicted hosts"}
}

func reservedShare(n addr.Count) share { return share{n, "is reserved", "are reserved"} }

// sharesText says what the addresses of a pool are, of which there are size. It leaves out what none is.
func sharesText(size addr.Count, shares ...share) string {
	shares = slices.DeleteFunc(shares, func(s share) bool { return s.n == 0 })
	if len(shares) == 1 && size > 1 {
		return fmt.Sprintf("all %v addresses %s", size, shares[0].many)
	}
	texts := make([]string, len(shares))
	for i, s := range shares {
		texts[i] = s.n.String() + " " + s.many
		if s.n == 1 {
			texts[i] = "1 " + s.one
		}
	}
	last, before := len(texts)-1, ""
	switch {
	case last == 1:
		before = texts[0] + " and "
	case last > 1:
		before = strings.Join(texts[:last], ", ") + ", and "
	}
	return "of " + plural(uint64(size), "address", "addresses") + " " + before + texts[last]
}

func (m *Machine) errOverlap(cidr netip.Prefix, p *pool) error {
	networks, busy := m.networksTold(p), p.busy() // not by what the host has there itself
	if !busy && networks == 0 {
		return failf(ErrPoolOverlap, "subnet %v overlaps the pool %s: remove it first with ringlet pool rm %v, or choose a subnet that does not overlap it",
			cidr, poolText(p.Pool), p.CIDR)
	}
	why := "which has " + plural(networks, "network", "networks")
	if busy {
		held := m.poolStatus(p, m.now, false).HeldHere
		why = "which has " + plural(held, "address in use", "addresses in use")
	}
	return failf(ErrPoolOverlap, "subnet %v overlaps the pool %s, %s: choose a subnet that does not overlap it, or use exactly that subnet to share it",
		cidr, poolText(p.Pool), why)
}

func plural[N int | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return addr.Count(n).String() + " " + many
}

// errNoSubnet says that no subnet is left to choose, and what is in the way of those that there are.
func (m *Machine) errNoSubnet(bits int, universe []netip.Prefix) error {
	if !slices.ContainsFunc(universe, func(u netip.Prefix) bool { return u.Bits() <= bits }) {
		return failf(ErrNoSubnet, "no /%d subnet fits into %s: choose a smaller one with --ipam-opt size=, name one with --subnet, or widen RINGLET_UNIVERSE", bits, prefixes(universe))
	}
	there := func(all []netip.Prefix) []netip.Prefix {
		return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return !slices.ContainsFunc(universe, p.Overlaps) })
	}
	foreign := func(all []netip.Prefix) []netip.Prefix { // what is a pool's is counted there
		return slices.DeleteFunc(there(all), func(p netip.Prefix) bool { return m.poolOf(p) != nil })
	}
	pools := 0
	for _, u := range universe {
		pools += len(m.state.Overlapping(u))
	}
	var in []string
	if pools > 0 {
		in = append(in, plural(pools, "pool", "pools"))
	}
	if avoid := there(m.cfg.Avoid); len(avoid) > 0 {
		in = append(in, "RINGLET_AVOID with "+prefixes(avoid))
	}
	if host := foreign(append(masked(m.host), m.routed...)); len(host) > 0 {
		in = append(in, "addresses and routes of this host with "+prefixes(host))
	}
	if listed := foreign(m.listed); len(listed) > 0 {
		in = append(in, "networks of the engine with "+prefixes(listed))
	}
	why := ""
	if len(in) > 0 {
		why = " (in the way: " + strings.Join(in, "; ") + ")"
	}
	return failf(ErrNoSubnet, "no free /%d subnet is left in %s%s: name one with --subnet, remove networks that are not needed, or widen RINGLET_UNIVERSE", bits, prefixes(universe), why)
}

func masked(all []netip.Prefix) []netip.Prefix {
	out := make([]netip.Prefix, len(all))
	for i, p := range all {
		out[i] = p.Masked()
	}
	return out
}

// prefixes joins subnets, each of them once, the first [maxNamed] of them.
func prefixes(all []netip.Prefix) string {
	all = slices.Compact(slices.SortedFunc(slices.Values(all), netip.Prefix.Compare))
	named := all[:min(len(all), maxNamed)]
	texts := make([]string, len(named))
	for i, p := range named {
		texts[i] = p.String()
	}
	out := strings.Join(texts, ", ")
	if more := len(all) - len(named); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

func errNameTaken(name string, cidr netip.Prefix) error {
	return failf(ErrBadRequest, "the name %s belongs to the pool %v: leave out --subnet to join that pool, or use another name", name, cidr)
}

func errNoPool(ref string) error {
	if _, err := netip.ParseAddr(ref); err == nil { // which only a pool of that name could be, and none has such a name
		return failf(ErrPoolNotFound, "there is no pool %s, because that is an address: name the pool with its prefix length, such as 10.50.0.0/24, or by its name; ringlet pool ls shows both", ref)
	}
	return failf(ErrPoolNotFound, "there is no pool %s: ringlet pool ls lists the pools", ref)
}

// maxNamed is how many peers a sentence names; ringlet peers has all.
const maxNamed = 8

// names joins the names of peers.
func (m *Machine) names(peers []peer.ID) string {
	named := peers[:min(len(peers), maxNamed)]
	texts := make([]string, len(named))
	for i, id := range named {
		texts[i] = m.nameOf(id)
	}
	all := strings.Join(texts, ", ")
	if more := len(peers) - len(named); more > 0 {
		all += fmt.Sprintf(" and %d more", more)
	}
	return all
}
