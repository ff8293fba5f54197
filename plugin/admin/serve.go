package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
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
}

// answer is what a handler has to say; the zero status means 200.
type answer struct {
	status   int
	body     any    // encoded as JSON, a string as text; nil for none
	location string // of what was made
	stream   stream // instead of a body: is called last
}

// stream writes an answer that has no end of its own, until its request or
// the server ends.
type stream func(w http.ResponseWriter, r *http.Request) error

// handler answers a request. ctx has the request's deadline.
type handler func(ctx context.Context, r *request) (answer, error)

// serve returns the HTTP handler of a route.
func (s *Server) serve(rt route) http.Handler {
	return s.respond(rt.call, func(w http.ResponseWriter, r *http.Request, id string) (answer, error) {
		return s.answer(rt, w, r, id)
	})
}

// respond writes what f answers, or the problem that its error is, and tells
// log and metrics of it. id names the request.
func (s *Server) respond(call string, f func(w http.ResponseWriter, r *http.Request, id string) (answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun, id := time.Now(), s.nextID()
		h := w.Header()
		h.Set("X-Request-Id", id)
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")

		result := "ok"
		a, err := f(w, r, id)
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
				h.Set("Retry-After", "1") // second
			}
			a = answer{status: p.Status, body: p}
		}
		took := time.Since(begun) // to the answer, not of a stream
		s.cfg.Observe(call, result, took)
		if a.stream != nil {
			err = a.stream(w, r)
		} else {
			err = write(w, a)
		}
		if err != nil {
			s.cfg.Logger.LogAttrs(r.Context(), slog.LevelDebug, "admin answer could not be sent",
				logattr.Request(id), logattr.Kind(call), logattr.Err(err))
		}
		s.cfg.Logger.LogAttrs(r.Context(), slog.LevelDebug, "admin request answered",
			logattr.Request(id), logattr.Kind(call), slog.String("result", result), logattr.Took(took))
	})
}

// answer checks the request and lets the route answer it.
func (s *Server) answer(rt route, w http.ResponseWriter, r *http.Request, id string) (a answer, err error) {
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
	}
	query, err := parseQuery(r.URL.RawQuery, rt.query)
	if err != nil {
		return answer{}, err
	}
	body, err := readBody(w, r)
	if err != nil {
		return answer{}, err
	}

	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer cancel()
	if rt.instant {
		return rt.handle(ctx, &request{http: r, query: query, body: body})
	}
	select { // the body is read by now: a slow client has no place
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return answer{}, problem(http.StatusServiceUnavailable, CodeBusy,
			"%d requests are being answered, and none was done within %v: try again", MaxRequests, s.cfg.Timeout)
	}
	return rt.handle(ctx, &request{http: r, query: query, body: body})
}

// mayWrite reports why the caller may not change anything.
func (s *Server) mayWrite(w http.ResponseWriter, r *http.Request) error {
	if s.cfg.Token == "" {
		if !s.cfg.ReadOnly {
			return nil
		}
		return problem(http.StatusForbidden, CodeReadOnly,
			"this address only answers questions: use the admin socket, or set RINGLET_TOKEN to allow changes with a token")
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	// Hashes have the same length, so that the comparison tells nothing.
	given, want := sha256.Sum256([]byte(strings.TrimSpace(token))), sha256.Sum256([]byte(s.cfg.Token))
	if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
		return nil
	}
	w.Header().Set("WWW-Authenticate", `Bearer realm="ringlet"`)
	return problem(http.StatusUnauthorized, CodeUnauthorized,
		"changes need the value of RINGLET_TOKEN as bearer token, and the request brought none or another")
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
func write(w http.ResponseWriter, a answer) error {
	h := w.Header()
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.body == nil {
		w.WriteHeader(a.status)
		return nil
	}
	var text []byte
	switch body := a.body.(type) {
	case string:
		h.Set("Content-Type", "text/plain; charset=utf-8")
		text = []byte(body)
	case *Problem:
		h.Set("Content-Type", "application/problem+json")
		text = encode(body)
	default:
		h.Set("Content-Type", "application/json")
		text = encode(body)
	}
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(cmp.Or(a.status, http.StatusOK))
	_, err := w.Write(text)
	return err
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
