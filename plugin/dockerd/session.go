package dockerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/ringlet/ringlet/internal/backoff"
)

// session is one connection to an engine, from the first ping to the end of
// its event stream. Another engine version behind the same socket is another
// session, so what is negotiated and learned here never goes stale.
type session struct {
	*Watcher
	cli     *client.Client
	engine  system.Info
	names   []string
	hints   chan struct{}   // of size one: something may have changed
	broken  chan error      // of size one: why the event stream ended
	retry   backoff.Backoff // between looks that failed
	known   bool            // whether others were told of this session
	last    []Network       // the last complete look, to log changes only
	looked  bool            // whether last means anything
	took    time.Duration   // how long the last look took
	endedAt time.Time       // when it ended
}

// session connects, subscribes, and looks until the connection is no good any
// more; the error says why.
func (w *Watcher) session(ctx context.Context, deliver Deliver) error {
	cli, err := client.NewClientWithOpts(
		client.WithHost("unix://"+w.cfg.Socket),
		client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) { return w.cfg.dial(ctx) }),
	)
	if err != nil {
		return fmt.Errorf("the docker client refused the socket %s: %w", w.cfg.Socket, err)
	}
	defer cli.Close()

	s := &session{
		Watcher: w,
		cli:     cli,
		hints:   make(chan struct{}, 1),
		broken:  make(chan error, 1),
		retry:   w.pause(),
	}
	if err := s.connect(ctx); err != nil {
		return err
	}
	w.cli.Store(cli)
	defer w.cli.Store(nil)

	ctx, cancel := context.WithCancel(ctx)
	var listener sync.WaitGroup
	defer listener.Wait()
	defer cancel()
	if err := s.subscribe(ctx, &listener); err != nil {
		return err
	}
	return s.loop(ctx, deliver)
}

// connect finds out whom we talk to and what we are called there.
func (s *session) connect(ctx context.Context) error {
	// The client forgets why a connection failed, and that is all a person
	// wants to know; so try once without it.
	if err := s.knock(ctx); err != nil {
		return err
	}
	ping, err := call(ctx, s.cfg.Timeout, pingPath, s.cli.Ping)
	if err != nil {
		return err
	}
	s.cli.NegotiateAPIVersionPing(ping)
	if s.engine, err = call(ctx, s.cfg.Timeout, "/info", s.cli.Info); err != nil {
		return err
	}
	return s.learnNames(ctx)
}

// pingPath is what an engine answers as soon as it serves its API.
const pingPath = "/_ping"

// knock opens a connection to the socket and closes it.
func (s *session) knock(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	conn, err := s.cfg.dial(ctx)
	if err != nil {
		return explainDial(s.cfg.Socket, err)
	}
	return conn.Close()
}

// learnNames asks for the name that this plugin was installed under, tag
// included: it is the driver name in its networks.
func (s *session) learnNames(ctx context.Context) error {
	s.names = slices.Clone(s.cfg.Names)
	if s.cfg.Plugin != "" {
		self, err := call(ctx, s.cfg.Timeout, "/plugins/"+s.cfg.Plugin+"/json", func(ctx context.Context) (*types.Plugin, error) {
			p, _, err := s.cli.PluginInspectWithRaw(ctx, s.cfg.Plugin)
			return p, err
		})
		switch {
		case errdefs.IsNotFound(err) && len(s.names) > 0:
			s.log.Info("plugin not known to the docker engine", slog.String("plugin", s.cfg.Plugin))
		case errdefs.IsNotFound(err):
			return fmt.Errorf("the docker engine on %s does not know this plugin: %w: %w", s.cfg.Socket, errStranger, err)
		case err != nil:
			return err
		case self.Name == "":
			return fmt.Errorf("the docker engine gave no name for plugin %s", s.cfg.Plugin)
		default:
			s.names = append(s.names, self.Name)
		}
	}
	slices.Sort(s.names)
	s.names = slices.Compact(s.names)
	return nil
}

