package dockerd

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/nat"
)

// Service is what a container is one of: a service of a compose project, or of
// a Swarm stack. The zero Service is none.
type Service struct {
	Namespace string // the project or the stack; swarm for a service without a stack
	Name      string
}

// The labels from which a service is told.
const (
	labelProject      = "com.docker.compose.project"
	labelService      = "com.docker.compose.service"
	labelStack        = "com.docker.stack.namespace"
	labelSwarmService = "com.docker.swarm.service.name"
	noStack           = "swarm"
)

// errNoEngine is returned when there is no connection to ask on.
var errNoEngine = errors.New("the docker engine is not connected")

// errNoPorts is returned where the engine tells of a container without its configuration.
var errNoPorts = errors.New("the docker engine told of a container without its configuration")

// Container is what the engine tells of a container.
type Container struct {
	Service Service
	Labels  map[string]string // those that [Config].Labels names; nil: it has none of them
	Swarm   bool              // Service is one of a swarm
	Started bool              // it has started, and so Ports are known
	Ports   []Port            // of a container of a service: those that it exposes, in order; else nil
}

// Port is where a container listens, as its image, its creator or its published ports say.
type Port struct {
	Port     uint16
	Protocol string // tcp, udp or sctp
}

// portsTime is how long the engine has to tell of one container.
const portsTime = 500 * time.Millisecond

// Containers tells of each of some containers what its labels say, and of those
// of a service that have started which ports they expose; those that the engine
// does not have are left out. The labels are from one call for their entries in the
// engine's list, which it answers from what it has at hand, also for a container
// that it is just starting: looking at the container itself would wait for that.
// The ports of a container are only there. So it looks at those that have started,
// and leaves out the ports of one of which the engine does not tell in time.
// It is safe for concurrent use.
func (w *Watcher) Containers(ctx context.Context, ids []string) (map[string]Container, error) {
	cli := w.cli.Load()
	if cli == nil {
		return nil, errNoEngine
	}
	which := filters.NewArgs()
	for _, id := range ids {
		which.Add("id", id)
	}
	list, err := call(ctx, w.cfg.Timeout, "/containers/json", func(ctx context.Context) ([]container.Summary, error) {
		return cli.ContainerList(ctx, container.ListOptions{All: true, Filters: which})
	})
	if err != nil {
		return nil, err
	}
	out := map[string]Container{}
	for _, c := range list {
		this := Container{Service: serviceOf(c.Labels), Labels: w.cfg.chosen(c.Labels), Swarm: c.Labels[labelSwarmService] != ""}
		if this.Service != (Service{}) && c.State == container.StateRunning {
			ports, err := w.ports(ctx, cli, c.ID)
			this.Started, this.Ports = err == nil, ports
		}
		out[c.ID] = this
	}
	return out, nil
}

// ports returns the ports that a container exposes or publishes. The engine's list has them only as far as the network driver
// tells them, and the drivers of macvlan and ipvlan tell none.
func (w *Watcher) ports(ctx context.Context, cli *client.Client, id string) (out []Port, err error) {
	c, err := call(ctx, min(portsTime, w.cfg.Timeout), "/containers/"+id+"/json", func(ctx context.Context) (container.InspectResponse, error) {
		return cli.ContainerInspect(ctx, id)
	})
	if err != nil || c.Config == nil || c.ContainerJSONBase == nil {
		return nil, cmp.Or(err, errNoPorts)
	}
	add := func(p nat.Port) {
		n, err := strconv.ParseUint(p.Port(), 10, 16)
		if port := (Port{uint16(n), p.Proto()}); err == nil && n > 0 && !slices.Contains(out, port) {
			out = append(out, port)
		}
	}
	for p := range c.Config.ExposedPorts {
		add(p)
	}
	if c.HostConfig != nil {
		for p := range c.HostConfig.PortBindings {
			add(p)
		}
	}
	slices.SortFunc(out, func(a, b Port) int { return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Protocol, b.Protocol)) })
	return out, nil
}

// chosen returns the labels that count.
func (c Config) chosen(labels map[string]string) (out map[string]string) {
	for name, value := range labels {
		counts := slices.ContainsFunc(c.Labels, func(want string) bool {
			begin, isPrefix := strings.CutSuffix(want, "*")
			return name == want || isPrefix && strings.HasPrefix(name, begin)
		})
		if !counts {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

// serviceOf reads the labels of a container. Compose sets those of its own also
// where a stack was deployed from its file.
func serviceOf(labels map[string]string) Service {
	s := Service{Namespace: labels[labelProject], Name: labels[labelService]}
	if swarm := labels[labelSwarmService]; swarm != "" {
		s = Service{Namespace: labels[labelStack], Name: swarm}
		if s.Namespace != "" {
			s.Name = strings.TrimPrefix(swarm, s.Namespace+"_")
		} else {
			s.Namespace = noStack
		}
	}
	if s.Namespace == "" || s.Name == "" {
		return Service{}
	}
	return s
}
