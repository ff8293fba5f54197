package driver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/docker/go-plugins-helpers/sdk"

	"github.com/ringlet/ringlet/internal/logattr"
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
func (d *Driver) serve(w http.ResponseWriter, r *http.Request, to *route, o *ongoing) {
	c := &call{number: d.lastID.Add(1), method: to.method, begun: time.Now()}
	to.calls.Add(1)
	text := d.buffer()
	defer d.keep(text)

	answer, err := d.answer(w, r, c, to.handle, text, o)
	v := judge(c, err, d.cfg.Timeout)
	switch {
	case answer == nil:
		v.lost = !d.takeBack(r.Context(), c) || v.lost
		answer = refusal{v.text}
	case err != nil:
		v.lost = true // a release that failed, and is answered as if it had not
	}
	if undelivered := d.deliver(w, r, answer, text); undelivered != nil {
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
			d.cfg.Observe(c.method, v.result, took)
		}
		return nil
	}); broken != nil {
		err = errors.Join(err, broken)
		v = judge(c, broken, d.cfg.Timeout)
	}
	d.count(err)
	d.log(r.Context(), c, v, err, took)
}

// buffer returns memory for the texts of a call. It is empty.
func (d *Driver) buffer() *bytes.Buffer {
	b, _ := d.buffers.Get().(*bytes.Buffer) // there is nothing else in it
	b.Reset()
	return b
}

// keep has memory used again, unless it is more than calls need but for rare ones.
func (d *Driver) keep(b *bytes.Buffer) {
	if b.Cap() <= 4<<10 {
		d.buffers.Put(b)
	}
}

// answer reads the request, with text as memory, and has its handler answer it.
// Nothing of the answer may point into text.
func (d *Driver) answer(w http.ResponseWriter, r *http.Request, c *call, h handler, text *bytes.Buffer, o *ongoing) (
	answer any, err error,
) {
	// The body is read to its end: only then net/http watches the connection,
	// and ends the request's context when the engine has gone.
	body, err := d.read(w, r, text)
	switch {
	case err != nil:
		return nil, err
	case len(body) == 0 && !bodiless(c.method):
		return nil, errNoBody
	}
	ctx, cancel := context.WithTimeout(r.Context(), d.cfg.Timeout)
	defer cancel()
	o.begin(c, cancel)
	defer o.done(c)
	err = guard(func() (err error) {
		answer, err = h(ctx, c, body)
		return err
	})
	if errors.Is(err, context.Canceled) && o.ended.Load() && !gone(r.Context()) {
		err = errStopping
	}
	return answer, err
}

// read returns the body without the space around it.
func (d *Driver) read(w http.ResponseWriter, r *http.Request, text *bytes.Buffer) ([]byte, error) {
	body := r.Body
	if r.ContentLength < 0 || r.ContentLength > d.cfg.MaxBody { // else it cannot be longer
		body = http.MaxBytesReader(w, body, d.cfg.MaxBody)
	}
	_, err := text.ReadFrom(body)
	if _, tooLong := errors.AsType[*http.MaxBytesError](err); tooLong {
		return nil, errBody(fmt.Sprintf("it is longer than %d bytes", d.cfg.MaxBody))
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCutOff, err)
	}
	return bytes.TrimSpace(text.Bytes()), nil
}

// contentType is a header of all answers. It is only read.
var contentType = []string{sdk.DefaultContentTypeV1_1}

// deliver writes the answer, with text as memory, and returns an error that
// wraps errGone if nobody can have got it.
func (d *Driver) deliver(w http.ResponseWriter, r *http.Request, answer any, text *bytes.Buffer) error {
	if gone(r.Context()) {
		return fmt.Errorf("%w: %w", errGone, context.Cause(r.Context()))
	}
	text.Reset()
	if err := encode(text, answer); err != nil {
		return err
	}
	h := w.Header()
	h["Content-Type"] = contentType
	h["Content-Length"] = []string{strconv.Itoa(text.Len())}
	_, err := w.Write(text.Bytes())
	if err == nil {
		// What is only buffered fails after the handler has returned, unseen.
		err = http.NewResponseController(w).Flush()
	}
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("%w: %w", errGone, err)
	}
	return nil
}

// gone reports whether the engine has closed the request's connection.
func gone(ctx context.Context) bool { return ctx.Err() != nil }

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
