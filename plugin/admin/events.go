package admin

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/ringlet/ringlet/plugin/events"
)

// Gap is the data of the event "gap": a client's stream does not go on where
// it was, since what followed is kept no more.
type Gap struct {
	After  events.ID `json:"after"`  // the last event that the client had
	Before events.ID `json:"before"` // the first one that comes now
}

// wanted is which events a client asked for.
type wanted struct {
	after  events.ID
	follow bool
	kinds  []string // empty: all
	pool   netip.Prefix
}

func (s *Server) eventsRoute() route {
	return route{
		method: http.MethodGet, path: "/v1/events", call: "events", query: []string{"since", "follow", "kind", "pool"},
		instant: true, handle: s.events,
	}
}

// events answers with a stream of events, and with one more place taken until
// it ends.
func (s *Server) events(ctx context.Context, r *request) (answer, error) {
	want, err := wantedBy(r)
	if err != nil {
		return answer{}, err
	}
	if pool := r.query.Get("pool"); pool != "" {
		if want.pool, err = s.subnetOf(ctx, pool); err != nil {
			return answer{}, err
		}
	}
	if r.http.Method == http.MethodHead {
		want.follow = false
	}
	return s.follow(&eventFeed{reader: s.cfg.Events.Read(want.after), crowd: s.crowd, want: want, at: want.after})
}

// wantedBy reads what a client asks for.
func wantedBy(r *request) (want wanted, err error) {
	if want.after, err = lastSeen(r); err != nil {
		return want, err
	}
	switch v := r.query.Get("follow"); v {
	case "", "true":
		want.follow = true
	case "false":
	default:
		return want, badRequest("follow is true or false, not %q", v)
	}
	if list := r.query.Get("kind"); list != "" {
		want.kinds = strings.Split(list, ",")
	}
	known := slices.Sorted(maps.Keys(events.Kinds()))
	for _, k := range want.kinds {
		if !slices.Contains(known, k) {
			return want, badRequest("%q is no kind of event; the kinds are %s", k, strings.Join(known, ", "))
		}
	}
	return want, nil
}

// fits reports whether an event is wanted.
func (w wanted) fits(e *events.Event) bool {
	return (len(w.kinds) == 0 || slices.Contains(w.kinds, e.Kind)) && (!w.pool.IsValid() || w.pool == e.Pool)
}

// errNoMore is returned when a client that does not follow has everything.
var errNoMore = errors.New("no more events")

// eventFeed is what one client is sent of the events.
type eventFeed struct {
	reader *events.Reader
	crowd  *crowd
	want   wanted
	at     events.ID // up to which the client has what it wants
}

// seen implements [feed].
func (s *eventFeed) seen() events.ID { return s.at }

// next implements [feed].
func (s *eventFeed) next(ctx context.Context) ([]byte, error) {
	wait, cancel := context.WithTimeoutCause(ctx, heartbeat, nil)
	defer cancel()
	var list []events.Event
	var err error
	if s.want.follow {
		list, err = s.reader.Next(wait)
	} else if list, err = s.reader.Kept(); err == nil && len(list) == 0 {
		return nil, errNoMore
	}
	if gap, ok := errors.AsType[*events.GapError](err); ok {
		s.at = gap.Before
		s.at.Number--
		return message("gap", s.at, Gap{After: gap.After, Before: gap.Before}), nil
	}
	if err != nil {
		return nil, ctx.Err() // or nothing happens
	}
	var text []byte
	err = s.crowd.do(ctx, func() {
		for i := range list {
			if s.at = list[i].ID; s.want.fits(&list[i]) {
				text = append(text, message("", s.at, &list[i])...)
			}
		}
	})
	return text, err
}
