package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ringlet/ringlet/internal/logattr"
)

// request is what a handler sees of an HTTP request.
type request struct {
	http  *http.Request // for its path
	query url.Values
	body  []byte
	whole context.Context // until its answer is written, for what is made meanwhile
	holds *holds          // until then
}

// answer is what a handler has to say; the zero status means 200.
type answer struct {
	status   int
	body     any    // encoded as JSON, a string as text; nil for none
	location string // of what was made
	// list is a JSON array in place of a body: the texts of its elements in
	// portions, each of which begins with a comma unless it is empty or the first.
	list   iter.Seq2[[]byte, error]
	stream stream // in place of a body: is called last
	page   *page  // in place of a body: what another handler says

	text []byte // the body, encoded
	kind string // its media type
}

// stream writes an answer that has no end of its own, until its request or
// the server ends.
type stream func(w http.ResponseWriter, r *http.Request) error

// handler answers a request. ctx has the request's deadline.
type handler func(ctx context.Context, r *request) (answer, error)

// serve returns the HTTP handler of a route.
func (s *Server) serve(rt route) http.Handler {
	return s.respond(rt.call, func(w http.ResponseWriter, r *http.Request, id string, h *holds) (answer, error) {
		var allowed *allowed
		a, err := s.answer(rt, w, r, id, h, &allowed)
		if allowed != nil {
			s.audit(rt, r, id, allowed.body, err)
		}
		return a, err
	})
}

// respond writes what f answers, or the problem that its error is, and tells
// log and metrics of it. id names the request. What f holds is given back when the
// answer is written.
func (s *Server) respond(call string, f func(w http.ResponseWriter, r *http.Request, id string, h *holds) (answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, id := time.Now(), s.nextID()
		header := w.Header()
		header.Set("X-Request-Id", id)
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")

		var h holds
		defer h.free()
		result := "ok"
		a, err := f(w, r, id, &h)
		if err != nil {
			p, known := problemOf(err, s.cfg.Timeout)
			p.Instance, result = id, p.Code
			if r.Context().Err() != nil {
				result = "gone" // the client, and nobody reads the answer
			} else if !known {
				p.Detail += " (request " + id + ")"
				s.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "admin request failed",
					logattr.Request(id), logattr.Kind(call), logattr.Err(err))
			}
			if p.Status == http.StatusServiceUnavailable {
				header.Set("Retry-After", "1") // second
			}
			h.free() // an error is short
			a = answer{status: p.Status, text: encode(p), kind: "application/problem+json"}
		}
		took := time.Since(begun) // to the answer, not until it is written
		s.cfg.Observe(call, result, took)
		if a.stream != nil {
			h.free() // a stream has a place of its own
			err = a.stream(w, r)
		} else {
			err = s.write(w, r, a)
		}
		if err != nil {
			s.cfg.Logger.LogAttrs(r.Context(), slog.LevelDebug, "admin answer could not be sent",
				logattr.Request(id), logattr.Kind(call), logattr.Err(err))
		}
		s.cfg.Logger.LogAttrs(r.Context(), slog.LevelDebug, "admin request answered",
			logattr.Request(id), logattr.Kind(call), slog.String("result", result), logattr.Took(took))
		if err != nil && a.list != nil {
			panic(http.ErrAbortHandler) // else half a list could be taken for all of it
		}
	})
}

// allowed is a write whose sender may write.
type allowed struct{ body []byte }

// answer checks the request, lets the route answer it, and encodes that. It says so
// where the request is a write of somebody who may write.
func (s *Server) answer(rt route, w http.ResponseWriter, r *http.Request, id string, h *holds, write **allowed) (a answer, err error) {
	defer func() {
		if v := recover(); v != nil {
			s.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "admin request panicked", logattr.Request(id),
				logattr.Kind(rt.call), slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
			a, err = answer{}, problem(http.StatusInternalServerError, CodeInternal, "internal error, see the plugin log (request %s)", id)
		}
	}()
	if rt.write {
		if err := s.mayWrite(w, r); err != nil {
			return answer{}, err
		}
		*write = &allowed{}
	}
	var query url.Values
	if !rt.anyQuery {
		if query, err = parseQuery(r.URL.RawQuery, rt.query); err != nil {
			return answer{}, err
		}
	}
	body, err := readBody(w, r)
	if err != nil {
		return answer{}, err
	}

	if rt.write {
		(*write).body = body
	}
	if s.cfg.Remote && rt.local != nil {
		if why := rt.local(body); why != "" {
			return answer{}, problem(http.StatusForbidden, CodeReadOnly, "%s", why)
		}
	}

	ctx := r.Context()
	if s.cfg.Context != nil {
		ctx = s.cfg.Context(ctx)
	}
	whole, end := context.WithTimeout(ctx, maxListTime)
	h.add(end)
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	// The body is read by now: a client that sends slowly has no place.
	if !rt.instant && !s.places.take(ctx, h) {
		return answer{}, problem(http.StatusServiceUnavailable, CodeBusy,
			"%d requests are being answered, and none was done within %v: try again", MaxRequests, s.cfg.Timeout)
	}
	a, err = rt.handle(ctx, &request{http: r, query: query, body: body, whole: whole, holds: h})
	if rt.write {
		s.wrote.Store(time.Now().UnixNano())
	}
	if err != nil {
		return answer{}, err
	}
	return a, s.encode(ctx, &a, h)
}

