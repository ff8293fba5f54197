package dockerd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/ringlet/ringlet/internal/logattr"
)

// maxRounds is how often one look goes back to the list for networks that
// were created meanwhile. Two is the normal case, the second without news.
const maxRounds = 4

// look takes an inventory and delivers it. It returns the time until the next
// look at the latest, or an error if the connection is no good any more.
func (s *session) look(ctx context.Context, deliver Deliver) (time.Duration, error) {
	// What was asked for until now is served by this look.
	drain(s.hints)
	drain(s.recheck)

	if s.ahead != nil {
		s.ahead(ctx)
	}
	inv, problem := s.take(ctx)
	s.took, s.endedAt = inv.Ended.Sub(inv.Begun), inv.Ended
	if !gone(problem) {
		s.connected(ctx)
	}
	var again time.Duration
	var refused error
	if inv.Listed || len(inv.Networks) > 0 { // else nothing was seen
		again, refused = deliver(ctx, inv)
	}
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case gone(problem):
		return 0, problem
	}
	s.report(inv, problem, refused)
	return s.pause(again, problem == nil && refused == nil), nil
}

// take asks the engine for all our networks. The error says why the inventory
// is not complete.
func (s *session) take(ctx context.Context) (Inventory, error) {
	inv := Inventory{
		Begun:         time.Now(),
		Engine:        s.engine.ID,
		EngineVersion: s.engine.ServerVersion,
	}
	err := s.collect(ctx, &inv)
	inv.Complete = err == nil
	inv.Ended = time.Now()
	slices.SortFunc(inv.Networks, func(a, b Network) int { return cmp.Compare(a.ID, b.ID) })
	return inv, err
}

// collect fills in the networks, going on after a failure that concerns one of
// them only: what can be seen is worth having, as it is in use.
func (s *session) collect(ctx context.Context, inv *Inventory) error {
	var errs []error
	seen := map[string]bool{}
	inv.Listed = true
	for range maxRounds {
		listed, err := s.list(ctx)
		if err != nil {
			inv.Listed = false
			return errors.Join(append(errs, err)...)
		}
		news, silent := false, false
		for _, n := range listed {
			if seen[n.ID] {
				continue
			}
			seen[n.ID], news = true, true
			if !silent {
				s.answerIfAsked(ctx)
				err := s.inspect(ctx, n, inv)
				silent = gone(err)
				if err == nil {
					continue
				}
				errs = append(errs, err)
			}
			// What the list tells of it is worth having.
			inv.Listed = inv.Listed && s.ours(n) && (has(inv, n.ID) || s.add(n, inv) == nil)
		}
		if !news || silent {
			return errors.Join(errs...)
		}
	}
	inv.Listed = false
	errs = append(errs, fmt.Errorf("networks were created faster than they could be listed, %d times in a row", maxRounds))
	return errors.Join(errs...)
}

// inspect adds one network. One that was removed since it was listed is not
// an error: its endpoints went before it did.
func (s *session) inspect(ctx context.Context, listed network.Summary, inv *Inventory) error {
	id := listed.ID
	what := "/networks/" + id
	answer, err := call(ctx, s.cfg.Timeout, what, func(ctx context.Context) (network.Inspect, error) {
		return s.cli.NetworkInspect(ctx, id, network.InspectOptions{})
	})
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case err != nil:
		return err
	case answer.ID != id:
		return fmt.Errorf("the docker engine answered %s with network %.64q: not believed", what, answer.ID)
	case answer.ConfigFrom.Network != "" && !s.ours(answer):
		return nil
	}
	return s.add(answer, inv)
}

// add adds a network as the engine tells of it. The error says what of it could not be read.
func (s *session) add(answer network.Inspect, inv *Inventory) error {
	n, err := parseNetwork(answer)
	inv.Networks = append(inv.Networks, n)
	inv.Unreadable += n.Unreadable
	return err
}

// has reports whether an inventory has a network.
func has(inv *Inventory, id string) bool {
	return slices.ContainsFunc(inv.Networks, func(n Network) bool { return n.ID == id })
}

// pause returns the time to the next look. After a failure it is short and
// growing, and never longer than what the consumer wants.
func (s *session) pause(again time.Duration, fine bool) time.Duration {
	wait := s.cfg.Interval
	if fine {
		s.retry.Reset()
	} else {
		wait = min(wait, s.retry.Next())
	}
	if again > 0 {
		// Not below the debounce time, or a consumer with a rounding error
		// would keep the engine busy.
		wait = min(wait, max(again, s.cfg.Debounce))
	}
	return wait
}

// report records a look, and logs it if it brought something new.
func (s *session) report(inv Inventory, problem, refused error) {
	text := ""
	if err := cmp.Or(problem, refused); err != nil {
		text = err.Error()
		if text != s.state.Load().LastError {
			s.log.Warn("inventory not usable", logattr.Err(err), slog.Int("unreadable", inv.Unreadable))
		}
	}
	s.change(func(st *State) {
		if s.known { // else the state keeps saying why there is no connection
			st.LastError = text
			switch {
			case text == "":
				st.Failing = time.Time{}
			case st.Failing.IsZero():
				st.Failing = time.Now()
			}
		}
		if inv.Complete {
			st.LastLook, st.Took = inv.Ended, s.took
		}
	})
	if !inv.Complete || s.looked && reflect.DeepEqual(s.last, inv.Networks) {
		return
	}
	s.last, s.looked = inv.Networks, true
	endpoints := 0
	for _, n := range inv.Networks {
		endpoints += len(n.Endpoints)
	}
	s.log.Debug("inventory changed",
		slog.Int("networks", len(inv.Networks)),
		slog.Int("endpoints", endpoints),
		logattr.Took(s.took))
}

func drain(c <-chan struct{}) {
	select {
	case <-c:
	default:
	}
}
