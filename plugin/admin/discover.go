package admin

import (
	"context"
	"iter"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/ringlet/ringlet/ipam"
)

// Target is one peer, or one container, for the HTTP service discovery of Prometheus, which asks
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
	containers, err := flag(r, "containers")
	if err != nil {
		return answer{}, err
	}
	host, port, err := net.SplitHostPort(r.http.Host)
	if err != nil {
		host = strings.Trim(r.http.Host, "[]") // as in http://[fd00::7]/
	}
	if asked := r.query.Get("port"); asked != "" {
		port = asked
	}
	if containers {
		port = r.query.Get("port") // nobody's but theirs
	}
	if n, err := strconv.ParseUint(port, 10, 16); (err != nil || n == 0) && containers {
		return answer{}, badRequest("name the port of the containers' metrics, a number from 1 to 65535: /sd/prometheus?containers=true&port=9100")
	} else if err != nil || n == 0 {
		return answer{}, badRequest("name the port of RINGLET_HTTP on all hosts, a number from 1 to 65535: /sd/prometheus?port=7951")
	}
	if containers && s.cfg.Directory == nil {
		return answer{body: []Target{}}, nil
	}
	if containers {
		if err := s.takeList(ctx, r, true); err != nil {
			return answer{}, err
		}
	}
	st, err := s.snapshot(ctx)
	if err != nil {
		return answer{}, err
	}
	if containers {
		places, err := s.clusterAddresses(ctx, &st, "")
		return listed(r.whole, s, s.containers(r.whole, places, port)), err
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

// containers lists the addresses that containers have in the whole cluster, as
// the directory knows. A container is listed once for each of its addresses.
func (s *Server) containers(ctx context.Context, places []place, port string) iter.Seq2[[]Target, error] {
	return func(yield func([]Target, error) bool) {
		for some := range slices.Chunk(places, placesAtOnce) {
			var targets []Target
			said, err := s.said(ctx, some)
			for _, h := range said {
				if h.State != "held" || h.Kind != "container" {
					continue
				}
				targets = append(targets, Target{
					Targets: []string{net.JoinHostPort(h.IP.String(), port)},
					Labels: map[string]string{
						"__meta_ringlet_container_id": h.Container, "__meta_ringlet_container_name": h.Name, "__meta_ringlet_container_mac": h.MAC,
						"__meta_ringlet_pool": h.Pool.String(), "__meta_ringlet_name": h.Node, "__meta_ringlet_id": h.Owner,
					},
				})
			}
			if !yield(targets, err) || err != nil {
				return
			}
		}
	}
}
