package serving

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/ringlet/ringlet/driver"
	"github.com/ringlet/ringlet/internal/backoff"
	"github.com/ringlet/ringlet/plugin/certfile"
	"github.com/ringlet/ringlet/plugin/fault"
)

// What fails is tried again after FirstRetry, and each time later, up to LastRetry.
const (
	FirstRetry = 100 * time.Millisecond
	LastRetry  = 10 * time.Second
)

// Service is an API at an address that may be taken, or not be there yet, when
// the process starts, and that may be lost later. Addresses are handed out
// without it, so it is tried again for as long as the process lives.
type Service struct {
	open   net.Listener // at the start; nil: none
	listen func(ctx context.Context) (net.Listener, error)
	serve  Func
	fault  *fault.Fault
}

// Part is something that runs beside the others, and may have a fault.
type Part struct {
	Run   func(context.Context) error
	Fault *fault.Fault
}

// Part returns the service as a part.
func (s *Service) Part() Part { return Part{s.Run, s.fault} }

// Run serves whenever it can, until ctx ends. Its error is always nil.
func (s *Service) Run(ctx context.Context) error {
	pause := backoff.Backoff{First: FirstRetry, Last: LastRetry}
	for l := s.open; ctx.Err() == nil; l = nil {
		begun := time.Now()
		err := s.attempt(ctx, l)
		if ctx.Err() != nil {
			break
		}
		s.fault.Set(cause(err))
		if time.Since(begun) > LastRetry {
			pause.Reset() // it was well for a while
		}
		backoff.Sleep(ctx, pause.Next(), nil)
	}
	return nil //nolint:nilerr // the last attempt ended because ctx did
}

// attempt serves on l, or on a new listener if it is nil, until ctx ends or
// that fails.
func (s *Service) attempt(ctx context.Context, l net.Listener) error {
	if l == nil {
		var err error
		if l, err = s.listen(ctx); err != nil {
			return err
		}
	}
	s.fault.Set(nil)
	return s.serve(ctx, l)
}

// cause strips an error of the network of its address, which its reader has
// just been told.
func cause(err error) error {
	if e, ok := errors.AsType[*net.OpError](err); ok {
		err = e.Err
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok && e.IsNotFound {
		return fmt.Errorf("the name %s does not resolve to an address", e.Name)
	}
	return err
}

// NewHTTP returns the service on RINGLET_HTTP.
func NewHTTP(address string, serve Func, logger *slog.Logger) *Service {
	return &Service{
		listen: func(ctx context.Context) (net.Listener, error) {
			var lc net.ListenConfig
			return lc.Listen(ctx, "tcp", address)
		},
		serve: serve,
		fault: &fault.Fault{
			Logger: logger, Code: "http-unavailable",
			Text: func(err error) string {
				return fmt.Sprintf("metrics and the API are not served on %s (RINGLET_HTTP): %v", address, err)
			},
			Next: fmt.Sprintf("stop the program that has the address (ss -ltnp shows it), or set RINGLET_HTTP to off or to another address of this host with a port from 1024 on; ringlet tries again at least every %v", LastRetry),
		},
	}
}

// NewAdmin returns the service on the admin socket at path, which is open
// already: at the start, the operator is there to read about a wrong path.
func NewAdmin(open net.Listener, path string, serve Func, logger *slog.Logger) *Service {
	return &Service{
		open:   open,
		listen: func(context.Context) (net.Listener, error) { return driver.Listen(path) },
		serve:  serve,
		fault: &fault.Fault{
			Logger: logger, Code: "admin-unavailable",
			Text: func(err error) string {
				return fmt.Sprintf("the ringlet commands cannot reach this host, because the socket %s is not served: %v", path, err)
			},
			Next: fmt.Sprintf("check that no other process has that path; ringlet tries again at least every %v", LastRetry),
		},
	}
}

// NewCertificate returns what reads the certificate of RINGLET_HTTP, at the start and when
// it is replaced. Addresses are handed out whatever is wrong with it.
func NewCertificate(address string, pair *certfile.Pair, logger *slog.Logger) Part {
	f := &fault.Fault{
		Logger: logger, Code: "http-certificate",
		Text: func(err error) string {
			return fmt.Sprintf("the certificate of %s (RINGLET_HTTP) cannot be read, so the last good one stays in use, and without one no client is answered: %v", address, err)
		},
		Next: "let RINGLET_HTTP_CERT and RINGLET_HTTP_KEY name a certificate and its private key, both in PEM; the files are read again within 10 seconds",
	}
	return Part{func(ctx context.Context) error { return pair.Run(ctx, f.Set) }, f}
}
