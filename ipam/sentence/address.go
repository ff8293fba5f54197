package sentence

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
)

// AddressHeld refuses an address that something on that host holds.
func AddressHeld(host peer.Name, p *chronicle.Pool, a netip.Addr, h space.Holder, since int64) error {
	next := "stop that container first, or choose another address"
	switch h.Kind {
	case space.Client:
		next = fmt.Sprintf("free it with ringlet free --for %s %v, or choose another address", Word(h.Ref), a)
	case space.Gateway, space.Host:
		next = "choose another address"
	case space.Stranger:
		next = fmt.Sprintf("choose another address; once that device no longer uses this one, free it with ringlet release %v", a)
	case space.Container, space.Unmarked, space.Kept:
	}
	return Errorf(ErrAddressInUse, "address %v in %s is held by %s: %s", a, Pool(p), Holder(host, h, since), next)
}

// AddressLeft refuses an address that an endpoint holds whose container is gone, as the engine's list shows. network is the name
// of its Docker network, empty if the list had none.
func AddressLeft(host peer.Name, p *chronicle.Pool, a netip.Addr, h space.Holder, since int64, network string) error {
	return Errorf(ErrAddressInUse, "address %v in %s is held by %s: %s, or choose another address", a, Pool(p), Holder(host, h, since), Disconnect(h, network))
}

// LacksContainer reports whether the engine's last list, begun at looked, has the endpoint of a holder, and no container with it.
func LacksContainer(h space.Holder, since int64, container string, listed bool, looked time.Time) bool {
	return h.Kind.OfEndpoint() && listed && container == "" && h.Ref == "" && looked.UnixNano() > since
}

// Disconnect says how to remove an endpoint whose container is gone from a network, by its name; empty if that is not known.
func Disconnect(h space.Holder, network string) string {
	name, from := "ENDPOINT, as docker network inspect names it", "NETWORK"
	if h.Name != "" {
		name = Word(h.Name)
	}
	if network != "" {
		from = Word(network)
	}
	return "the engine has this endpoint without a container: remove it with docker network disconnect --force " + from + " " + name
}

// End says what ends that something has an address.
func End(h space.Holder, a netip.Addr) string {
	switch h.Kind {
	case space.Gateway:
		return "remove the networks of this host on that pool"
	case space.Host:
		return "remove the address from the interface of this host"
	case space.Client:
		return fmt.Sprintf("run ringlet free --for %s %v", Word(h.Ref), a)
	case space.Stranger:
		return "give that device another address"
	case space.Container, space.Unmarked, space.Kept:
	}
	return "stop that container"
}

// EndReserved says what ends that an address is reserved; empty if nothing does.
func EndReserved(r *chronicle.Reservation, a netip.Addr) string {
	switch r.Kind {
	case chronicle.KindExcluded:
		return fmt.Sprintf("run ringlet exclude rm %v", a)
	case chronicle.KindKeptForName:
		return fmt.Sprintf("run ringlet reserve rm %v", a)
	case chronicle.KindGateway, chronicle.KindAuxiliary:
		return "remove the networks that reserve it, on all hosts"
	case chronicle.KindNetwork, chronicle.KindBroadcast, chronicle.KindRouter:
	}
	return ""
}

// ComposeRun says of an error that docker compose run starts a second container. asker and holder are the names of the one that
// asks, empty if an engine before 29 does not send it, and of the one that has the address. docker compose calls them
// PROJECT-SERVICE-run-HASH and PROJECT-SERVICE-1, with dashes or underscores. Other names leave the error as it is.
func ComposeRun(err error, asker, holder string) error {
	parts := func(name string) []string {
		return strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' })
	}
	isRun := slices.Contains(parts(asker), "run")
	if all := parts(holder); asker == "" && len(all) > 2 {
		isRun = strings.Trim(all[len(all)-1], "0123456789") == ""
	}
	if e, ok := errors.AsType[*Error](err); ok && isRun {
		return &Error{Kind: e.Kind, Text: e.Text + "; docker compose run starts a second container, docker compose exec uses the one that runs"}
	}
	return err
}

