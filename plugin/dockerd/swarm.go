package dockerd

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/swarm"
	"github.com/docker/docker/api/types/system"
)

// SwarmService is a service of the engine's swarm that has virtual addresses.
type SwarmService struct {
	Service
	Virtual []VirtualAddress // in order
}

// VirtualAddress is where the tasks of a service are reached together on one network.
type VirtualAddress struct {
	Address netip.Addr
	Network string // its name
}

// SwarmServices lists the services of the swarm that have virtual addresses. An engine that is no manager has no such list, and is not
// asked for it, since its log would have an error each time. It is safe for concurrent use.
func (w *Watcher) SwarmServices(ctx context.Context) ([]SwarmService, error) {
	cli := w.cli.Load()
	if cli == nil {
		return nil, errNoEngine
	}
	info, err := call(ctx, w.cfg.Timeout, "/info", func(ctx context.Context) (system.Info, error) { return cli.Info(ctx) })
	if err != nil || !info.Swarm.ControlAvailable {
		return nil, err
	}
	list, err := call(ctx, w.cfg.Timeout, "/services", func(ctx context.Context) ([]swarm.Service, error) {
		return cli.ServiceList(ctx, swarm.ServiceListOptions{})
	})
	if err != nil {
		return nil, err
	}
	networks, err := call(ctx, w.cfg.Timeout, "/networks", func(ctx context.Context) ([]network.Summary, error) {
		return cli.NetworkList(ctx, network.ListOptions{})
	})
	if err != nil {
		return nil, err
	}
	names := map[string]string{}
	for _, n := range networks {
		names[n.ID] = n.Name
	}
	return virtual(list, names), nil
}

// virtual returns the services of a list that have virtual addresses. What cannot be read of one is left out.
func virtual(list []swarm.Service, names map[string]string) (out []SwarmService) {
	for _, s := range list {
		labels := map[string]string{labelSwarmService: s.Spec.Name, labelStack: s.Spec.Labels[labelStack]}
		this := SwarmService{Service: serviceOf(labels)}
		for _, v := range s.Endpoint.VirtualIPs {
			if p, err := netip.ParsePrefix(v.Addr); err == nil {
				this.Virtual = append(this.Virtual, VirtualAddress{p.Addr(), cmp.Or(names[v.NetworkID], v.NetworkID)})
			}
		}
		if this.Service == (Service{}) || len(this.Virtual) == 0 {
			continue
		}
		slices.SortFunc(this.Virtual, func(a, b VirtualAddress) int { return a.Address.Compare(b.Address) })
		out = append(out, this)
	}
	return out
}
