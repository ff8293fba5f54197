package driver

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"strings"

	remote "github.com/docker/go-plugins-helpers/ipam"

	"github.com/ringlet/ringlet/internal/parse"
	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/poolid"
)

// poolRequest reads a request for a pool, and reports everything that is wrong with it.
//
// An engine up to 28.5 that has a network's pool refused when it starts does
// not start at all. So nothing is refused here that was accepted when the
// network was made, although then the engine may not have named the subnet.
// keepsChosen says that it names the one that it got, where it asked for any of a size.
func poolRequest(q *remote.RequestPoolRequest, keepsChosen bool) (ipam.PoolRequest, error) {
	var problems []string
	wrong := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }

	r := ipam.PoolRequest{Space: ipam.Space(q.AddressSpace), V6: q.V6}
	if r.Space != ipam.Local && r.Space != ipam.Global {
		wrong("%s is not one of ringlet's address spaces, %s and %s", quote(q.AddressSpace), ipam.Local, ipam.Global)
	}
	var err error
	asked, anyOf := q.Pool, 0
	if keepsChosen {
		if asked, anyOf, err = anySubnet(q.Pool, r.V6); err != nil {
			wrong("subnet %s %v", quote(q.Pool), err)
		}
	}
	if asked != "" {
		if r.Pool, err = subnet(asked); err != nil {
			wrong("subnet %s %v", quote(asked), err)
		} else {
			r.V6 = r.Pool.Addr().Is6() // a swarm manager leaves the flag out
		}
	}
	if q.SubPool != "" {
		if r.Range, err = subnet(q.SubPool); err != nil {
			wrong("range %s %v", quote(q.SubPool), err)
		} else if r.Pool.IsValid() && !within(r.Range, r.Pool) {
			wrong("range %v is not in subnet %v", r.Range, r.Pool)
		}
	}
	o, more := parseOptions(q.Options, r.V6)
	problems = append(problems, more...)
	r.PoolName, r.Gateway, r.GatewayAddr, r.Sticky, r.Probe = o.pool, o.gateway, o.gatewayAddr, o.sticky, o.probe

	switch {
	case r.Pool.IsValid():
		fitsNamed(&r, &o, wrong)
	case asked == "":
		fitsChosen(&r, &o, q, anyOf, wrong)
	}
	if o.unknown {
		problems = append(problems, knownOptions)
	}
	if len(problems) > 0 {
		return ipam.PoolRequest{}, badRequest(strings.Join(problems, "; "))
	}
	return r, nil
}

// complaint notes what is wrong with a request.
type complaint func(format string, args ...any)

// fitsNamed complains about options that do not fit the subnet that the request names.
func fitsNamed(r *ipam.PoolRequest, o *options, wrong complaint) {
	if r.Gateway == ipam.GatewayAddr && !r.Pool.Contains(r.GatewayAddr) {
		wrong("gateway %v is not in subnet %v", r.GatewayAddr, r.Pool)
	}
	if o.bits != 0 && o.bits != r.Pool.Bits() {
		wrong("subnet %v is not a /%d: give either --subnet or size=", r.Pool, o.bits)
	}
	if err := narrow(r); err != nil {
		wrong("%v", err)
	}
}

// fitsChosen complains about options that need a subnet, as the request names none. anyOf is the size that the engine asks for.
func fitsChosen(r *ipam.PoolRequest, o *options, q *remote.RequestPoolRequest, anyOf int, wrong complaint) {
	r.Bits = cmp.Or(anyOf, o.bits)
	if anyOf != 0 && o.bits != 0 && o.bits != anyOf {
		wrong("subnet %s is not a /%d: give either --subnet or size=", q.Pool, o.bits)
	}
	if o.other && !r.V6 && anyOf == 0 { // the engine does not say whether an IPv6 half follows, and the number may be a slip
		wrong("size=%s is for IPv6, but this subnet is IPv4: give a size for IPv4, or one for each, as in size=24,%[1]s", q.Options[optionSize])
	}
	if r.PoolName == "" && r.Range.IsValid() {
		wrong("range %v needs its subnet: name that with --subnet", r.Range)
	}
	if r.PoolName == "" && r.Gateway == ipam.GatewayAddr {
		wrong("gateway %v needs its subnet: name that with --subnet", r.GatewayAddr)
	}
}

// narrow has the pool of a network on an IPv6 subnet wider than a /64 be its range.
func narrow(r *ipam.PoolRequest) error {
	switch {
	case !poolid.IsWide(r.Pool):
		return nil
	case !r.Range.IsValid():
		return fmt.Errorf("subnet %v is wider than a /64: name the part for containers with --ip-range, a /64 or smaller", r.Pool)
	case poolid.IsWide(r.Range):
		return fmt.Errorf("range %v is wider than a /64: name a /64 or smaller", r.Range)
	case r.Gateway == ipam.GatewayAddr && !r.Range.Contains(r.GatewayAddr):
		return fmt.Errorf("gateway %v is not in range %v: name it with --gateway", r.GatewayAddr, r.Range)
	}
	r.Subnet, r.Pool, r.Range = r.Pool, r.Range, netip.Prefix{}
	return nil
}

