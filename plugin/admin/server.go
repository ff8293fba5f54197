package admin

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/ringlet/ringlet/plugin/events"
	"github.com/ringlet/ringlet/plugin/logging"
)

// Limits of a [Server].
const (
	// MaxBody is the largest body of a request, in bytes.
	MaxBody = 64 << 10
	// MaxRequests is how many requests may be with the Backend at a time.
	MaxRequests = 64
	// MaxStreams is how many may follow the events at a time.
	MaxStreams = 32
	// DefaultTimeout is how long the Backend has for a request.
	DefaultTimeout = 20 * time.Second

	// maxConns bounds what clients can make us keep: connections beyond it
	// wait to be accepted.
	maxConns = 4 * MaxRequests

	maxHeader     = 16 << 10 // bytes
	readTimeout   = 10 * time.Second
	writeTimeout  = 10 * time.Second // beside the Backend's time
	idleTimeout   = time.Minute
	shutdownGrace = 5 * time.Second
)

// Config is what a [Server] needs.
type Config struct {
	Backend Backend      // must not be nil
	Logger  *slog.Logger // must not be nil
	Process Process      // nil: nothing is told of the process around the peer
	// Networks returns the pools of the Docker networks of this host with a name, which stands for its pool then;
	// nil: none does.
	Networks func(name string) []netip.Prefix
	// DefaultPool is the pool of a request for an address that names none, by CIDR or
	// name; empty: the only pool.
	DefaultPool string
	Metrics     http.Handler // serves /metrics; nil: there is no such path

	// Remote is true for an address that strangers may reach: what they cost is
	// bounded, and what only reads may be told what was so 250 ms ago. Without a
	// Token nothing can be changed there.
	Remote bool
	// Token is what every request over a remote address that could change something
	// must bring (Authorization: Bearer). Reading needs no token.
	Token string
	// Hosts are names by which a remote address may be asked, beside localhost and any
	// IP address.
	Hosts []string
	// TLS, where there is one, is spoken on a remote address.
	TLS *tls.Config
	// Context, where there is one, marks the context that the Backend gets.
	Context func(context.Context) context.Context

	// Timeout is how long a request may be with the Backend, including its
	// wait for one of the [MaxRequests] places; default [DefaultTimeout].
	Timeout time.Duration

	// Page serves the status page at PagePaths, one of which is /; nil: there is
	// none.
	Page      http.Handler
	PagePaths []string
	// Events are what /v1/events shows; nil: there is no such path.
	Events *events.Log

	// Journal answers /v1/journal/…; nil: there is no such path.
	Journal Journal

	// Directory answers /v1/kv/…, and what is asked of other peers' addresses;
	// nil: there is no such path, and nothing is known of those.
	Directory Directory

	// Locks answers /v1/locks/…; nil: there is no such path.
	Locks Locks

	// Observe, where there is one, is told of every request answered: its
	// call, by a name from a fixed list, the code of the problem or "ok", and
	// how long it took. It must not block.
	Observe func(call, result string, took time.Duration)
	// Written, where there is one, is told of every request that was allowed to change
	// something, once it is answered. It must not block.
	Written func(Write)
}

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Observe == nil {
		c.Observe = func(string, string, time.Duration) {}
	}
	if c.Written == nil {
		c.Written = func(Write) {}
	}
	return c
}

func (c Config) validate() error {
	var errs []error
	if c.Backend == nil {
		errs = append(errs, errors.New("the admin API needs a backend"))
	}
	if c.Logger == nil {
		errs = append(errs, errors.New("the admin API needs a logger"))
	}
	if c.Token != "" && !c.Remote {
		errs = append(errs, errors.New("the admin API has a token, and its address is not remote"))
	}
	if c.Timeout < 0 {
		errs = append(errs, fmt.Errorf("the admin API's timeout is negative: %v", c.Timeout))
	}
	return errors.Join(errs...)
}

// Server answers the API's requests. It is safe for concurrent use.
type Server struct {
	cfg     Config
	handler http.Handler
	places  slots // one for each request that is with the Backend, or whose answer is being written
	lists   slots // one for each list of any length
	readers slots // one for each that reads the whole directory
	pasts   slots // one for each that reads the journal
	streams slots // one for each stream of events
	scrapes slots // one for each that reads the metrics

	underWay *budget // bytes of answers
	crowd    *crowd  // of clients; nil: nobody is a stranger
	views    *crowd  // of lists that wait for the Backend, which may take long

	guesses guesses // of tokens

	snapshots, statuses *recent
	wrote               atomic.Int64 // when something was last changed through this server, in Unix nanoseconds

	boot     string // random, so that an ID does not come again after a restart
	requests atomic.Uint64
}

// New returns a server with the settings of cfg, or an error that lists all
// that is wrong with them. It starts nothing.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	var boot [3]byte
	_, _ = rand.Read(boot[:]) // never fails, see its documentation
	s := &Server{
		cfg:     cfg.withDefaults(),
		places:  make(slots, MaxRequests),
		lists:   make(slots, maxLists),
		readers: make(slots, maxReaders),
		pasts:   make(slots, maxPasts),
		streams: make(slots, MaxStreams),
		scrapes: make(slots, maxScrapes),

		guesses:   guesses{all: map[netip.Addr]guess{}},
		underWay:  &budget{left: maxUnderWay},
		snapshots: newRecent(), statuses: newRecent(),

		boot: hex.EncodeToString(boot[:]),
	}
	if cfg.Remote {
		s.crowd, s.views = newCrowd(), newCrowd()
	}
	s.handler = s.admit(s.mux())
	return s, nil
}

// levelOf returns the level of a line of net/http. Clients that break off or talk nonsense are no concern of an
// operator; that no more connections can be accepted is.
func levelOf(text string) slog.Level {
	if strings.HasPrefix(text, "http: Accept error") {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Handler returns the API, for a listener other than those of [Server.Serve].
// It has the limits of requests, not those of connections.
func (s *Server) Handler() http.Handler { return s.handler }

// Serve answers on l until ctx ends, lets requests that are being answered
// finish for up to 5 seconds, and returns nil; or the error that ended it
// before. It closes l. It may be called for several listeners.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	// Requests outlive ctx by the grace period, so theirs is another; streams
	// do not, and are told of its end.
	base, cancel := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), endKey{}, ctx.Done()))
	defer cancel()
	srv := &http.Server{
		Handler:           s.handler,
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      readTimeout + s.cfg.Timeout + writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(logging.Lines(s.cfg.Logger, levelOf), "", 0),
	}
	failed := make(chan error, 1)
	accepting := netutil.LimitListener(localListener{l}, maxConns)
	if s.cfg.Remote {
		accepting = newFairListener(accepting)
	}
	if s.cfg.TLS != nil {
		accepting = tls.NewListener(accepting, s.cfg.TLS)
	}
	go func() { failed <- srv.Serve(accepting) }()
	select {
	case err := <-failed:
		_ = srv.Close() // the error that counts is err
		return fmt.Errorf("admin API stopped answering on %v: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	grace, stop := context.WithTimeout(base, shutdownGrace)
	defer stop()
	if srv.Shutdown(grace) != nil {
		cancel()
		_ = srv.Close() // the listener is closed already
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("admin API stopped answering on %v: %w", l.Addr(), err)
	}
	return nil
}

// nextID names a request in the log and in the answer.
func (s *Server) nextID() string {
	return fmt.Sprintf("%s-%x", s.boot, s.requests.Add(1))
}
