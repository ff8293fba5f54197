package dockerd

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/docker/docker/api/types/swarm"
	"github.com/google/go-cmp/cmp"
)

// Only a manager is asked for the services of its swarm: the engine of a worker would log an error each time.
func TestSwarmServices(t *testing.T) {
	service := func(name, stack string, virtual ...swarm.EndpointVirtualIP) swarm.Service {
		s := swarm.Service{Endpoint: swarm.Endpoint{VirtualIPs: virtual}}
		s.Spec.Name = name
		if stack != "" {
			s.Spec.Labels = map[string]string{labelStack: stack}
		}
		return s
	}
	at := func(network, addr string) swarm.EndpointVirtualIP {
		return swarm.EndpointVirtualIP{NetworkID: network, Addr: addr}
	}
	inBubble(t, Config{}, func(b *bench) {
		b.services = []swarm.Service{
			service("shop_web", "shop", at("unknown", "10.0.1.2/24"), at("none", "10.0.0.9/24")), service("db", "", at("none", "fd00::5/64")),
			service("bare", ""), service("odd", "", at("none", "nonsense")),
		}
		b.startPipes()
		b.want(b.after(time.Second), 1)
		if got, err := b.w.SwarmServices(b.t.Context()); err != nil || len(got) > 0 || b.count("/services") > 0 {
			t.Errorf("a worker: %v, %v", got, err)
		}
		b.info.Swarm.ControlAvailable = true
		got, err := b.w.SwarmServices(b.t.Context())
		want := []SwarmService{
			{Service{"shop", "web"}, []VirtualAddress{{netip.MustParseAddr("10.0.0.9"), "none"}, {netip.MustParseAddr("10.0.1.2"), "unknown"}}},
			{Service{noStack, "db"}, []VirtualAddress{{netip.MustParseAddr("fd00::5"), "none"}}},
		}
		if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); diff != "" || err != nil {
			t.Errorf("a manager: %v (-want +got)\n%s", err, diff)
		}
		b.breakWith(func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		if _, err := b.w.SwarmServices(b.t.Context()); err == nil {
			t.Error("a swarm without a majority has services")
		}
	})
}