// anySubnet returns the length of a subnet that stands for any of its size, as 0.0.0.0/26, and no prefix then; 0 and the text of
// any other.
func anySubnet(s string, v6 bool) (prefix string, bits int, err error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().IsUnspecified() || p.Addr().Is6() != v6 {
		return s, 0, nil //nolint:nilerr // [subnet] says what is wrong
	}
	narrowest, widest := narrowest4, widest4
	if v6 {
		narrowest, widest = narrowest6, widest6
	}
	if p.Bits() < widest || p.Bits() > narrowest {
		return "", 0, fmt.Errorf("stands for any subnet of that size, which must be from /%d to /%d", widest, narrowest)
	}
	return "", p.Bits(), nil
}

// subnet reads a prefix. Engines before 25 pass on bits behind its length as
// the user typed them; the error comes after what was typed.
func subnet(s string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("cannot be read: write it as 10.1.0.0/16 or fd00::/64")
	}
	if a := p.Addr(); a.Is4In6() {
		if p.Bits() < 96 {
			return netip.Prefix{}, fmt.Errorf("is wider than all of IPv4: write it as 10.1.0.0/16")
		}
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	if p = p.Masked(); p.Addr().IsUnspecified() {
		// To the engine's own driver 0.0.0.0/24 means any /24. Engines before 29 send it again at each start.
		return netip.Prefix{}, fmt.Errorf("is not a subnet that containers can use: name another, or leave it out and ringlet chooses one")
	}
	return p, nil
}

// within reports whether the inner prefix is in the outer one; both are masked.
func within(inner, outer netip.Prefix) bool {
	return inner.Bits() >= outer.Bits() && outer.Contains(inner.Addr())
}

// addressRequest reads a request for an address.
func (d *Driver) addressRequest(q *remote.RequestAddressRequest) (ipam.AddressRequest, error) {
	n, err := d.known.network(q.PoolID)
	if err != nil {
		return ipam.AddressRequest{}, err
	}
	r := ipam.AddressRequest{Network: n}
	if q.Address != "" {
		if r.Address, err = address(q.Address); err != nil {
			return ipam.AddressRequest{}, err
		}
	}
	name, hasName := q.Options[optionEndpoint]
	mac, hasMAC := q.Options[optionMAC]
	switch {
	case q.Options[optionType] == typeGateway:
		r.Purpose = ipam.ForGateway
		return r, nil
	case r.Address.IsValid() && !hasName && !hasMAC:
		r.Purpose = ipam.ForUnmarked
		return r, nil
	}
	r.Purpose = ipam.ForContainer
	r.Name = holderName(name)
	if mac != "" {
		hw, err := net.ParseMAC(mac)
		if err != nil || len(hw) != len(r.MAC) {
			return ipam.AddressRequest{}, badRequest(fmt.Sprintf("the endpoint's MAC address %s cannot be read: write it as 02:42:0a:01:00:09", quote(mac)))
		}
		r.MAC = ipam.MAC(hw)
	}
	return r, nil
}

// network reads a pool ID.
func network(id string) (ipam.Network, error) {
	n, err := poolid.Parse(ipam.PoolID(id))
	if err != nil {
		return ipam.Network{}, badRequest(clip(err.Error()) + ": create the network again, with ringlet as its IPAM driver")
	}
	return n, nil
}

// address reads an address, which comes without a mask.
func address(s string) (netip.Addr, error) {
	a, ok := parse.Addr(s)
	if !ok {
		return netip.Addr{}, badRequest(fmt.Sprintf("address %s cannot be read: write it as 10.1.0.9 or fd00::9", quote(s)))
	}
	return a, nil
}

// taskID is the length of the ID of a swarm task.
const taskID = 25

// holderName returns the name by which a container is known. A swarm task is
// called service.slot.task and has another ID each time: it is known by its
// slot. A name longer than a holder's can be is none.
func holderName(name string) string {
	if len(name) > ipam.MaxHolder {
		return ""
	}
	slot, task, ok := cutLast(name)
	if !ok || len(task) != taskID || strings.Trim(task, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return name
	}
	if service, number, ok := cutLast(slot); ok && service != "" && number != "" && strings.Trim(number, "0123456789") == "" {
		return slot
	}
	return name
}

// cutLast cuts a name at its last dot.
func cutLast(name string) (before, after string, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name, "", false
	}
	return name[:i], name[i+1:], true
}