// AddressUntold refuses an address while only the engine's next list can say whether its holder still exists.
func AddressUntold(host peer.Name, p *chronicle.Pool, a netip.Addr, h space.Holder, since int64) error {
	return Errorf(ErrNotReady, "address %v in %s is held by %s, and the engine has not reported yet whether that container still exists: try again in a moment, or choose another address",
		a, Pool(p), Holder(host, h, since))
}

// AddressUnclear refuses an address while only the engine's next list can say whether a container asks or a network.
func AddressUnclear(p *chronicle.Pool, a netip.Addr) error {
	return Errorf(ErrNotReady, "the engine has not reported yet whether a container or a new network asks for address %v in %s: try again in a moment, and see ringlet status if it fails again", a, Pool(p))
}

// AddressNeeds29 refuses an address that a container asks for with --ip, below an engine that does not say so.
func AddressNeeds29(p *chronicle.Pool, a netip.Addr) error {
	return Errorf(ErrBadRequest, "address %v in %s cannot be given with --ip, which needs engine 29 with RINGLET_MAC=false: leave --ip out, or upgrade the engine, or set RINGLET_MAC=true if the host has no network of driver ipvlan", a, Pool(p))
}

// AddressEither refuses an address that networks reserve, if the engine cannot say whether another network asks for it
// or a container.
func AddressEither(p *chronicle.Pool, a netip.Addr, r *chronicle.Reservation) error {
	return Errorf(ErrAddressReserved, "address %v in %s is reserved as %v, and an engine before 29 cannot say whether a container or a network asks for it: leave it out of the network, it is already reserved",
		a, Pool(p), r.Kind)
}

// AddressReserved refuses an address that is reserved for something else than the holder that asks.
func AddressReserved(p *chronicle.Pool, a netip.Addr, r *chronicle.Reservation, h space.Holder) error {
	what, next := Reserved(r), "choose another address"
	if r.Kind == chronicle.KindKeptForName && h.Kind == space.Container && h.Name == "" {
		if addr.IsMAC(r.Note) {
			next = "give the container that MAC, or " + next
		} else {
			next = "this engine does not send the names of containers, as engines from 29 on do; reserve the address for a MAC instead, or " + next
		}
	}
	return Errorf(ErrAddressReserved, "address %v in %s %s: %s", a, Pool(p), what, next)
}

// AddressTaken refuses to reserve an address, for a name or a network, that is reserved already.
func AddressTaken(p *chronicle.Pool, a netip.Addr, r *chronicle.Reservation) error {
	next := "choose another address"
	switch r.Kind {
	case chronicle.KindExcluded:
		next += fmt.Sprintf(", or first run ringlet exclude rm %v", a)
	case chronicle.KindKeptForName:
		next += fmt.Sprintf(", or first run ringlet reserve rm %v", a)
	case chronicle.KindGateway, chronicle.KindAuxiliary, chronicle.KindNetwork, chronicle.KindBroadcast, chronicle.KindRouter:
	}
	return Errorf(ErrAddressReserved, "address %v in %s %s: %s", a, Pool(p), Reserved(r), next)
}

// AddressReservedTwice refuses an address that is reserved for the container that asks, and also by a network.
func AddressReservedTwice(p *chronicle.Pool, a netip.Addr, r *chronicle.Reservation, kind chronicle.Kind) error {
	return Errorf(ErrAddressReserved, "address %v in %s %s, but a network of this host also reserves it as %v: remove that network, or end the reservation with ringlet reserve rm %v",
		a, Pool(p), Reserved(r), kind, a)
}

// AddressOutside refuses an address that has no offset in a pool, such as the last of a /64.
func AddressOutside(cidr netip.Prefix, a netip.Addr) error {
	if cidr.Contains(a.Unmap()) {
		return Errorf(ErrAddressReserved, "address %v in %v is the pool's %s: choose another address", a, cidr, LastOf64)
	}
	return Errorf(ErrAddressOutOfRange, "address %v is not in %v: choose one that is", a, cidr)
}
