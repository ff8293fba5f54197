package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
	// maxStreamTime is how long a stream lasts at most: others may wait for its
	// place. Its client comes again, and goes on where it was.
	maxStreamTime = time.Hour
)

// endKey names, in the context of a request, the channel that is closed when
// the server ends.
type endKey struct{}

// feed is what one client of a stream is sent.
type feed interface {
	// next returns what to send next, which may be empty. It waits for no longer
	// than a heartbeat. An error ends the stream.
	next(ctx context.Context) ([]byte, error)
	// seen is up to which event the client has what it wants, also of those that
	// it was not sent; zero where it could not go on there.
	seen() events.ID
}

// lastSeen reads after which event a client goes on. Last-Event-ID, which
// browsers send when they come again, stands above the parameter.
func lastSeen(r *request) (events.ID, error) {
	since := r.query.Get("since")
	if last := r.http.Header.Get("Last-Event-ID"); last != "" {
		since = last
	}
	if since == "" {
		return events.ID{}, nil
	}
	id, err := events.ParseID(since)
	if err != nil {
		return id, badRequest("%v", err)
	}
	return id, nil
}

// follow answers with a stream of server-sent events, and takes one of the
// places for streams until it ends.
func (s *Server) follow(f feed) (answer, error) {
	select {
	case s.streams <- struct{}{}:
	default:
		return answer{}, problem(http.StatusServiceUnavailable, CodeBusy, "%d clients follow the events already: try again later", MaxStreams)
	}
	return answer{stream: func(w http.ResponseWriter, r *http.Request) error {
		defer func() { <-s.streams }()
		e := &eventStream{w: w, out: http.NewResponseController(w), feed: f}
		return e.run(r.Context())
	}}, nil
}

// eventStream is one client that is sent events.
type eventStream struct {
	w    http.ResponseWriter
	out  *http.ResponseController
	feed feed
}

// run sends events until the client or the server ends, or does not read. An
// error is one of the connection.
func (s *eventStream) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxStreamTime)
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
	for sent := time.Now(); ctx.Err() == nil; {
		text, err := s.feed.next(ctx)
		if err != nil {
			return nil // the client's end, the server's, or that of what there is
		}
		if len(text) == 0 {
			if time.Since(sent) < heartbeat { // what happens is not for this client
				continue
			}
			text = alive(s.feed.seen())
		}
		if err := s.send(text); err != nil {
			return err
		}
		sent = time.Now()
	}
	return nil
}

// message is an event on the wire. One without an ID moves no client.
func message(name string, id events.ID, data any) []byte {
	text, err := json.Marshal(data)
	if err != nil {
		panic(err) // only a new type of event can do that, and the tests send each
	}
	var out []byte
	if !id.IsZero() {
		out = fmt.Appendf(out, "id: %v\n", id)
	}
	if name != "" {
		out = fmt.Appendf(out, "event: %s\n", name)
	}
	return fmt.Appendf(out, "data: %s\n\n", text)
}

// alive is a sign of life while nothing happens that a client wants. It lets the
// client go on from there later, if it can.
func alive(at events.ID) []byte {
	if at.IsZero() {
		return []byte(":\n\n")
	}
	return fmt.Appendf(nil, "id: %v\n\n", at)
}

// send writes to the client, who has as long for it as for any answer.
func (s *eventStream) send(text []byte) error {
	_ = s.out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(text); err != nil {
		return err
	}
	return s.out.Flush()
}
