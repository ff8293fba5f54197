package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/ringlet/ringlet/ipam"
	"github.com/ringlet/ringlet/ipam/node"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/metrics"
)

// engineCalls is what the driver asks of the rest of the process.
type engineCalls struct {
	*node.Node
	watcher *dockerd.Watcher
}

// Greeted has the node expect a replay, and looks at what the engine has.
func (e engineCalls) Greeted(ctx context.Context) {
	_ = e.Greet(ctx) // it fails only if everything else does, too
	e.watcher.Recheck()
}

// RequestAddress grants an address. After a refusal it looks at what the
// engine has: of a start that fails for its second address the engine never
// releases the first.
func (e engineCalls) RequestAddress(ctx context.Context, r ipam.AddressRequest) (ipam.AddressGrant, error) {
	g, err := e.Node.RequestAddress(ctx, r)
	if err != nil {
		e.watcher.Recheck()
	}
	return g, err
}

// Recheck looks at what the engine has, soon.
func (e engineCalls) Recheck() { e.watcher.Recheck() }

// deliver brings inventories to the node. One that is not complete proves
// nothing by what it lacks, and is not used.
func deliver(n *node.Node) dockerd.Deliver {
	return func(ctx context.Context, inv dockerd.Inventory) (time.Duration, error) {
		if !inv.Complete {
			return 0, nil
		}
		if err := tellHost(ctx, n); err != nil {
			return 0, err
		}
		return n.Inventory(ctx, inventory(inv))
	}
}

// hostInterval is how often the host's own addresses are read when nothing
// else asks for it.
const hostInterval = 20 * time.Second

// watchHost tells the node now and then which addresses the host has, until
// ctx ends.
func watchHost(ctx context.Context, n *node.Node) error {
	ticker := time.NewTicker(hostInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := tellHost(ctx, n); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// tellHost tells the node which addresses the host has on its interfaces: the
// gateways of bridges, and its own on a LAN that a pool covers.
func tellHost(ctx context.Context, n *node.Node) error {
	at := time.Now()
	found, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("read the host's addresses: %w", err)
	}
	var addresses []netip.Prefix
	for _, a := range found {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		addresses = append(addresses, p)
	}
	return n.HostAddresses(ctx, at, addresses)
}

// inventory translates what the engine said.
func inventory(inv dockerd.Inventory) ipam.Inventory {
	out := ipam.Inventory{Begun: inv.Begun}
	for _, n := range inv.Networks {
		net := ipam.InventoryNetwork{ID: n.ID, Name: n.Name}
		for _, s := range n.Subnets {
			net.Subnets = append(net.Subnets, s.Prefix)
			net.Auxiliary = append(net.Auxiliary, s.Aux...)
			if s.Gateway.IsValid() {
				net.Gateways = append(net.Gateways, s.Gateway)
			}
		}
		for _, e := range n.Endpoints {
			for _, a := range e.Addresses {
				net.Endpoints = append(net.Endpoints, ipam.InventoryEndpoint{
					Address: a.Addr(), Container: e.Container, Name: e.Name, MAC: parseMAC(e.MAC),
				})
			}
		}
		out.Networks = append(out.Networks, net)
	}
	return out
}

// parseMAC returns the zero MAC for a text that is none.
func parseMAC(s string) (m ipam.MAC) {
	if hw, err := net.ParseMAC(s); err == nil && len(hw) == len(m) {
		copy(m[:], hw)
	}
	return m
}

// status is the node with what its status lacks: the engine.
type status struct {
	*node.Node
	watcher *dockerd.Watcher
}

// Status adds how far this peer sees what its engine does.
func (s status) Status(ctx context.Context) (ipam.Status, error) {
	out, err := s.Node.Status(ctx)
	if err != nil {
		return out, err
	}
	engine := s.watcher.State()
	switch {
	case !engine.Connected && !exists(engine.Socket):
		out.Problems = append(out.Problems, ipam.Problem{
			Code: "no-docker-socket", Level: string(ipam.Degraded),
			Text: "this peer cannot ask its engine which containers live, and relies on what the engine replays when it starts",
			Next: "let the plugin's mount docker have a directory with docker.sock in it, so that addresses of containers that vanish are freed",
		})
	case !engine.Connected && !engine.Since.IsZero() && time.Since(engine.Since) > 10*time.Second:
		out.Problems = append(out.Problems, ipam.Problem{
			Code: "engine-unreachable", Level: string(ipam.Degraded),
			Text: fmt.Sprintf("the engine does not answer on %s (%s); addresses are handed out all the same", engine.Socket, engine.LastError),
			Next: "see whether the engine runs, and whether the plugin's mount docker has its directory",
		})
	}
	if len(out.Problems) > 0 && out.Verdict == ipam.Fine {
		out.Verdict = ipam.Degraded
	}
	return out, nil
}

// exists reports whether there is a file of that name.
func exists(path string) bool {
	_, err := os.Stat(path)
	return path != "" && err == nil
}

// observeNote counts the notes that have a metric.
func observeNote(m *metrics.Metrics) func(ipam.Note) {
	return func(n ipam.Note) {
		switch n.Kind {
		case ipam.NoteLeakFound:
			m.LeaksFound(1)
		case ipam.NoteLeakMended:
			m.LeaksMended(1)
		default: // the log has them
		}
	}
}

// machineID returns a hash of what tells this machine from others and
// outlives its database, 0 if there is nothing of the kind.
func machineID() uint64 {
	for _, file := range []string{"/etc/machine-id", "/sys/class/dmi/id/product_uuid"} {
		if b, err := os.ReadFile(file); err == nil && len(strings.TrimSpace(string(b))) > 0 {
			h := fnv.New64a()
			_, _ = h.Write(b) // never fails
			return h.Sum64()
		}
	}
	return 0
}
