package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/docker/go-plugins-helpers/sdk"

	"github.com/ringlet/ringlet/internal/logattr"
	"github.com/ringlet/ringlet/ipam"
)

// undoTime bounds taking back what could not be delivered. It is not part of
// the request's time, which may be over.
const undoTime = 5 * time.Second

// call is one request on its way through the driver.
type call struct {
	number uint32
	method string
	begun  time.Time

	// What is known of it, for log and sentences.
	pool      netip.Prefix
	addr      netip.Addr
	container string

	// undo takes back what was granted; nil if nothing was.
	undo func(context.Context) error
}

// ID returns what log and user call the request.
func (c *call) ID() string { return fmt.Sprintf("%08x", c.number) }

// serve takes a request from its body to its answer, and to what follows if
// the answer was not what it should have been.
func (d *Driver) serve(w http.ResponseWriter, r *http.Request, method string, h handler) {
	c := &call{number: d.lastID.Add(1), method: method, begun: time.Now()}
	d.calls[method].Add(1)

	answer, err := d.answer(w, r, c, h)
	v := judge(c, err, d.cfg.Timeout)
	switch {
	case answer == nil:
		v.lost = !d.takeBack(r.Context(), c) || v.lost
		answer = refusal{v.text}
	case err != nil:
		v.lost = true // a release that failed, and is answered as if it had not
	}
	if undelivered := deliver(w, r, answer); undelivered != nil {
		err = errors.Join(undelivered, err)
		v = judge(c, err, d.cfg.Timeout)
		v.lost = !d.takeBack(r.Context(), c) || v.lost
	}
	took := time.Since(c.begun)

	// The answer is on its way. Nothing may break the connection now, or the
	// engine's next request on it would be repeated without a body.
	if broken := guard(func() error {
		if v.lost || gone(r.Context()) {
			d.cfg.Backend.Recheck()
		}
		if d.cfg.Observe != nil {
			d.cfg.Observe(method, v.result, took)
		}
		return nil
	}); broken != nil {
		err = errors.Join(err, broken)
		v = judge(c, broken, d.cfg.Timeout)
	}
	d.count(err)
	d.log(r.Context(), c, v, err, took)
}

// answer reads the request and has its handler answer it.
func (d *Driver) answer(w http.ResponseWriter, r *http.Request, c *call, h handler) (answer any, err error) {
	// The body is read to its end: only then net/http watches the connection,
	// and ends the request's context when the engine has gone.
	body, err := d.read(w, r)
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0 && !bodiless(c.method):
		return nil, errNoBody
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.cfg.Timeout)
	defer cancel()
	err = guard(func() (err error) {
		answer, err = h(ctx, c, body)
		return err
	})
	if errors.Is(err, context.Canceled) && stopping(ctx) {
		err = errStopping
	}
	return answer, err
}

// read returns the body without the space around it.
func (d *Driver) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, d.cfg.MaxBody))
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, errBody(fmt.Sprintf("it is longer than %d bytes", d.cfg.MaxBody))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCutOff, err)
	}
	return bytes.TrimSpace(body), nil
}

// deliver writes the answer, and returns an error that wraps errGone if
// nobody can have got it.
func deliver(w http.ResponseWriter, r *http.Request, answer any) error {
	if gone(r.Context()) {
		return fmt.Errorf("%w: %w", errGone, context.Cause(r.Context()))
	}
	text, err := encode(answer)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", sdk.DefaultContentTypeV1_1)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	if _, err = w.Write(text); err == nil {
		// What is only buffered fails after the handler has returned, unseen.
		err = http.NewResponseController(w).Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// gone reports whether the engine has closed the request's connection.
func gone(ctx context.Context) bool { return ctx.Err() != nil && !stopping(ctx) }

// stopping reports whether the context was ended by [Driver.Serve].
func stopping(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ipam.ErrStopped) }

// takeBack undoes what a call was granted, and reports whether nothing is left
// of it.
func (d *Driver) takeBack(ctx context.Context, c *call) bool {
	undo := c.undo
	if undo == nil {
		return true
	}
	c.undo = nil
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	d.withdrawn.Add(1)
	err := guard(func() error { return undo(ctx) })
	if err != nil {
		d.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "undelivered grant not taken back", c.attrs(err)...)
	}
	return err == nil
}

// guard runs f and turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &panicked{value: v, stack: debug.Stack()}
		}
	}()
	return f()
}

// log writes down what became of a call, never what was in its body.
func (d *Driver) log(ctx context.Context, c *call, v verdict, err error, took time.Duration) {
	if !d.cfg.Logger.Enabled(ctx, v.level) {
		return
	}
	attrs := append(c.attrs(err), slog.String("result", v.result), logattr.Took(took))
	switch {
	case err == nil:
		d.cfg.Logger.LogAttrs(ctx, v.level, "request answered", attrs...)
	case v.result == resultUndelivered:
		d.cfg.Logger.LogAttrs(ctx, v.level, "answer not delivered", attrs...)
	case v.level < slog.LevelWarn:
		d.cfg.Logger.LogAttrs(ctx, v.level, "request refused", attrs...)
	default:
		d.cfg.Logger.LogAttrs(ctx, v.level, "request failed", attrs...)
	}
}

// attrs returns what is known of a call, and the error that concerns it.
func (c *call) attrs(err error) []slog.Attr {
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs, logattr.Kind(c.method), logattr.Request(c.ID()))
	if c.pool.IsValid() {
		attrs = append(attrs, logattr.Pool(c.pool))
	}
	if c.addr.IsValid() {
		attrs = append(attrs, logattr.Addr(c.addr))
	}
	if c.container != "" {
		attrs = append(attrs, logattr.Container(c.container))
	}
	if err != nil {
		attrs = append(attrs, slog.String("err", clip(err.Error())))
	}
	if p, ok := errors.AsType[*panicked](err); ok {
		attrs = append(attrs, slog.String("stack", clipTo(string(p.stack), maxStack)))
	}
	return attrs
}
