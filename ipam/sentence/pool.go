package sentence

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ringlet/ringlet/ipam/addr"
	"github.com/ringlet/ringlet/ipam/chronicle"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/ipam/space"
)

// Swarm refuses a network of a whole swarm. The manager alone asks for its addresses: those of services and tasks that
// no engine lists.
func Swarm() error {
	return Errorf(ErrBadRequest, "ringlet does not serve networks of a whole swarm, such as overlay: on each node create a network with --config-only, this IPAM driver and a --subnet; then, on a manager, create one with --scope swarm --config-from and the driver macvlan, ipvlan or bridge")
}

// NoPool says that no pool has that subnet or name.
func NoPool(ref string) error {
	if _, err := netip.ParseAddr(ref); err == nil { // no pool has such a name
		return Errorf(ErrPoolNotFound, "there is no pool %s, because that is an address: name the pool with its prefix length, such as 10.50.0.0/24, or by its name; ringlet pool ls shows both", ref)
	}
	return Errorf(ErrPoolNotFound, "there is no pool %s: ringlet pool ls lists the pools", ref)
}

// NameTaken refuses a subnet for a name that another pool has. unused says that this host has nothing there, so that the pool may
// be what a network left behind that the engine could not make.
func NameTaken(name string, cidr netip.Prefix, unused bool) error {
	if unused {
		return Errorf(ErrBadRequest, "the name %s belongs to the pool %v, which nothing on this host uses: if it is left over, remove it with ringlet pool rm %s; else leave out --subnet to join that pool, or use another name", name, cidr, name)
	}
	return Errorf(ErrBadRequest, "the name %s belongs to the pool %v: leave out --subnet to join that pool, or use another name", name, cidr)
}

// PoolFull says that a range of a pool has no free address. The counts are of that range: gateways are this host's own,
// which are not among the held, elsewhere are those of other hosts, lost those that evicted hosts may be using.
func PoolFull(p *chronicle.Pool, want netip.Prefix, held, gateways, elsewhere, lost, reserved, size addr.Count) error {
	where := Pool(p)
	if want != p.CIDR {
		where = fmt.Sprintf("range %v of %s", want, where)
	}
	next := "remove a container, or create a larger network"
	if lost > 0 {
		next = "bring those hosts back, or release their addresses with ringlet forget if they are gone for good; otherwise " + next
	}
	inUse := InUse(held)
	if elsewhere > 0 {
		inUse = Share{held, "is in use on this host", "are in use on this host"}
	}
	return Errorf(ErrNoAddress, "no free address in %s: %s; %s", where, Shares(size, inUse, OwnGateway(gateways),
		Share{elsewhere, "is another host's, which has none to spare", "are other hosts', which have none to spare"}, Lost(lost), Withheld(reserved)), next)
}

// OnlyAddressHeld says that the only address of a range of a pool is held on that host. ends says what ends that.
func OnlyAddressHeld(host peer.Name, p *chronicle.Pool, want netip.Prefix, h space.Holder, since int64, ends string) error {
	return Errorf(ErrNoAddress, "no free address in range %v of %s: its only address is held by %s; %s, or use a larger range", want, Pool(p), Holder(host, h, since), ends)
}

// PoolOverlaps refuses a subnet that overlaps a pool. networks and held are what this host has there; with neither the
// pool can be removed.
func PoolOverlaps(cidr netip.Prefix, p *chronicle.Pool, networks int, held uint64) error {
	why := "which has " + Plural(networks, "network", "networks")
	switch {
	case held > 0:
		why = "which has " + Plural(held, "address in use", "addresses in use")
	case networks == 0:
		return Errorf(ErrPoolOverlap, "subnet %v overlaps the pool %s: remove it first with ringlet pool rm %v, or choose a subnet that does not overlap it", cidr, Pool(p), p.CIDR)
	}
	return Errorf(ErrPoolOverlap, "subnet %v overlaps the pool %s, %s: choose a subnet that does not overlap it, or use exactly that subnet to share it", cidr, Pool(p), why)
}

// SubnetTooWide says that no subnet of so many bits fits into the universe.
func SubnetTooWide(bits int, universe []netip.Prefix) error {
	return Errorf(ErrNoSubnet, "no /%d subnet fits into %s: choose a smaller one with --ipam-opt size=, name one with --subnet, or widen RINGLET_UNIVERSE", bits, Subnets(universe))
}

// NoSubnet says that no subnet of so many bits is free, and what is in the way: pools, and the subnets that settings
// avoid, that the host has addresses in or routes to, and that the engine's networks have.
func NoSubnet(bits int, universe []netip.Prefix, pools int, avoid, host, engine []netip.Prefix) error {
	var in []string
	if pools > 0 {
		in = append(in, Plural(pools, "pool", "pools"))
	}
	for _, other := range []struct {
		what    string
		subnets []netip.Prefix
	}{{"RINGLET_AVOID", avoid}, {"addresses and routes of this host", host}, {"networks of the engine", engine}} {
		if len(other.subnets) > 0 {
			in = append(in, other.what+" with "+Subnets(other.subnets))
		}
	}
	why := ""
	if len(in) > 0 {
		why = " (in the way: " + strings.Join(in, "; ") + ")"
	}
	return Errorf(ErrNoSubnet, "no free /%d subnet is left in %s%s: name one with --subnet, remove networks that are not needed, or widen RINGLET_UNIVERSE", bits, Subnets(universe), why)
}