// connected makes the new connection known. That waits for the first look: an
// engine that answers pings but not that question, or refuses its event
// stream, would otherwise seem to come and go for ever, and hide why.
func (s *session) connected(ctx context.Context) {
	if s.known || len(s.broken) > 0 {
		return
	}
	s.known = true
	s.log.LogAttrs(ctx, slog.LevelInfo, "docker engine connected",
		slog.String("engine", s.engine.ID),
		slog.String("engine_version", s.engine.ServerVersion),
		slog.String("api_version", s.cli.ClientVersion()),
		slog.Any("drivers", s.names))
	s.change(func(st *State) {
		st.Connected, st.Since, st.LastError = true, time.Now(), ""
		st.Engine, st.EngineVersion, st.APIVersion = s.engine.ID, s.engine.ServerVersion, s.cli.ClientVersion()
		st.Names = slices.Clone(s.names)
	})
}

// loop looks at once, and then whenever a look is due.
func (s *session) loop(ctx context.Context, deliver Deliver) error {
	again, err := s.look(ctx, deliver)
	if err != nil {
		return err
	}
	timer := time.NewTimer(again)
	defer timer.Stop()
	due := time.Now().Add(again)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.broken:
			if errors.Is(err, io.EOF) {
				return errors.New("the docker engine closed its event stream: it is stopping or restarting")
			}
			return fmt.Errorf("the docker engine's event stream broke: %w", err)
		case <-s.hints:
			due = s.sooner(due)
		case <-s.recheck:
			due = s.sooner(due)
		case <-s.asks:
			s.answerAsked(ctx)
		case <-timer.C:
			again, err := s.look(ctx, deliver)
			if err != nil {
				return err
			}
			due = time.Now().Add(again)
		}
		timer.Reset(time.Until(due))
	}
}

// answerIfAsked has the networks listed if that was asked for meanwhile.
func (s *session) answerIfAsked(ctx context.Context) {
	select {
	case <-s.asks:
		s.answerAsked(ctx)
	default:
	}
}

func (s *session) answerAsked(ctx context.Context) {
	if s.asked != nil {
		s.asked(ctx, s.networks)
	}
}

// networks lists the networks that are ours, without their endpoints. Of one whose driver the list does not tell it asks
// the engine.
func (s *session) networks(ctx context.Context) ([]Network, error) {
	listed, err := s.list(ctx)
	if err != nil {
		return nil, err
	}
	var inv Inventory
	for _, n := range listed {
		if s.ours(n) {
			err = s.add(n, &inv)
		} else {
			err = s.inspect(ctx, n, &inv)
		}
		if err != nil {
			return nil, err
		}
	}
	return inv.Networks, nil
}

// sooner returns when to look because of a hint, if not at due already. Hints
// that keep coming do not move the moment away, and looks that are slow leave
// the engine three quarters of its time.
func (s *session) sooner(due time.Time) time.Time {
	soon := time.Now().Add(s.cfg.Debounce)
	if free := s.endedAt.Add(min(3*s.took, s.cfg.Interval)); free.After(soon) {
		soon = free
	}
	if soon.Before(due) {
		return soon
	}
	return due
}

// list returns the networks that are ours, or may be, and may hold an address.
func (s *session) list(ctx context.Context) ([]network.Summary, error) {
	all, err := call(ctx, s.cfg.Timeout, "/networks", func(ctx context.Context) ([]network.Summary, error) {
		return s.cli.NetworkList(ctx, network.ListOptions{})
	})
	if err != nil {
		return nil, err
	}
	// Every engine has networks of its own. An empty answer is one that is not
	// ready, or not an engine's, and would make all our addresses look free.
	if len(all) == 0 {
		return nil, errors.New("the docker engine listed no network, not even its own: not believed, it will be asked again")
	}
	return slices.DeleteFunc(all, func(n network.Summary) bool { return n.ConfigOnly || !s.ours(n) && n.ConfigFrom.Network == "" }), nil
}

// ours reports whether a network has our IPAM driver. Of one that is made from
// a config-only network the list of a swarm's manager does not tell, as it has
// the swarm's view of it; the network itself does, on a node that has a part.
func (s *session) ours(n network.Inspect) bool { return slices.Contains(s.names, n.IPAM.Driver) }
