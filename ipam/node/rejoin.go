package node

import (
	"context"

	"github.com/ringlet/ringlet/ipam"
)

// Remains returns what a new peer on this host would carry over, see [ipam.Machine.Remains].
// It changes nothing.
func (n *Node) Remains(ctx context.Context) (ipam.Remains, error) {
	return look(ctx, n, func(m *ipam.Machine) (ipam.Remains, error) { return m.Remains() })
}

// Retire stops the node for good, so that a new peer can take its place: nothing is granted
// or freed behind what that carries over, of which cause makes the reason. Whoever waits for
// an answer gets a [StopError] with that reason, as after a failed commit, and Run returns
// it. Where this peer does not start over Retire returns the error that says why, and
// nothing is stopped.
func (n *Node) Retire(ctx context.Context, cause func(ipam.Remains) error) error {
	_, err := look(ctx, n, func(m *ipam.Machine) (struct{}, error) {
		r, err := m.Remains()
		if err == nil {
			// The leader shows the view, so that the machine takes no step meanwhile.
			n.fail(n.stopError(cause(r), "starts over as a new peer"), nil)
		}
		return struct{}{}, err
	})
	return err
}

// Unclaimed returns the clients that this host has yet to claim again, see
// [ipam.Machine.Unclaimed].
func (n *Node) Unclaimed(ctx context.Context) ([]ipam.ClientRequest, error) {
	return look(ctx, n, func(m *ipam.Machine) ([]ipam.ClientRequest, error) { return m.Unclaimed(), nil })
}

// Moved reports whether the peer is suspended since its database was written at another
// place: it may be a copy, and the original run elsewhere. See [ipam.Machine.Moved].
func (n *Node) Moved(ctx context.Context) (bool, error) {
	return look(ctx, n, func(m *ipam.Machine) (bool, error) { return m.Moved(), nil })
}

// Cloned reports whether the peer is suspended since its database was written at another place, and nothing would be lost with
// that, see [ipam.Machine.Blank].
func (n *Node) Cloned(ctx context.Context) (bool, error) {
	return look(ctx, n, func(m *ipam.Machine) (bool, error) { return m.Moved() && m.Blank(), nil })
}

// Trust states that the database was moved to where it is, and that no other copy of it
// runs: the peer goes on with it.
func (n *Node) Trust(ctx context.Context) error {
	_, err := n.call(ctx, &ipam.TrustRequest{})
	return err
}
