package main

import (
	"context"
	"iter"
	"net"
	"net/netip"

	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/ipam/wire"
	"github.com/ringlet/ringlet/plugin/config"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/dockerd"
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

// servicesOf tells of which services containers of the engine are.
func servicesOf(watcher *dockerd.Watcher) func(ctx context.Context, ids []string) (map[string][2]string, error) {
	return func(ctx context.Context, ids []string) (map[string][2]string, error) {
		found, err := watcher.Services(ctx, ids)
		out := map[string][2]string{}
		for id, s := range found {
			out[id] = [2]string{s.Namespace, s.Name}
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
