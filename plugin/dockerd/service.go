package dockerd

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
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

// Container is what the labels of a container say.
type Container struct {
	Service Service
	Labels  map[string]string // those that [Config].Labels names; nil: it has none of them
}

// Containers tells what the labels of each of some containers say; those that
// the engine does not have are left out. It is one call for their entries in the
// engine's list, which it answers from what it has at hand, also for a container
// that it is just starting: looking at the container itself would wait for that.
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
		out[c.ID] = Container{Service: serviceOf(c.Labels), Labels: w.cfg.chosen(c.Labels)}
	}
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
