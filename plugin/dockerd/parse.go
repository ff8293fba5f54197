package dockerd

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/network"
)

// sandboxless is the prefix of a key in a network's container list that is an
// endpoint's ID and not a container's.
const sandboxless = "ep-"

// parseNetwork turns the engine's strings into values. The result holds all
// that could be read; the error joins all that could not, and is nil exactly
// if Unreadable is zero.
func parseNetwork(in network.Inspect) (Network, error) {
	var r reader
	if in.ID == "" {
		r.refuse("network id", in.ID, errors.New("it is missing"))
	}
	out := Network{
		ID:            in.ID,
		Name:          in.Name,
		Driver:        in.Driver,
		Scope:         in.Scope,
		Internal:      in.Internal,
		Options:       map[string]string{},
		DriverOptions: map[string]string{},
	}
	maps.Copy(out.Options, in.IPAM.Options)
	maps.Copy(out.DriverOptions, in.Options)
	for key, resource := range in.Containers {
		out.Endpoints = append(out.Endpoints, r.endpoint(key, resource))
	}
	slices.SortFunc(out.Endpoints, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Container, b.Container), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Name, b.Name))
	})
	for _, config := range in.IPAM.Config {
		if subnet := r.subnet(config); in.EnableIPv6 || !isIPv6(subnet.Prefix) || hasIPv6(out.Endpoints) {
			out.Subnets = append(out.Subnets, subnet)
		}
	}
	out.Unreadable = len(r.errs)
	if err := errors.Join(r.errs...); err != nil {
		return out, fmt.Errorf("network %.64q: %w", in.Name, err)
	}
	return out, nil
}

// Engines to 28 keep an IPv6 subnet that a user gave a network without --ipv6, and ask the driver for nothing in it: no container
// of that network ever has an address there.

func isIPv6(p netip.Prefix) bool { return p.IsValid() && p.Addr().Is6() }

// isWide reports whether a subnet is an IPv6 one in which only a part can be a pool.
func isWide(p netip.Prefix) bool { return isIPv6(p) && p.Bits() < 64 }

func hasIPv6(endpoints []Endpoint) bool {
	return slices.ContainsFunc(endpoints, func(e Endpoint) bool { return slices.ContainsFunc(e.Addresses, isIPv6) })
}

// reader reads values, and remembers which it could not.
type reader struct{ errs []error }

func (r *reader) refuse(what, value string, why error) {
	r.errs = append(r.errs, fmt.Errorf("%s %.64q is not readable: %w", what, value, why))
}

func (r *reader) subnet(in network.IPAMConfig) Subnet {
	out := Subnet{
		Prefix:  r.prefix("subnet", in.Subnet).Masked(),
		Range:   r.prefix("ip range", in.IPRange).Masked(),
		Gateway: r.address("gateway", in.Gateway),
	}
	for _, value := range in.AuxAddress {
		if a := r.address("auxiliary address", value); a.IsValid() {
			out.Aux = append(out.Aux, a)
		}
	}
	slices.SortFunc(out.Aux, netip.Addr.Compare)
	if isWide(out.Prefix) && out.Range.IsValid() && !isWide(out.Range) {
		narrow(&out)
	}
	return out
}

// narrow has an IPv6 subnet wider than a /64 be its range, which is the pool. What lies outside is the network's own.
func narrow(s *Subnet) {
	s.Prefix = s.Range
	s.Aux = slices.DeleteFunc(s.Aux, func(a netip.Addr) bool { return !s.Prefix.Contains(a) })
	if !s.Prefix.Contains(s.Gateway) {
		s.Gateway = netip.Addr{}
	}
}

func (r *reader) endpoint(key string, in network.EndpointResource) Endpoint {
	out := Endpoint{ID: in.EndpointID, Container: key, Name: in.Name, MAC: r.mac(in.MacAddress)}
	if id, ok := strings.CutPrefix(key, sandboxless); ok {
		out.Container = ""
		out.ID = cmp.Or(in.EndpointID, id)
	}
	for _, value := range []string{in.IPv4Address, in.IPv6Address} {
		p := r.prefix("address of "+in.Name, value)
		switch {
		case !p.IsValid():
		case p.Addr().IsUnspecified():
			r.refuse("address of "+in.Name, value, errors.New("it is the unspecified address"))
		default:
			out.Addresses = append(out.Addresses, p)
		}
	}
	return out
}

// prefix reads an address with a mask and keeps the host bits. The zero prefix
// stands for an empty string and for garbage.
func (r *reader) prefix(what, value string) netip.Prefix {
	if value == "" {
		return netip.Prefix{}
	}
	p, err := netip.ParsePrefix(value)
	if err != nil {
		r.refuse(what, value, err)
		return netip.Prefix{}
	}
	if !p.Addr().Is4In6() {
		return p
	}
	if p.Bits() < 96 {
		r.refuse(what, value, errors.New("it is wider than all of IPv4"))
		return netip.Prefix{}
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
}

// noGateway is what engine 28.0.0 shows as the gateway of an IPv6 subnet that was chosen and has
// none, as that of an internal macvlan network.
const noGateway = "<nil>"

// address reads an address, with or without a mask: engines have shown
// gateways in both forms.
func (r *reader) address(what, value string) netip.Addr {
	if value == "" || value == noGateway {
		return netip.Addr{}
	}
	if strings.Contains(value, "/") {
		return r.prefix(what, value).Addr()
	}
	a, err := netip.ParseAddr(value)
	if err == nil && a.Zone() != "" {
		err = errors.New("it has a zone")
	}
	if err != nil {
		r.refuse(what, value, err)
		return netip.Addr{}
	}
	return a.Unmap()
}

func (r *reader) mac(value string) string {
	if value == "" {
		return ""
	}
	mac, err := net.ParseMAC(value)
	if err != nil {
		r.refuse("mac address", value, err)
		return ""
	}
	return mac.String()
}
