package driver

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/go-plugins-helpers/sdk"

	"github.com/ringlet/ringlet/internal/logattr"
)

// Defaults of [Config].
const (
	DefaultTimeout = 20 * time.Second
	DefaultGrace   = 5 * time.Second
	DefaultMaxBody = 64 << 10
)

// Config is what a [Driver] is made of.
type Config struct {
	Backend Backend      // must not be nil
	Logger  *slog.Logger // must not be nil

	// Timeout is how long a request may wait for what it needs; 0 means
	// DefaultTimeout. Engines wait 30 seconds, or for ever.
	Timeout time.Duration
	// Grace is how long requests may go on when the process is to end, before
	// they are answered that it does; 0 means DefaultGrace. Engines kill a
	// plugin 10 seconds after they asked it to end.
	Grace time.Duration
	// MaxBody is the longest body that is read, in bytes; 0 means
	// DefaultMaxBody.
	MaxBody int64
	// NoMAC has engines give endpoints no MAC before they ask for an address, as
	// networks of driver ipvlan need it. Before 29 the requests of containers then
	// have no options.
	NoMAC bool
	// KeepsChosen reports whether the engine keeps the subnet that it is granted for 0.0.0.0/26 or ::/80, any subnet of that
	// size: from 29 on. Older ones would ask for another one at each start. It must not block; nil: such subnets are refused.
	KeepsChosen func() bool
	// Observe is called after each request with the call's name, its result
	// and the time until its answer was sent. Results are ok, a code of
	// ipam.Code, no-body, cut-off, panic and undelivered. It must not block;
	// it may be nil.
	Observe func(call, result string, took time.Duration)
}

// withDefaults returns a copy with the defaults filled in, or all that is
// wrong.
func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Backend == nil {
		errs = append(errs, errors.New("the driver needs a backend"))
	}
	if c.Logger == nil {
		errs = append(errs, errors.New("the driver needs a logger"))
	}
	if c.Timeout < 0 || c.Grace < 0 || c.MaxBody < 0 {
		errs = append(errs, fmt.Errorf("the driver's limits must not be negative: timeout %v, grace %v, body %d bytes", c.Timeout, c.Grace, c.MaxBody))
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Grace == 0 {
		c.Grace = DefaultGrace
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	return c, errors.Join(errs...)
}

// Driver answers engines. Make it with [New]; it is safe for concurrent use.
type Driver struct {
	cfg          Config
	routes       map[string]*route // by path
	lastID       atomic.Uint32     // begins at random, so that the IDs of two runs differ
	handlerCalls ongoing           // what [Driver.Handler] answers
	buffers      sync.Pool         // of *bytes.Buffer, for bodies and answers
	known        networks

	noBodies, withdrawn, panics atomic.Uint64
}

// New returns a driver, or an error that lists all that is wrong with cfg. It
// starts nothing.
func New(cfg Config) (*Driver, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Driver{cfg: cfg, routes: map[string]*route{}, buffers: sync.Pool{New: func() any { return new(bytes.Buffer) }}}
	var seed [4]byte
	_, _ = rand.Read(seed[:]) // never fails, see its documentation
	d.lastID.Store(binary.BigEndian.Uint32(seed[:]))
	for method, h := range d.handlers() {
		d.routes["/IpamDriver."+method] = &route{method: method, handle: h}
	}
	return d, nil
}

// route is one of the calls.
type route struct {
	method string
	handle handler
	calls  atomic.Uint64
}

// dispatch has a request served. A table is enough for that: there are a few
// paths without parts.
func (d *Driver) dispatch(w http.ResponseWriter, r *http.Request, o *ongoing) {
	if to, ok := d.routes[r.URL.Path]; ok && r.Method == http.MethodPost {
		d.serve(w, r, to, o)
		return
	}
	d.unknown(w, r)
}

// unknown answers a call that newer engines may have. They take the status for
// what it says and go on without.
func (d *Driver) unknown(w http.ResponseWriter, r *http.Request) {
	d.cfg.Logger.LogAttrs(r.Context(), slog.LevelDebug, "unknown call answered", logattr.Kind(clipTo(r.URL.Path, maxQuote)))
	http.Error(w, "ringlet does not have this call", http.StatusNotFound)
}

// Handler returns the calls alone, without the activation that [Driver.Serve]
// adds.
func (d *Driver) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { d.dispatch(w, r, &d.handlerCalls) })
}

// Serve answers on l until ctx ends, or returns the error that ended it
// before. Requests that are being answered when ctx ends may finish; those
// that still wait after [Config].Grace are answered with an error. It closes l,
// and may be called for several listeners.
func (d *Driver) Serve(ctx context.Context, l net.Listener) error {
	var calls ongoing // they outlive ctx by the grace, so something else ends them
	defer calls.end()
	var server atomic.Pointer[http.Server]
	plugin := sdk.NewHandler(manifest)
	plugin.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if server.Load() == nil {
			if srv, ok := r.Context().Value(http.ServerContextKey).(*http.Server); ok {
				server.Store(srv)
			}
		}
		d.dispatch(w, r, &calls)
	})
	ended := make(chan error, 1)
	go func() { ended <- plugin.Serve(l) }()
	failed := func(err error) error {
		return fmt.Errorf("the engine's socket %v is no longer served: %w", l.Addr(), err)
	}
	select {
	case err := <-ended:
		return failed(err)
	case <-ctx.Done():
	}
	if srv := server.Load(); srv != nil {
		d.shutdown(ctx, srv, &calls)
	} else {
		_ = l.Close() // no request has come yet
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		return failed(err) // at the same moment
	}
	return nil
}

// shutdown lets requests finish, then has those that wait answered, and at
// last closes what is still open.
func (d *Driver) shutdown(ctx context.Context, srv *http.Server, calls *ongoing) {
	ctx = context.WithoutCancel(ctx)
	grace, cancel := context.WithTimeout(ctx, d.cfg.Grace)
	defer cancel()
	if srv.Shutdown(grace) == nil {
		return
	}
	calls.end()
	last, cancel := context.WithTimeout(ctx, shutdownWait)
	defer cancel()
	if srv.Shutdown(last) != nil {
		_ = srv.Close() // the listener is closed already
	}
}

// shutdownWait is how long it may take to answer that the process ends.
const shutdownWait = time.Second