// encode makes the text of an answer, and the first portion of a list, the errors of
// which are those of the answer.
func (s *Server) encode(ctx context.Context, a *answer, h *holds) error {
	switch body := a.body.(type) {
	case nil:
	case string:
		a.kind, a.text = "text/plain; charset=utf-8", []byte(body)
	default:
		a.kind = "application/json"
		if err := s.crowd.do(ctx, func() { a.text = encode(body) }); err != nil {
			return err
		}
	}
	if a.list != nil {
		next, stop := iter.Pull2(a.list)
		h.add(stop)
		first, err, _ := next()
		if err != nil {
			return err
		}
		a.kind, a.text = "application/json", append([]byte{'['}, first...)
		a.list = func(yield func([]byte, error) bool) {
			for text, err, ok := next(); ok; text, err, ok = next() {
				if !yield(text, err) {
					return
				}
			}
		}
	}
	if a.page != nil {
		a.text = a.page.text.Bytes()
	}
	if !s.underWay.take(len(a.text), h) {
		return problem(http.StatusServiceUnavailable, CodeBusy, "answers of %d MiB wait for clients to read them: try again", maxUnderWay>>20)
	}
	return nil
}

// parseQuery returns the parameters, each of which must be known, be given
// once and have a value: "?for=" must not mean everybody.
func parseQuery(raw string, known []string) (url.Values, error) {
	q, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badRequest("the parameters cannot be read: %v", err)
	}
	for key, values := range q {
		switch {
		case !slices.Contains(known, key):
			if len(known) == 0 {
				return nil, badRequest("unknown parameter %q: this path takes none", key)
			}
			return nil, badRequest("unknown parameter %q: this path takes %s", key, strings.Join(known, ", "))
		case len(values) > 1:
			return nil, badRequest("parameter %q is given %d times: give it once", key, len(values))
		case values[0] == "":
			return nil, badRequest("parameter %q is empty: give it a value or leave it out", key)
		case !utf8.ValidString(values[0]):
			return nil, badRequest("parameter %q is not UTF-8: send it as UTF-8", key)
		}
	}
	return q, nil
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, problem(http.StatusRequestEntityTooLarge, CodeTooLarge, "the request's body has more than %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, badRequest("the request's body broke off")
	}
	return body, nil
}

// write sends the answer. An error of the connection is the client's doing or
// the end of the process, and nothing depends on it.
func (s *Server) write(w http.ResponseWriter, r *http.Request, a answer) error {
	h := w.Header()
	out := http.NewResponseController(w)
	// A client has so long for each part of an answer: what it does not read is kept.
	_ = out.SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder in a test has none
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.page != nil {
		maps.Copy(h, a.page.header)
		a.status = a.page.code
	}
	if a.kind != "" {
		h.Set("Content-Type", a.kind)
	}
	if a.list == nil && a.text != nil {
		h.Set("Content-Length", strconv.Itoa(len(a.text)))
	}
	w.WriteHeader(cmp.Or(a.status, http.StatusOK))
	if _, err := w.Write(a.text); err != nil || a.list == nil || r.Method == http.MethodHead {
		return err
	}
	for text, err := range s.guarded(r, a.list) {
		if err != nil {
			return err
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "]\n")
	return err
}

// guarded yields the portions of a list. A panic in one is its error.
func (s *Server) guarded(r *http.Request, list iter.Seq2[[]byte, error]) iter.Seq2[[]byte, error] {
	next, stop := iter.Pull2(list)
	portion := func() (text []byte, err error, ok bool) {
		defer func() {
			if v := recover(); v != nil {
				s.cfg.Logger.LogAttrs(r.Context(), slog.LevelError, "admin request panicked",
					slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
				text, err, ok = nil, fmt.Errorf("panic: %v", v), true
			}
		}()
		return next()
	}
	return func(yield func([]byte, error) bool) {
		defer stop()
		for text, err, ok := portion(); ok && yield(text, err); text, err, ok = portion() {
		}
	}
}

// encode panics for what is no JSON: only a new type in an answer can be
// that, and the tests send each.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}
