package admin

import (
	"context"
	"net"
	"net/netip"
	"strconv"

	"github.com/ringlet/ringlet/ipam"
)

// Target is one peer for the HTTP service discovery of Prometheus, which asks
// for a list of them.
type Target struct {
	Targets []string          `json:"targets"` // one: host:port
	Labels  map[string]string `json:"labels"`
}

// discover lists the peers of the cluster with the addresses of their metrics,
// also those that cannot be reached: who watches them wants to know. Their port
// is that of the request, or the one to which it came: RINGLET_HTTP, which is
// alike on all hosts then.
func (s *Server) discover(ctx context.Context, r *request) (answer, error) {
	host, port, err := net.SplitHostPort(r.http.Host)
	if err != nil {
		host = r.http.Host
	}
	if asked := r.query.Get("port"); asked != "" {
		port = asked
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return answer{}, badRequest("name the port of RINGLET_HTTP on all hosts, a number from 1 to 65535: /sd/prometheus?port=7951")
	}
	st, err := inOrder(s.cfg.Backend.Snapshot(ctx))
	if err != nil {
		return answer{}, err
	}
	targets := []Target{}
	for _, p := range st.Peers {
		at := p.Address
		if p.ID == st.Self.ID {
			at = net.JoinHostPort(host, port) // where this peer was just reached
		}
		if to, ok := target(p, at, port); ok {
			targets = append(targets, to)
		}
	}
	return answer{body: targets}, nil
}

// target returns a peer as a target; false if it is of the cluster no more, or
// nobody knows where it is.
func target(p ipam.PeerStatus, at, port string) (Target, bool) {
	host, _, err := net.SplitHostPort(at)
	if err != nil || host == "" || p.State == stateEvicted {
		return Target{}, false
	}
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.Unmap().String()
	}
	return Target{
		Targets: []string{net.JoinHostPort(host, port)},
		Labels: map[string]string{
			"__meta_ringlet_name": p.Name, "__meta_ringlet_id": p.ID, "__meta_ringlet_state": p.State,
			"__meta_ringlet_reachable": strconv.FormatBool(p.Reachable),
		},
	}, true
}
