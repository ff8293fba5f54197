package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/netip"

	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/wire"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/fault"
)

// split brings what arrives to the directory if it is the directory's, and all
// else to the node: none of the two waits for the other.
func split(n *node.Node, d *directory.Directory) func(arrived iter.Seq2[[]byte, int]) {
	return func(arrived iter.Seq2[[]byte, int]) {
		n.Deliver(func(yield func([]byte, int) bool) {
			for frame, seat := range arrived {
				if wire.TypeOf(frame) == wire.TypeDirectory {
					d.Deliver(frame)
				} else if !yield(frame, seat) {
					return
				}
			}
		})
	}
}

// containersOf tells what the labels of containers of the engine say.
func containersOf(watcher *dockerd.Watcher) func(ctx context.Context, ids []string) (map[string]directory.Container, error) {
	return func(ctx context.Context, ids []string) (map[string]directory.Container, error) {
		found, err := watcher.Containers(ctx, ids)
		out := map[string]directory.Container{}
		for id, c := range found {
			out[id] = directory.Container{Namespace: c.Service.Namespace, Service: c.Service.Name, Labels: identity.Text(c.Labels)}
		}
		return out, err
	}
}

// about tells what the directory says of this process.
func about(cfg config.Config, watcher *dockerd.Watcher, network func() *peers) directory.Node {
	out := directory.Node{Version: version, Engine: watcher.State().EngineVersion}
	if p := network(); p != nil {
		if self := p.Status().Self; self.IsValid() {
			out.Address, out.Health = self.String(), health(cfg.HTTP, self.Addr())
		}
	}
	out.Addresses = addressesOf(out.Address)
	return out
}

// addressesOf returns the addresses of this host on its interfaces, the one at which
// other peers reach it first. Those that count on one link or on this host alone are
// left out.
func addressesOf(peers string) (out []directory.NodeAddress) {
	self, _ := netip.ParseAddrPort(peers)
	all, _ := kernelnet.Addresses() // without them only the other is told
	seen := map[netip.Addr]bool{}
	add := func(a netip.Addr, kind string) {
		if a = a.Unmap(); !a.IsGlobalUnicast() || seen[a] {
			return
		}
		seen[a] = true
		family := "ipv6"
		if a.Is4() {
			family = "ipv4"
		}
		out = append(out, directory.NodeAddress{Address: a, Family: family, Kind: kind})
	}
	add(self.Addr(), "peer")
	for _, p := range all {
		add(p.Addr(), "host")
	}
	return out
}

// health returns where the API can be reached from other hosts, nothing if it
// cannot: it is served at an address of RINGLET_HTTP, or at all of a host that
// others reach at self.
func health(served string, self netip.Addr) string {
	host, port, err := net.SplitHostPort(served)
	if err != nil { // off
		return ""
	}
	switch a, err := netip.ParseAddr(host); {
	case host == "" || err == nil && a.IsUnspecified():
		host = self.String()
	case host == "localhost" || err == nil && a.IsLoopback():
		return ""
	}
	return net.JoinHostPort(host, port)
}

// lateDirectory returns the fault of a directory to which no changes come.
func lateDirectory(shared *directory.Directory, logger *slog.Logger) *fault.Fault {
	return &fault.Fault{
		Logger: logger, Code: "directory-late",
		Look: func() error {
			if shared.Late() == 0 {
				return nil
			}
			return errors.New("no heartbeat for more than 3 minutes")
		},
		Text: func(err error) string {
			return fmt.Sprintf("this host may show old facts of other hosts, because their changes do not arrive (%v)", err)
		},
		Next: "see ringlet peers for hosts that do not answer; addresses are handed out all the same",
	}
}

// unidentified returns the faults of containers that have no identity: their labels are too long, or there are too many
// label sets. Their addresses are as good as any.
func unidentified(shared *directory.Directory, logger *slog.Logger) []*fault.Fault {
	say := func(err error) string { return err.Error() }
	return []*fault.Fault{{
		Logger: logger, Code: "identity-too-long", Text: say,
		Look: func() error { long, _ := shared.Unidentified(); return long },
		Next: "count fewer labels with RINGLET_IDENTITY_LABELS on all hosts, or start the container with shorter ones; its address works without an identity",
	}, {
		Logger: logger, Code: "identities-full", Text: say,
		Look: func() error { _, full := shared.Unidentified(); return full },
		Next: "count fewer labels with RINGLET_IDENTITY_LABELS on all hosts; numbers that no container uses are free again after half an hour, and addresses work without an identity",
	}}
}
