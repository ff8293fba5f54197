// Package entry is what this host says of itself in the directory: its version, its engine, the addresses at which it is reached, and
// the labels of its containers. It also says what is wrong with the directory here.
//
// It refuses to know how the directory brings that to other hosts.
package entry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"github.com/ringlet/ringlet/internal/kernelnet"
	"github.com/ringlet/ringlet/ipam/identity"
	"github.com/ringlet/ringlet/ipam/peer"
	"github.com/ringlet/ringlet/plugin/directory"
	"github.com/ringlet/ringlet/plugin/dockerd"
	"github.com/ringlet/ringlet/plugin/fault"
)

// Containers tells what the labels of containers of the engine say.
func Containers(watcher *dockerd.Watcher) func(ctx context.Context, ids []string) (map[string]directory.Container, error) {
	return func(ctx context.Context, ids []string) (map[string]directory.Container, error) {
		found, err := watcher.Containers(ctx, ids)
		out := map[string]directory.Container{}
		for id, c := range found {
			ports := make([]directory.Port, len(c.Ports))
			for i, p := range c.Ports {
				ports[i] = directory.Port(p)
			}
			out[id] = directory.Container{
				Namespace: c.Service.Namespace, Service: c.Service.Name,
				Labels: identity.Text(c.Labels), Swarm: c.Swarm, Started: c.Started, Ports: ports,
			}
		}
		return out, err
	}
}

// SwarmServices tells which services of the swarm have virtual addresses, as far as the engine is a manager of it.
func SwarmServices(watcher *dockerd.Watcher) func(ctx context.Context) ([]directory.SwarmService, error) {
	return func(ctx context.Context) (out []directory.SwarmService, err error) {
		found, err := watcher.SwarmServices(ctx)
		for _, s := range found {
			addresses := make([]directory.VirtualAddress, len(s.Virtual))
			for i, v := range s.Virtual {
				addresses[i] = directory.VirtualAddress(v)
			}
			out = append(out, directory.SwarmService{Namespace: s.Namespace, Service: s.Name, Virtual: addresses})
		}
		return out, err
	}
}

// Process is what this process knows of itself.
type Process struct {
	Version, Engine string
	HTTP            string         // where its API is served, as in RINGLET_HTTP
	Health          netip.AddrPort // its health address; the zero value: none
	Self            netip.AddrPort // where other peers reach it; the zero value: nobody can
}

// Of returns what the directory says of this process.
func Of(p Process) directory.Node {
	self := p.Self
	out := directory.Node{Version: p.Version, Engine: p.Engine}
	if self.IsValid() {
		out.Address, out.API = self.String(), api(p.HTTP, self.Addr())
	}
	if p.Health.IsValid() {
		out.Health = p.Health.String()
	}
	out.Addresses = addressesOf(self.Addr())
	return out
}

// addressesOf returns the addresses of this host on its interfaces, the one at which
// other peers reach it first. Those that count on one link or on this host alone are
// left out.
func addressesOf(self netip.Addr) (out []directory.NodeAddress) {
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
	add(self, "peer")
	for _, p := range all {
		add(p.Addr(), "host")
	}
	return out
}

// HealthAddresses returns the health addresses of living peers, by their IDs, from what each says of itself.
func HealthAddresses(said []directory.Item, living []peer.ID) map[string]netip.AddrPort {
	alive := map[string]bool{}
	for _, id := range living {
		alive[id.String()] = true
	}
	out := map[string]netip.AddrPort{}
	for _, item := range said {
		var n directory.Node
		if !alive[item.Owner] || json.Unmarshal(item.Value, &n) != nil {
			continue
		}
		if at, err := netip.ParseAddrPort(n.Health); err == nil {
			out[item.Owner] = at
		}
	}
	return out
}

// api returns where the API can be reached from other hosts, nothing if it
// cannot: it is served at an address of RINGLET_HTTP, or at all of a host that
// others reach at self.
func api(served string, self netip.Addr) string {
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

// Late returns the fault of a directory to which no changes come.
func Late(shared *directory.Directory, logger *slog.Logger) *fault.Fault {
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
		Next: "start or reconnect the hosts that ringlet peers shows as unreachable; addresses are handed out all the same",
	}
}

// Unidentified returns the faults of containers that have no identity: their labels are too long, or there are too many
// label sets. Their addresses are as good as any.
func Unidentified(shared *directory.Directory, logger *slog.Logger) []*fault.Fault {
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
