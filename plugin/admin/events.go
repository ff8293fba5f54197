package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/ringlet/ringlet/plugin/events"
)

const (
	// heartbeat is how long a stream says nothing at most: less than what
	// proxies take for dead.
	heartbeat = 15 * time.Second
	// reconnect is how long a client whose stream broke waits before it comes
	// again.
	reconnect = 2 * time.Second
)

// endKey names, in the context of a request, the channel that is closed when
// the server ends.
type endKey struct{}

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
func (s *Server) events(_ context.Context, r *request) (answer, error) {
	want, err := wantedBy(r)
	if err != nil {
		return answer{}, err
	}
	if r.http.Method == http.MethodHead {
		want.follow = false
	}
	select {
	case s.streams <- struct{}{}:
	default:
		return answer{}, problem(http.StatusServiceUnavailable, CodeBusy, "%d clients follow the events already: try again later", MaxStreams)
	}
	return answer{stream: func(w http.ResponseWriter, r *http.Request) error {
		defer func() { <-s.streams }()
		e := &eventStream{w: w, out: http.NewResponseController(w), reader: s.cfg.Events.Read(want.after), want: want, at: want.after}
		return e.run(r.Context())
	}}, nil
}

// wantedBy reads what a client asks for. Last-Event-ID, which browsers send
// when they come again, stands above the parameter.
func wantedBy(r *request) (want wanted, err error) {
	since := r.query.Get("since")
	if last := r.http.Header.Get("Last-Event-ID"); last != "" {
		since = last
	}
	if since != "" {
		if want.after, err = events.ParseID(since); err != nil {
			return want, badRequest("%v", err)
		}
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
	known := events.Kinds()
	for _, k := range want.kinds {
		if !slices.Contains(known, k) {
			slices.Sort(known)
			return want, badRequest("%q is no kind of event: there are %s", k, strings.Join(known, ", "))
		}
	}
	if pool := r.query.Get("pool"); pool != "" {
		want.pool, err = parseCIDR(pool)
	}
	return want, err
}

// fits reports whether an event is wanted.
func (w wanted) fits(e *events.Event) bool {
	return (len(w.kinds) == 0 || slices.Contains(w.kinds, e.Kind)) && (!w.pool.IsValid() || w.pool == e.Pool)
}

// eventStream is one client that is sent events.
type eventStream struct {
	w      http.ResponseWriter
	out    *http.ResponseController
	reader *events.Reader
	want   wanted
	at     events.ID // up to which the client has what it wants
}

// run sends events until the client or the server ends, or does not read. An
// error is one of the connection.
func (s *eventStream) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if end, ok := ctx.Value(endKey{}).(<-chan struct{}); ok {
		go func() {
			select {
			case <-end:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	s.w.Header().Set("Content-Type", "text/event-stream")
	// The server's deadline for reading a request would end the stream.
	_ = s.out.SetReadDeadline(time.Time{}) // a recorder in a test has none
	if err := s.send(fmt.Appendf(nil, "retry: %d\n\n", reconnect.Milliseconds())); err != nil {
		return err
	}
	for ctx.Err() == nil {
		text, err := s.next(ctx)
		if err != nil {
			return nil // the client's end, the server's, or that of what there is
		}
		if err := s.send(text); err != nil {
			return err
		}
	}
	return nil
}

// errNoMore is returned when a client that does not follow has everything.
var errNoMore = errors.New("no more events")

// next returns what to send next, which may be empty.
func (s *eventStream) next(ctx context.Context) ([]byte, error) {
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
		s.at = events.ID{Boot: gap.Before.Boot, Number: gap.Before.Number - 1}
		return message("gap", s.at, Gap{After: gap.After, Before: gap.Before}), nil
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Appendf(nil, "id: %v\n\n", s.at), nil // nothing happened: a sign of life, which moves no client
	}
	if err != nil {
		return nil, err
	}
	var text []byte
	for i := range list {
		if s.at = list[i].ID; s.want.fits(&list[i]) {
			text = append(text, message("", s.at, &list[i])...)
		}
	}
	return text, nil
}

// message is an event on the wire.
func message(name string, id events.ID, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // only a new type of event can do that, and the tests send each
	}
	out := fmt.Appendf(nil, "id: %v\n", id)
	if name != "" {
		out = fmt.Appendf(out, "event: %s\n", name)
	}
	return fmt.Appendf(out, "data: %s\n\n", text)
}

// send writes to the client, who has as long for it as for any answer.
func (s *eventStream) send(text []byte) error {
	_ = s.out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.out.Flush()
}
