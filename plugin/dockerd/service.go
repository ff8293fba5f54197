package dockerd

import (
	"context"
	"errors"
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

// Services tells of which service each of some containers is one; those that
// the engine does not have are left out. It is one call for their entries in the
// engine's list, which it answers from what it has at hand, also for a container
// that it is just starting: looking at the container itself would wait for that.
// It is safe for concurrent use.
func (w *Watcher) Services(ctx context.Context, ids []string) (map[string]Service, error) {
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
	out := map[string]Service{}
	for _, c := range list {
		out[c.ID] = serviceOf(c.Labels)
	}
	return out, nil
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
