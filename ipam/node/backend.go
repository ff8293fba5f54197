package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/ringlet/ringlet/ipam"
)

// RequestPool grants a network its pool.
func (n *Node) RequestPool(ctx context.Context, r ipam.PoolRequest) (ipam.PoolGrant, error) {
	reply, err := n.call(ctx, &r)
	return valueOf(reply.Pool), err
}

// ReleasePool forgets a network.
func (n *Node) ReleasePool(ctx context.Context, network ipam.Network) error {
	_, err := n.call(ctx, &ipam.PoolRelease{Network: network})
	return err
}

// RequestAddress grants an address. It is on disk when RequestAddress returns.
func (n *Node) RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	reply, err := n.call(ctx, &r)
	return reply.Address, err
}

// ReleaseAddress frees an address. Freeing what is free is no error.
func (n *Node) ReleaseAddress(ctx context.Context, network ipam.Network, a netip.Addr) error {
	_, err := n.call(ctx, &ipam.AddressRelease{Network: network, Address: a})
	return err
}

// Withdraw takes back a grant that could not be delivered.
func (n *Node) Withdraw(ctx context.Context, t ipam.Ticket) error {
	if t.IsZero() {
		return nil
	}
	_, err := n.call(ctx, &ipam.Withdrawal{Ticket: t})
	return err
}

// Stranger says that something else on the network, with that MAC, answers for
// an address that was just granted. It fails only if the node has.
func (n *Node) Stranger(ctx context.Context, t ipam.Ticket, mac ipam.MAC) error {
	_, err := n.call(ctx, &ipam.Stranger{Ticket: t, MAC: mac})
	return err
}

// Greet says that the engine has started, or asked for capabilities.
func (n *Node) Greet(ctx context.Context) error {
	_, err := n.call(ctx, &ipam.Greeting{})
	return err
}

// Mark returns the present moment, for a list that is about to be asked for.
func (n *Node) Mark(ctx context.Context) (ipam.Mark, error) {
	return look(ctx, n, func(m *ipam.Machine) (ipam.Mark, error) { return m.Mark(time.Now()), nil })
}

// Inventory compares what is held with what the engine has. The duration says
// when another inventory would be useful; it is zero if nothing is open.
func (n *Node) Inventory(ctx context.Context, inv ipam.Inventory) (time.Duration, error) {
	reply, err := n.call(ctx, &inv)
	return reply.Again, err
}

// Blind says that no inventory will come for now, see [ipam.Blindness].
func (n *Node) Blind(ctx context.Context) error {
	_, err := n.call(ctx, &ipam.Blindness{})
	return err
}

// HostAddresses says which addresses and routes the host itself has.
func (n *Node) HostAddresses(ctx context.Context, h ipam.HostAddresses) error {
	_, err := n.call(ctx, &h)
	return err
}

// Client allocates or claims an address for a holder outside Docker.
func (n *Node) Client(ctx context.Context, r ipam.ClientRequest) (ipam.AddressGrant, error) {
	reply, err := n.call(ctx, &r)
	return reply.Address, err
}

// Free frees one address, or all of a holder, and returns what it freed.
func (n *Node) Free(ctx context.Context, r ipam.FreeRequest) ([]ipam.AddressStatus, error) {
	reply, err := n.call(ctx, &r)
	return reply.Addresses, err
}

// CreatePool makes a pool and reports true, or gives the name to one that
// exists.
func (n *Node) CreatePool(ctx context.Context, cidr netip.Prefix, name string) (ipam.PoolStatus, bool, error) {
	reply, err := n.call(ctx, &ipam.PoolCreation{CIDR: cidr, Name: name})
	return valueOf(reply.Status), reply.Created, err
}

// RemovePool removes a pool, by subnet or name, in which no address is held.
func (n *Node) RemovePool(ctx context.Context, pool string) error {
	_, err := n.call(ctx, &ipam.PoolRemoval{Pool: pool})
	return err
}

// Addresses lists the addresses of a pool, by subnet or name, or of all pools
// if it is empty, all at once. See [Node.List] for who may be many.
func (n *Node) Addresses(ctx context.Context, pool string) ([]ipam.AddressStatus, error) {
	return look(ctx, n, func(m *ipam.Machine) ([]ipam.AddressStatus, error) { return m.Addresses(time.Now(), pool) })
}

// List lists addresses in portions, see [ipam.Machine.List]. No portion takes more
// than 500 records of the machine's time.
func (n *Node) List(ctx context.Context, q ipam.Listing) (ipam.Portion, error) {
	if q.Limit <= 0 || q.Limit > listAtOnce {
		q.Limit = listAtOnce
	}
	return look(ctx, n, func(m *ipam.Machine) (ipam.Portion, error) { return m.List(time.Now(), q) })
}

// listAtOnce is how many records one view of the machine visits: calls that wait
// behind it wait for a fraction of a millisecond.
const listAtOnce = 500

// Table lists the rows of tables in portions, see [ipam.Machine.Table].
func (n *Node) Table(ctx context.Context, q ipam.TableListing) (ipam.TablePortion, error) {
	return look(ctx, n, func(m *ipam.Machine) (ipam.TablePortion, error) {
		if most := max(1, rankedAtOnce/max(1, len(m.State().Roster))); q.Limit <= 0 || q.Limit > most {
			q.Limit = most
		}
		return m.Table(time.Now(), q)
	})
}

// rankedAtOnce is how many peers one view of the machine ranks, in all rows together: calls that wait
// behind it wait for a fraction of a millisecond.
const rankedAtOnce = 10000

// Who tells what the peer knows of an address.
func (n *Node) Who(ctx context.Context, a netip.Addr) (ipam.AddressStatus, error) {
	return look(ctx, n, func(m *ipam.Machine) (ipam.AddressStatus, error) { return m.Who(time.Now(), a) })
}

// Check holds what the peer knows against its invariants, its database and the
// engine's last list. Nothing else is served meanwhile, so that the database is
// as the peer left it.
func (n *Node) Check(ctx context.Context) (ipam.Audit, error) {
	return look(ctx, n, func(m *ipam.Machine) (ipam.Audit, error) {
		out := m.Audit(time.Now())
		if disk, err := ipam.Restore(n.cfg.Machine, n.cfg.Store.Load); err != nil {
			out.Against([]string{"the database cannot be read back: " + err.Error()})
		} else {
			out.Against(m.Differences(disk))
		}
		return out, nil
	})
}

// Collect frees what a report found to leak, as far as that is still so.
func (n *Node) Collect(ctx context.Context, r ipam.CollectRequest) ([]ipam.Collected, error) {
	reply, err := n.call(ctx, &r)
	return reply.Collected, err
}
